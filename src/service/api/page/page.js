// Asks the service what it knows and shows it. No library, no other host.
"use strict";

const $ = (id) => document.getElementById(id);
const EVERY = 5000;
const shown = {
  fabric: null, pictures: null, epochs: [], current: null, load: null, jobs: [],
  epoch: null, // chosen; null follows the one in force
  job: null, // chosen; null shows all
  sort: { key: "id", down: false },
  against: "before", // what the epoch is compared with: before, fabric, opensm, or the number of an epoch
  show: "both", // or the difference
  acts: [], picked: null, // a switch or a cable
  view: { scale: 1, x: 0.5, y: 0.5 }, // of the pictures: how near, and what is in the middle
};

class Refused extends Error {}

async function ask(path, body) {
  const headers = {};
  const token = sessionStorage.getItem("token");
  if (token) headers.Authorization = "Bearer " + token;
  const sent = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  const answer = await fetch(path, { headers, ...sent });
  const said = await answer.json().catch(() => ({}));
  if (answer.status === 401 || answer.status === 403) throw new Refused(said.error || "refused");
  if (!answer.ok) throw Object.assign(new Error(said.error || `the service answers ${answer.status}`), { status: answer.status });
  return said;
}

// Element with text (never markup: names come from the fabric) and children.
function make(tag, text, ...children) {
  const element = document.createElement(tag);
  if (text !== null) element.textContent = text;
  element.append(...children);
  return element;
}

const clock = (time) => (time ? new Date(time).toLocaleString() : "–");
const words = (name) => name.replaceAll("_", " ");

function showHealth(health) {
  const box = $("health");
  box.className = health.healthy ? "" : "bad";
  const verdict = health.healthy ? "healthy" : `${health.problems.length} to look at`;
  const facts = [
    shown.current === null ? "nothing published yet" : health.torus ? `change ${shown.current} on the nodes` : `epoch ${shown.current} in force`,
    health.acknowledged ? `OpenSM took it in ${health.acknowledged.milliseconds} ms` : null,
    health.last_success ? `last pass ${ago(health.last_success)}` : "no pass yet",
    health.next_pass ? `next ${ago(health.next_pass)}` : null,
    health.waiting_jobs ? `${health.waiting_jobs} young jobs wait` : null,
  ];
  box.title = `last pass ${clock(health.last_success)}, times of ${Intl.DateTimeFormat().resolvedOptions().timeZone}`;
  box.replaceChildren(make("b", verdict), " · " + facts.filter(Boolean).join(" · "));
  $("problems").replaceChildren(...health.problems.map((p) => make("li", p)));
}

// What a bar shows of an epoch: how much longer than nobody in the way; of a torus without slow-downs, the largest load.
function bars(e) {
  const slow = (value) => (value === null ? 0 : value - 1);
  if (typeof e.slowdown_after === "number") {
    const without = typeof e.slowdown_oblivious === "number" ? slow(e.slowdown_oblivious) : null;
    return { kind: "slow", without, before: slow(e.slowdown_before), now: slow(e.slowdown_after) };
  }
  return { kind: "load", without: null, before: e.effective_max_before || 0, now: e.effective_max_after };
}

// Figures of an epoch in words.
function figures(e) {
  const arrow = (before, now) => (before === null ? now : `${before} → ${now}`);
  const two = (value) => (value === null ? null : value.toFixed(2));
  const loads = `largest load ${arrow(e.effective_max_before, e.effective_max_after)}`;
  if (typeof e.slowdown_after !== "number") return loads;
  const without = typeof e.slowdown_oblivious === "number" ? ` (${two(e.slowdown_oblivious)} without jobs)` : "";
  return `slow-down ${arrow(two(e.slowdown_before), two(e.slowdown_after))}${without}, ${loads}`;
}

function showEpochs() {
  const most = { slow: 0.05, load: 1 };
  for (const { kind, without, before, now } of shown.epochs.map(bars)) most[kind] = Math.max(most[kind], without, before, now);
  const chosen = shown.epoch === null ? shown.current : shown.epoch;
  const bar = (when, value, kind) => {
    const element = make("i", null);
    element.className = "key " + when;
    element.style.height = (70 * value) / most[kind] + "px";
    return element;
  };
  const box = $("epochs");
  const atEnd = box.scrollLeft + box.clientWidth >= box.scrollWidth - 4;
  box.replaceChildren(...inTime(shown.epochs.map((e) => {
    const { kind, without, before, now } = bars(e);
    const button = make("button", null, bar("before", before, kind), bar("now", now, kind));
    if (without !== null) button.prepend(bar("without", without, kind));
    button.type = "button";
    button.dataset.epoch = e.epoch;
    button.dataset.time = e.created;
    button.classList.toggle("loss", e.reason === "fabric_changed");
    button.title = `epoch ${e.epoch}, ${clock(e.created)}, ${words(e.reason)}: ${figures(e)}`;
    button.setAttribute("aria-label", button.title);
    button.setAttribute("aria-pressed", e.epoch === chosen);
    button.addEventListener("click", () => choose(e.epoch === shown.current ? null : e.epoch, null));
    return button;
  })));
  if (atEnd) box.scrollLeft = box.scrollWidth;
  const e = shown.epochs.find((e) => e.epoch === chosen);
  $("epoch").textContent = e
    ? e.jobs_in ? change(e) : `Epoch ${e.epoch}${e.epoch === shown.current ? " (in force)" : ""}, ${clock(e.created)}: ${words(e.reason)}, ${figures(e)}, `
      + `${e.multi_switch_jobs} multi-switch jobs, engine ${e.engine}, ${e.layers} virtual layer${e.layers === 1 ? "" : "s"}, `
      + `${(100 * e.dark_fiber).toFixed(0)} % of the channels unused, computed in ${e.milliseconds.toFixed(0)} ms`
    : "";
}

// A change of a direct torus's tables. Those of the newest alone can be drawn.
function change(e) {
  const jobs = [...e.jobs_in.map((id) => "+" + id), ...e.jobs_out.map((id) => "−" + id)];
  return `Change ${e.epoch}${e.epoch === shown.current ? " (on the nodes)" : ", not drawn below"}, ${clock(e.created)}: `
    + `${words(e.reason)}${jobs.length ? ", jobs " + jobs.join(" ") : ""}, ${e.multi_switch_jobs} jobs with tables, `
    + `engine ${e.engine}, ${(100 * e.dark_fiber).toFixed(0)} % of the channels unused, computed in ${e.milliseconds.toFixed(0)} ms`;
}

const isDirect = () => shown.fabric !== null && shown.fabric.direct;
const isDark = () => document.documentElement.classList.contains("dark");
const largest = (loads) => loads.reduce((a, b) => Math.max(a, b), 0);

function showLoad() {
  const { fabric, load, pictures } = shown;
  if (!fabric || !load) return;
  const other = beside();
  const isDifference = shown.show === "difference" && other !== null;
  const full = Math.max(1, isDifference ? mostDifferent(load.now, other.loads) : Math.max(largest(load.now), other ? largest(other.loads) : 0));
  const whose = shown.job === null ? "inside jobs" : `of job ${shown.job}`;
  const title = (what, loads) => `${what}: at most ${largest(loads)} routes ${whose} on a channel${least(load.bound)}, `
    + `${loads.filter((n) => n === 0).length} of ${loads.length} channels unused`;
  const caption = (id, text) => {
    $("t-" + id).textContent = text;
    $(id).setAttribute("aria-label", text);
  };
  const ofNow = title(`${isDirect() ? "Change" : "Epoch"} ${load.epoch}`, load.now) + (load.other_fabric ? " (made for another fabric)" : "");
  caption("now", isDifference ? differenceTitle(load.now, other) : ofNow);
  // First, as it gives the other its width.
  $("before").closest("figure").hidden = !other || isDifference;
  pictures.now.draw(load.now, full, isDark(), isDifference ? other.loads : null);
  if (other && !isDifference) {
    caption("before", title(other.title, other.loads));
    pictures.before.draw(other.loads, full, isDark(), null);
  }
  if (isDifference) showDifferenceScale(full);
  else showScale(full);
  showChoices();
  showPicked();
  const wanted = $("which").value.trim();
  const by = (c) => (other ? load.now[c] - other.loads[c] : 0);
  const fits = (c) => (load.now[c] > 0 || (isDifference && by(c) !== 0)) && (!wanted || channelName(c).includes(wanted));
  const order = load.now.map((_, c) => c).filter(fits);
  const weight = (c) => (isDifference ? Math.abs(by(c)) : load.now[c]);
  order.sort((a, b) => weight(b) - weight(a) || a - b);
  $("b-before").textContent = other ? other.name : "before";
  $("busiest").replaceChildren(...order.slice(0, 12).map((c) =>
    make("tr", null, make("td", channelName(c)), make("td", load.now[c]), make("td", other ? other.loads[c] : "–"), make("td", other ? signed(by(c)) : "–"))));
  if (!document.body.dataset.drawn) document.body.dataset.drawn = Math.round(performance.now());
}

function showScale(full) {
  const canvas = make("canvas", null);
  [canvas.width, canvas.height] = [SHADES, 1];
  const context = canvas.getContext("2d");
  for (let i = 0; i < SHADES; i++) {
    context.fillStyle = shade(isDark() ? STOPS.dark : STOPS.light, i / (SHADES - 1));
    context.fillRect(i, 0, 1, 1);
  }
  const unused = make("i", null);
  unused.className = "unused";
  $("scale").replaceChildren("1", canvas, `${full} routes`, unused, "unused · each cable is two lines, one per direction");
}

function channelName(channel) {
  return `${endName(channel, 0)} → ${endName(channel, 1)}`;
}

// Switch and port of an end of a channel, 0 where it begins: leaf3:17.
function endName(channel, end) {
  const which = channel % 2 ? 1 - end : end;
  const ports = shown.fabric.ports[channel >> 1];
  return shown.fabric.names[shown.fabric.cables[channel >> 1][which]] + ":" + ports[which];
}

// Whether a host list of Slurm names a node: n[1-4,9].
function holds(list, node) {
  const number = node.match(/^(.*?)(\d+)$/);
  return [...list.matchAll(/([^,[]+)(?:\[([^\]]*)\])?/g)].some(([, prefix, ranges]) => {
    if (!ranges) return prefix === node;
    return number && number[1] === prefix && ranges.split(",").some((range) => {
      const [low, high = low] = range.split("-");
      const padded = low.length > 1 && low[0] === "0";
      return +number[2] >= +low && +number[2] <= +high && (padded ? number[2].length === low.length : number[2][0] !== "0");
    });
  });
}

// The cells of a job, by column.
function cellsOf(job) {
  const gets = job.now || {};
  const before = (shown.against === "before" || isDirect() ? job.before : job.beside) || {};
  const two = (value) => (typeof value === "number" ? value.toFixed(2) : "–");
  const isBoth = typeof gets.slowdown === "number" && typeof job.baseline === "number";
  const gain = isBoth ? 100 * (1 - gets.slowdown / job.baseline) : null;
  const or = (value) => (value === undefined ? "–" : value);
  return {
    id: job.id, state: job.state.toLowerCase(), nodes: job.nodes, running: job.start ? long((Date.now() - new Date(job.start)) / 1000) : "–", node_count: job.node_count, switches: job.switches,
    slowdown: two(gets.slowdown), slowdownBefore: two(before.slowdown), baseline: two(job.baseline),
    gain: gain === null ? "–" : gain.toFixed(0), max: or(gets.max), busiest: or(gets.busiest), links: or(gets.links),
  };
}

const COLUMNS = [...$("columns").children].map((head) => head.dataset.key);

// Jobs that the filter lets through, as they are sorted.
function listed() {
  const wanted = $("filter").value.trim();
  const fits = (job) => !wanted || job.id.includes(wanted) || job.nodes.includes(wanted)
    || job.state.startsWith(wanted.toUpperCase()) || holds(job.nodes, wanted);
  const { key, down } = shown.sort;
  const rows = shown.jobs.filter(fits).map((job) => ({ job, cells: cellsOf(job) }));
  // Numbers by size, text by letters with numbers in it, what is not there last.
  const compare = (a, b) => {
    const [x, y] = [a.cells[key], b.cells[key]];
    if (key === "running") return (down ? -1 : 1) * (new Date(b.job.start || 0) - new Date(a.job.start || 0));
    if (x === "–" || y === "–") return (x === "–") - (y === "–");
    const order = Number.isNaN(x - y) ? x.localeCompare(y, "en", { numeric: true }) : x - y;
    return down ? -order : order;
  };
  return rows.sort(compare);
}

function showVerdict(answer) {
  const [now, baseline] = [answer.now, answer.baseline];
  const box = $("verdict");
  if (!now || now.slowdown_mean === null) {
    box.textContent = isDirect() || answer.epoch === null || now ? "" : "No job is on several switches: routes for jobs gain nothing at present.";
    return;
  }
  const times = `Jobs' exchanges take ${now.slowdown_mean.toFixed(2)} times what their own cables need (1 is the least possible).`;
  const time = times + chosenVerdict(answer);
  if (!baseline || baseline.slowdown_mean === null) {
    box.textContent = time;
    return;
  }
  const gain = 100 * (1 - now.slowdown_mean / baseline.slowdown_mean);
  const beside = `With ${baseline.engine}, the best engine that knows no jobs, it would be ${baseline.slowdown_mean.toFixed(2)}`;
  box.textContent = `${time} ${beside}: ` + (gain >= 1 ? `${gain.toFixed(0)} % less time now.` : "routes for jobs gain nothing at present.");
}

function showJobs() {
  $("j-before").textContent = againstName();
  $("j-before").title = `The same with ${againstName() === "before" ? "the tables before" : againstName()}`;
  const rows = listed();
  $("jobs").replaceChildren(...rows.map(({ job, cells }) => {
    const row = make("tr", null, ...COLUMNS.map((key) => make("td", cells[key])));
    row.children[2].title = job.nodes;
    if (job.start) row.children[5].title = "since " + clock(job.start);
    row.dataset.job = job.id;
    row.setAttribute("aria-selected", job.id === shown.job);
    row.tabIndex = 0;
    const toggle = () => choose(shown.epoch, job.id === shown.job ? null : job.id);
    row.addEventListener("click", toggle);
    row.addEventListener("keydown", (event) => { if (event.key === "Enter") toggle(); });
    return row;
  }));
  for (const head of $("columns").children) {
    const isIt = head.dataset.key === shown.sort.key;
    head.setAttribute("aria-sort", isIt ? (shown.sort.down ? "descending" : "ascending") : "none");
  }
  const wanted = $("filter").value.trim();
  const all = shown.jobs.length;
  $("count").textContent = wanted ? `${rows.length} of ${all} jobs` : `${all} jobs; click one to see its channels alone`;
  $("all").hidden = shown.job === null;
  remember();
}

// What the addresses have in common.
function query(job) {
  const parts = [];
  if (shown.epoch !== null && !isDirect()) parts.push("epoch=" + shown.epoch);
  if (job !== null) parts.push("job=" + encodeURIComponent(job));
  if (shown.against !== "before" && !isDirect()) parts.push("against=" + shown.against);
  return parts.length ? "?" + parts.join("&") : "";
}

let loadOf = null;

async function fetchLoad() {
  const key = [shown.fabric.fingerprint, shown.epoch === null || isDirect() ? shown.current : shown.epoch, shown.job, shown.against].join(" ");
  if (key === loadOf) return;
  const load = await askCompared("v1/load", shown.job);
  loadOf = key.replace(/\S+$/, shown.against);
  shown.load = load;
  showLoad();
}

async function fetchJobs() {
  const answer = await askCompared("v1/jobs", null);
  shown.jobs = answer.jobs;
  showVerdict(answer);
  if (shown.job !== null && !shown.jobs.some((j) => j.id === shown.job)) shown.job = null;
  showJobs();
}

async function fetchFabric(fingerprint) {
  if (shown.fabric && shown.fabric.fingerprint === fingerprint) return;
  const fabric = await ask("v1/fabric");
  const nth = parallel(fabric.cables);
  shown.fabric = fabric;
  shown.picked = null;
  shown.pictures = { now: new Picture($("now"), fabric, nth), before: new Picture($("before"), fabric, nth) };
  loadOf = null;
}

let turn = Promise.resolve();

// One after the other: an answer never overtakes a later question.
function inTurn(work) {
  turn = turn.then(work).catch(failed);
  return turn;
}

function failed(error) {
  const refused = error instanceof Refused;
  $("login").hidden = !refused;
  $("health").className = "bad";
  $("health").replaceChildren(make("b", refused ? error.message : "no answer: " + error.message));
}

function choose(epoch, job) {
  shown.epoch = epoch;
  shown.job = job;
  showEpochs();
  showJobs();
  return inTurn(async () => {
    await fetchJobs();
    if (shown.current !== null) await fetchLoad();
    await showWhy();
  });
}

async function refresh() {
  const [health, history] = await Promise.all([ask("v1/health"), ask("v1/epochs?limit=300")]);
  $("login").hidden = true;
  shown.epochs = history.epochs;
  shown.current = history.current;
  if (shown.epoch !== null && !shown.epochs.some((e) => e.epoch === shown.epoch)) shown.epoch = null;
  showHealth(health);
  shown.acts = history.acts;
  showEpochs();
  showActs(history.acts);
  if (history.fabric === null) return; // the service has not looked yet
  await fetchFabric(history.fabric);
  // A job of an old address may be over.
  if (shown.job !== null && !shown.jobs.length) await fetchJobs();
  if (shown.current !== null) await fetchLoad();
  await fetchJobs();
  await showWhy();
}

// --- light and dark ---
const THEMES = ["system", "light", "dark"];
const systemDark = matchMedia("(prefers-color-scheme: dark)");

function applyTheme() {
  const theme = localStorage.getItem("theme") || "system";
  $("theme").textContent = theme;
  document.documentElement.classList.toggle("dark", theme === "dark" || (theme === "system" && systemDark.matches));
  showLoad();
}

$("theme").addEventListener("click", () => {
  const next = (THEMES.indexOf(localStorage.getItem("theme") || "system") + 1) % THEMES.length;
  localStorage.setItem("theme", THEMES[next]);
  applyTheme();
});
systemDark.addEventListener("change", applyTheme);

// --- the rest of what a person does ---
$("filter").addEventListener("input", showJobs);
$("which").addEventListener("input", showLoad);
for (const head of $("columns").children) {
  const sort = () => {
    const { key } = head.dataset;
    shown.sort = { key, down: shown.sort.key === key ? !shown.sort.down : !["id", "state", "nodes"].includes(key) };
    showJobs();
  };
  head.tabIndex = 0;
  head.addEventListener("click", sort);
  head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
}
$("csv").addEventListener("click", () => {
  // A cell that begins like a formula is text.
  const cell = (text) => `"${String(text).replace(/^[=+@-]/, "'$&").replaceAll('"', '""')}"`;
  const lines = [COLUMNS, ...listed().map(({ cells }) => COLUMNS.map((key) => (cells[key] === "–" ? "" : cells[key])))];
  const name = `jobs-epoch-${shown.epoch === null ? shown.current : shown.epoch}.csv`;
  save(name, "text/csv", lines.map((line) => line.map(cell).join(",") + "\n").join(""));
});
$("all").addEventListener("click", () => choose(shown.epoch, null));
$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", $("token").value);
  inTurn(refresh);
});
for (const id of ["now", "before"]) {
  $(id).addEventListener("mousemove", (event) => {
    const channel = shown.pictures ? shown.pictures[id].at(event.offsetX, event.offsetY) : -1;
    const tip = $("tip");
    tip.hidden = channel < 0 || !shown.load;
    if (tip.hidden) return;
    tip.textContent = `${channelName(channel)}: ${channelWords(channel)}`;
    tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 4) + "px";
    tip.style.top = event.clientY + 14 + "px";
  });
  $(id).addEventListener("mouseleave", () => { $("tip").hidden = true; });
}
let resizing = 0;
addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(showLoad, 100);
});

// The rest of the scripts is there by then.
addEventListener("DOMContentLoaded", () => {
  recall();
  applyTheme();
  inTurn(refresh);
  inTurn(showNode);
  inTurn(showFound);
});
addEventListener("hashchange", () => {
  recall();
  choose(shown.epoch, shown.job);
  inTurn(showFound);
});
setInterval(() => { if (!document.hidden) inTurn(refresh); }, EVERY);
