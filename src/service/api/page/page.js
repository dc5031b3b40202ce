// Asks the service what it knows and shows it. No library, no other host.
"use strict";

const $ = (id) => document.getElementById(id);
const EVERY = 5000;
const SIGN = 15000; // milliseconds for an answer about health
const shown = {
  fabric: null, pictures: null, epochs: [], current: null, load: null, jobs: [],
  epoch: null, // chosen; null follows the one in force
  job: null, // chosen; null shows all
  sort: { key: "id", down: false },
  against: "opensm", // what the epoch is compared with: opensm (the baseline), before, fabric, or the number of an epoch
  baseline: "there", // or late (still being computed), or none (none of its engines routes this fabric)
  show: "both", // or the difference
  as: "matrix", // or a circle, of a fabric without levels or a grid
  colours: "", // one of COLOURS; nothing: as fits
  open: null, // in the panel: { kind, key }
  acts: [], picked: null, // a switch or a cable
  held: null, // since when, why, by whom
  seesUsers: false, submissions: new Map(), // who submitted which job
  mayChange: false, outcome: null, // of what was done by hand, or asked in vain
  health: null, // the last answer
  zone: null, // of the site
  extremes: [], // of all jobs: the largest load, the least possible one, and with which epoch
  said: null, // of the jobs, as the verdict says it
  view: { scale: 1, x: 0.5, y: 0.5 }, // of the pictures: how near, and what is in the middle
};

class Refused extends Error {}

async function ask(path, body) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const token = session.getItem("token");
  if (token) headers.Authorization = "Bearer " + token;
  const sent = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  const silent = () => { throw Object.assign(new Error("the service does not answer"), { isSilent: true }); };
  // A question without an answer would keep all others waiting, and the state on the first line untrue.
  const stop = new AbortController();
  const isHealth = path === "v1/health";
  const late = setTimeout(() => stop.abort(), isHealth ? SIGN : 120000);
  // What takes long is waited for as long as there are signs of life.
  const signs = isHealth ? 0 : setInterval(() => ask("v1/health").then(lives, (error) => error.isSilent && stop.abort()), SIGN);
  try {
    // Not from the cache of the browser: there a question waits for an equal one that got no answer.
    const answer = await fetch(path, { cache: "no-store", headers, signal: stop.signal, ...sent }).catch(silent);
    const said = await answer.json().catch((error) => (error.name === "AbortError" || answer.ok ? silent() : {}));
    const { status } = answer;
    if (isHealth && answer.headers.has("date")) setClock(answer.headers.get("date"));
    if (isHealth) noteFiles(answer.headers.get("sarouter-page"));
    if (status === 401 || status === 403) throw Object.assign(new Refused(token && / may not do this$/.test(said.error) ? "this token may not do this" : said.error || "refused"), { status, token });
    if (!answer.ok) throw Object.assign(new Error(said.error || `the service answers ${status}`), { status, isSilent: status === 502 || (status === 504 && isHealth) });
    return said;
  } finally {
    clearTimeout(late);
    clearInterval(signs);
  }
}

// Element with text (never markup: names come from the fabric) and children.
function make(tag, text, ...children) {
  const element = document.createElement(tag);
  if (text !== null) element.textContent = text;
  element.append(...children);
  return element;
}

const words = (name) => name.replaceAll("_", " ");

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
  const without = typeof e.slowdown_oblivious === "number" ? ` (${two(e.slowdown_oblivious)} with the baseline)` : "";
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
  const key = JSON.stringify([shown.epochs, shown.acts, chosen, shown.current, shown.zone]);
  if (box.dataset.key === key) return;
  box.dataset.key = key;
  const focused = box.contains(document.activeElement) ? document.activeElement.dataset : null;
  const atEnd = box.scrollLeft + box.clientWidth >= box.scrollWidth - 4;
  box.replaceChildren(...inTime(shown.epochs.map((e) => {
    const { kind, without, before, now } = bars(e);
    const button = make("button", null, bar("before", before, kind), bar("now", now, kind));
    if (without !== null) button.prepend(bar("without", without, kind));
    button.type = "button";
    button.dataset.epoch = e.epoch;
    button.dataset.time = e.created;
    button.classList.toggle("loss", e.reason === "fabric_changed");
    button.setAttribute("aria-label", `epoch ${e.epoch}, ${clock(e.created)}, ${words(e.reason)}: ${figures(e)}`);
    button.title = `${button.ariaLabel}; ${yours(e.created)}`;
    button.setAttribute("aria-pressed", e.epoch === chosen);
    button.addEventListener("click", () => chooseEpoch(e.epoch));
    return button;
  })));
  if (atEnd) box.scrollLeft = box.scrollWidth;
  const all = [...box.children];
  const again = focused && all.find((each) => each.dataset.epoch === focused.epoch && each.dataset.hold === focused.hold);
  stopAt(box, again || all.find((each) => each.ariaPressed === "true") || all[all.length - 1]);
  if (again) again.focus({ preventScroll: true });
  const e = shown.epochs.find((e) => e.epoch === chosen);
  $("epoch").title = e ? yours(e.created) : "";
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
const isInForce = () => shown.epoch === null || shown.epoch === shown.current;
const isDark = () => document.documentElement.classList.contains("dark");
const largest = (loads) => loads.reduce((a, b) => Math.max(a, b), 0);

function showLoad() {
  const { fabric, load, pictures } = shown;
  if (!fabric || !load) return;
  const other = beside();
  const isDifference = shown.show === "difference" && other !== null;
  if (load.job === null) shown.extremes = [largest(load.now), load.bound, load.epoch];
  const full = Math.max(1, isDifference ? mostDifferent(load.now, other.loads) : Math.max(largest(load.now), other ? largest(other.loads) : 0));
  const whose = load.job === null ? "inside jobs" : `of job ${load.job}`;
  const title = (what, loads) => `${what}: at most ${largest(loads)} routes ${whose} on a channel${least(load.bound)}, `
    + `${loads.filter((n) => n === 0).length} of ${loads.length} channels unused`;
  const caption = (id, text) => {
    $("t-" + id).textContent = text;
    $(id).setAttribute("aria-label", text);
  };
  const ofNow = title(`${isDirect() ? "Change" : "Epoch"} ${load.epoch}`, load.now) + (load.other_fabric ? " (made for another fabric)" : "");
  caption("now", isDifference ? differenceTitle(load.now, other) : ofNow);
  // First, as it gives the other its width.
  const isAwaited = comparedWith() !== "before" && !load.against;
  $("before").closest("figure").hidden = !(other || isAwaited) || isDifference;
  // A finger moves a picture that is near, and scrolls the page over one that is whole.
  $("pictures").classList.toggle("near", shown.view.scale > 1);
  pictures.now.draw(load.now, full, isDark(), isDifference ? other.loads : null);
  if (isAwaited) caption("before", "What it is compared with is being computed …");
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
  $("b-before").textContent = other ? other.name : againstName();
  $("busiest").replaceChildren(...order.slice(0, 12).map((c) =>
    make("tr", null, make("td", channelName(c)), make("td", load.now[c]), make("td", other ? other.loads[c] : "–"), make("td", other ? signed(by(c)) : "–"))));
  if (!document.body.dataset.drawn) document.body.dataset.drawn = Math.round(performance.now());
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

// What it is worth, in one sentence, and how far the loads are from the least possible.
function showVerdict(answer) {
  const { now, baseline } = answer;
  const box = $("verdict");
  if (!now || now.slowdown_mean === null) {
    write(box, isDirect() || answer.epoch === null || now ? "" : "No job is on several switches: routes for jobs gain nothing at present.");
    return;
  }
  // Of a direct torus only the jobs of now are known.
  const when = isInForce() || isDirect() ? "Now" : "Then";
  const said = [`${when} ${now.slowdown_mean.toFixed(2)} times the ideal`];
  if (baseline && baseline.slowdown_mean !== null) {
    const gain = 100 * (1 - now.slowdown_mean / baseline.slowdown_mean);
    const whose = baseline.named || isDirect() ? "the baseline" : "OpenSM alone";
    const differs = `${Math.abs(gain).toFixed(0)} % ${gain > 0 ? "less" : "more"} time ${when.toLowerCase()}`;
    said.push(`; ${whose} (${baseline.engine}) would give ${baseline.slowdown_mean.toFixed(2)}: `
      + (Math.abs(gain) >= 1 ? differs : "routes for jobs gain nothing at present"));
  }
  write(box, said.join("") + "." + chosenVerdict(answer) + boundVerdict());
}

// The largest load of the epoch that is shown, and the least possible one.
function boundVerdict() {
  const row = shown.epochs.find((e) => e.epoch === (shown.epoch === null ? shown.current : shown.epoch));
  if (!row) return "";
  // Of what is in force the jobs of now, not those that it was made for.
  const isDrawn = isDirect() || (isInForce() && shown.extremes[2] === shown.current);
  const [load, bound] = isDrawn ? shown.extremes : [row.effective_max_after, row.effective_bound];
  if (typeof bound !== "number") return "";
  return ` Largest load ${load}${load === bound ? ", the least possible" : least(bound)}.`;
}

// What the addresses have in common.
function query(job, against) {
  const parts = [];
  if (shown.epoch !== null && !isDirect()) parts.push("epoch=" + shown.epoch);
  if (job !== null) parts.push("job=" + encodeURIComponent(job));
  if (against !== "before") parts.push("against=" + against);
  return parts.length ? "?" + parts.join("&") : "";
}

let loadOf = null;

async function fetchLoad() {
  const { epoch, job } = shown;
  const of = [shown.fabric.fingerprint, epoch === null || isDirect() ? shown.current : epoch, job].join(" ");
  if (`${of} ${comparedWith()}` === loadOf) return;
  // Where something else was chosen meanwhile, its load is asked for next.
  const isLate = () => epoch !== shown.epoch || job !== shown.job;
  if (!shown.load && comparedWith() !== "before") {
    // The first picture waits for no tables that are made to be compared with.
    const answer = await ask("v1/load" + query(job, "before"));
    if (isLate()) return;
    shown.load = { ...answer, job };
    showLoad();
  }
  const answer = await askCompared("v1/load", job);
  if (isLate()) return;
  shown.load = { ...answer, job };
  // What was asked for, as somebody may have chosen something else meanwhile.
  loadOf = `${of} ${shown.load.against ? shown.load.against.what : "before"}`;
  showLoad();
}

async function fetchJobs() {
  const asked = shown.epoch;
  const answer = await askCompared("v1/jobs", null);
  await fetchSubmissions();
  if (asked !== shown.epoch) return; // chosen meanwhile: its jobs are asked for next
  shown.jobs = answer.jobs;
  shown.said = answer;
  showVerdict(answer);
  if (shown.job !== null && !shown.jobs.some((j) => j.id === shown.job)) {
    tell(`job ${shown.job} is not there, or no longer: all jobs are shown`);
    shown.job = null;
  }
  showJobs();
}

let jobsDrawn = null;

// The picture of what is in force follows the jobs, as the list does.
async function followJobs() {
  const jobs = isInForce() && !isDirect() ? shown.jobs.map((job) => `${job.id} ${job.nodes}`).join("\n") : null;
  if (jobs !== null && jobsDrawn !== null && jobs !== jobsDrawn && shown.current !== null) {
    loadOf = null;
    await fetchLoad();
    showVerdict(shown.said);
  }
  jobsDrawn = jobs;
}

async function fetchFabric(fingerprint) {
  if (shown.fabric && shown.fabric.fingerprint === fingerprint) return;
  const fabric = await ask("v1/fabric");
  wantedPick = pickedName();
  shown.fabric = fabric;
  [shown.picked, shown.load, shown.baseline] = [null, null, "there"];
  makePictures();
  loadOf = null;
}

// A map of levels, the planes of a grid; of all else a matrix, or a circle for those who want one.
function makePictures() {
  const { fabric } = shown;
  const nth = parallel(fabric.cables);
  const Kind = fabric.layout === "circle" && shown.as === "matrix" ? Matrix : Picture;
  shown.pictures = { now: new Kind($("now"), fabric, nth), before: new Kind($("before"), fabric, nth) };
}

let turn = Promise.resolve();

// One after the other: an answer never overtakes a later question.
function inTurn(work) {
  turn = turn.then(work).catch(failed);
  return turn;
}

// `isAsked`: by a person just now, not by the address.
function choose(epoch, job, isAsked = true) {
  const isStep = isAsked && (epoch !== shown.epoch || job !== shown.job);
  shown.epoch = epoch;
  shown.job = job;
  // Back leads to what was chosen before.
  if (isStep) remember(true);
  showEpochs();
  showHand(shown.mayChange);
  showJobs();
  return inTurn(async () => {
    await fetchJobs();
    if (shown.current !== null) await fetchLoad();
    await showWhy();
    await fillPanel();
  });
}

async function refresh() {
  if (shown.baseline === "late") shown.baseline = "there"; // asked again
  const [health, history] = await Promise.all([ask("v1/health"), ask("v1/epochs?limit=300")]);
  showWho(history.may_change);
  shown.epochs = history.epochs;
  shown.current = history.current;
  [shown.acts, shown.zone, shown.held] = [history.acts, history.zone, health.held || null];
  shown.seesUsers = history.sees_users;
  if (shown.epoch !== null && !shown.epochs.some((e) => e.epoch === shown.epoch)) {
    tell(`epoch ${shown.epoch} is not there, or no longer: what is in force is shown`);
    shown.epoch = null;
  }
  heard(health);
  showZone();
  showHand(history.may_change);
  showEpochs();
  showTimeline();
  showActs(history.acts);
  if (history.fabric === null) return; // the service has not looked yet
  await fetchFabric(history.fabric);
  showHand(history.may_change);
  // A job that was chosen may be over, and has no load then.
  const isOfJob = shown.job !== null;
  if (isOfJob) await fetchJobs();
  if (shown.current !== null) await fetchLoad();
  pickAgain();
  if (!isOfJob) await fetchJobs();
  await followJobs();
  await showWhy();
  await fillPanel();
  if ($("node").textContent) await showNode();
  await fetchEngines();
}

// --- light and dark ---
const THEMES = ["system", "light", "dark"];
const systemDark = matchMedia("(prefers-color-scheme: dark)");

function applyTheme() {
  const theme = local.getItem("theme") || "system";
  $("theme").textContent = theme;
  $("theme").ariaLabel = `Light or dark: ${theme}`;
  document.documentElement.classList.toggle("dark", theme === "dark" || (theme === "system" && systemDark.matches));
  showLoad();
}

$("theme").addEventListener("click", () => {
  const next = (THEMES.indexOf(local.getItem("theme") || "system") + 1) % THEMES.length;
  local.setItem("theme", THEMES[next]);
  applyTheme();
});
systemDark.addEventListener("change", applyTheme);

// --- the rest of what a person does ---
$("which").addEventListener("input", showLoad);
for (const id of ["now", "before"]) {
  $(id).addEventListener("mousemove", (event) => {
    const tip = $("tip");
    const picture = shown.load && shown.pictures[id].drawn ? shown.pictures[id] : null;
    const s = picture ? picture.switchAt(event.offsetX, event.offsetY) : -1;
    const channel = picture && s < 0 ? picture.at(event.offsetX, event.offsetY) : -1;
    tip.hidden = channel < 0 && s < 0;
    if (tip.hidden) return;
    tip.textContent = s < 0 ? `${channelName(channel)}: ${channelWords(channel)}` : shown.fabric.names[s];
    tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 4) + "px";
    tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 4) + "px";
  });
  $(id).addEventListener("mouseleave", () => { $("tip").hidden = true; });
}
let resizing = 0;
function drawLater() {
  clearTimeout(resizing);
  resizing = setTimeout(showLoad, 100);
}
addEventListener("resize", drawLater);
// Scroll bars, too, take room from pictures.
let room = 0;
new ResizeObserver(([{ contentRect: { width } }]) => {
  if (room && room !== width) drawLater();
  room = width;
}).observe($("pictures"));

// The rest of the scripts is there by then.
addEventListener("DOMContentLoaded", () => {
  recall();
  applyTheme();
  inTurn(refresh);
  inTurn(showNode);
  inTurn(() => showFound(false));
  inTurn(pickAgain);
});
let isRefreshing = false;
function lookAgain() {
  // Over a slow link the next one waits until this one is done.
  if (document.hidden || isRefreshing) return;
  isRefreshing = true;
  inTurn(refresh).finally(() => { isRefreshing = false; });
}
setInterval(lookAgain, EVERY);
// Whoever comes back to it sees how it is now.
document.addEventListener("visibilitychange", lookAgain);
