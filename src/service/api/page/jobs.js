// The list of jobs: what is in it, in which order, and as a file.
"use strict";

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

// How a job fares beside the baseline: "won", "lost", or nothing where it hardly matters or is not known.
function fares(job) {
  const [now, baseline] = [job.now && job.now.slowdown, job.baseline];
  if (typeof now !== "number" || typeof baseline !== "number") return "";
  const gain = Math.round(100 * (1 - now / baseline));
  return gain > 0 ? "won" : gain < 0 ? "lost" : "";
}

// Whether what is beside the jobs is what was chosen; the answer to the choice may be on its way.
function isOfChosen() {
  const { against } = shown.said || {};
  return Boolean(against) && String(against.what) === comparedWith();
}

// The cells of a job, by column.
function cellsOf(job) {
  const gets = job.now || {};
  const before = (comparedWith() === "before" ? job.before : isOfChosen() && job.beside) || {};
  const two = (value) => (typeof value === "number" ? value.toFixed(2) : "–");
  const isBoth = typeof gets.slowdown === "number" && typeof job.baseline === "number";
  const gain = isBoth ? 100 * (1 - gets.slowdown / job.baseline) : null;
  const or = (value) => (value === undefined ? "–" : value);
  const { user, name, partition } = shown.submissions.get(job.id) || {};
  return {
    id: job.id, user: user || "–", name: name || "–", partition: partition || "–", state: job.state.toLowerCase(), nodes: job.nodes, running: job.start ? long((serviceTime() - new Date(job.start)) / 1000) : "–", node_count: job.node_count, switches: job.switches,
    slowdown: two(gets.slowdown), slowdownBefore: two(before.slowdown), baseline: two(job.baseline),
    gain: gain === null ? "–" : String(Math.round(gain) || 0), max: or(gets.max), busiest: or(gets.busiest), links: or(gets.links),
  };
}

const COLUMNS = [...$("columns").children].map((head) => head.dataset.key);
// What only those see who are told whose jobs run here.
const OF_USERS = ["user", "name", "partition"];
// The baseline has a column of its own.
const isLeftOut = (key) => (OF_USERS.includes(key) && !shown.seesUsers) || (key === "slowdownBefore" && comparedWith() === "opensm");
const columns = () => COLUMNS.filter((key) => !isLeftOut(key));

// Jobs by who submitted them, if that is told. Of jobs that run: those of an earlier epoch may be over.
async function fetchSubmissions() {
  const answer = shown.seesUsers ? await ask("v1/submissions") : { jobs: [] };
  shown.submissions = new Map(answer.jobs.map((job) => [job.job, job]));
}

// Jobs that have such an id, user, name or partition.
function jobsCalled(wanted) {
  const alike = (name) => name && name.toLowerCase() === wanted.toLowerCase();
  const isIt = (job) => [job.id, ...OF_USERS.map((key) => (shown.submissions.get(job.id) || {})[key])].some(alike);
  return shown.jobs.filter(isIt);
}

// Jobs that the filter lets through, as they are sorted.
function listed() {
  const wanted = $("filter").value.trim();
  const kind = { winners: "won", losers: "lost" }[$("gains").value];
  const is = (job) => !kind || fares(job) === kind;
  const fits = (job) => !wanted || job.id.includes(wanted) || job.nodes.includes(wanted)
    || job.state.startsWith(wanted.toUpperCase()) || holds(job.nodes, wanted)
    || OF_USERS.some((key) => ((shown.submissions.get(job.id) || {})[key] || "").toLowerCase().includes(wanted.toLowerCase()));
  const { key, down } = shown.sort;
  const rows = shown.jobs.filter(is).filter(fits).map((job) => ({ job, cells: cellsOf(job) }));
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

// Enter and the space bar do what a click does.
function onKeys(element, act) {
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    act();
  });
}

// Rows by job: they stay while their jobs do, so that what has the focus keeps it.
const rowOf = new Map();

function rowFor(id) {
  if (rowOf.has(id)) return rowOf.get(id);
  const row = make("tr", null, ...COLUMNS.map((key) => Object.assign(make("td", ""), { className: key })));
  row.dataset.job = id;
  row.tabIndex = -1;
  const toggle = () => choose(shown.epoch, id === shown.job ? null : id);
  row.addEventListener("click", toggle);
  onKeys(row, toggle);
  rowOf.set(id, row);
  return row;
}

// What may be longer than its column.
const CUT = ["user", "name", "partition", "state", "nodes"];

// Writes what has changed.
function fillRow(row, job, cells) {
  COLUMNS.forEach((key, c) => {
    const [cell, text] = [row.children[c], String(cells[key])];
    if (cell.textContent !== text) cell.textContent = text;
    if (CUT.includes(key)) cell.title = text;
    cell.hidden = isLeftOut(key);
  });
  row.children[COLUMNS.indexOf("gain")].className = `gain ${fares(job)}`.trim();
  // Dates take most of the time of a long list.
  const since = `${job.start} ${shown.zone && shown.zone.name}`;
  if (row.dataset.since !== since) {
    row.dataset.since = since;
    row.children[COLUMNS.indexOf("running")].title = job.start ? `since ${clock(job.start)}; ${yours(job.start)}` : "";
  }
  row.setAttribute("aria-selected", job.id === shown.job);
}

function showJobs() {
  $("j-before").textContent = againstName();
  $("j-before").title = `The same with ${againstName() === "before" ? "the tables before" : againstName()}`;
  const body = $("jobs");
  const rows = listed();
  const listedNow = new Set(rows.map(({ job }) => job.id));
  const focused = body.contains(document.activeElement) ? document.activeElement : null;
  const at = [...body.children].indexOf(focused);
  for (const row of [...body.children]) if (!listedNow.has(row.dataset.job)) row.remove();
  rows.forEach(({ job, cells }, i) => {
    const row = rowFor(job.id);
    fillRow(row, job, cells);
    if (body.children[i] !== row) body.insertBefore(row, body.children[i] || null);
  });
  const known = new Set(shown.jobs.map((job) => job.id));
  for (const id of rowOf.keys()) if (!known.has(id)) rowOf.delete(id);
  // Where its job has ended, the row in its place has it.
  const stays = focused && (focused.isConnected ? focused : body.children[Math.min(at, body.children.length - 1)]) || null;
  if (stays && document.activeElement !== stays) stays.focus({ preventScroll: true });
  stopAt(body, stays || [...body.children].find((row) => row.tabIndex === 0) || body.firstElementChild);
  for (const head of $("columns").children) {
    const isIt = head.dataset.key === shown.sort.key;
    head.hidden = isLeftOut(head.dataset.key);
    head.setAttribute("aria-sort", isIt ? (shown.sort.down ? "descending" : "ascending") : "none");
  }
  const wanted = $("filter").value.trim();
  const all = shown.jobs.length;
  const jobs = `${all} job${all === 1 ? "" : "s"}`;
  write($("count"), wanted || $("gains").value ? `${rows.length} of ${jobs}` : all ? `${jobs}; click one to see its channels alone` : jobs);
  $("all").hidden = shown.job === null;
  remember();
}

// --- one stop of the Tab key for a row of things; arrows go through them ---
function stopAt(box, item) {
  for (const each of box.children) {
    const index = each === item ? 0 : -1;
    if (each.tabIndex !== index) each.tabIndex = index;
  }
}

function rove(box, back, on) {
  box.addEventListener("keydown", (event) => {
    const all = [...box.children].filter((each) => each.getClientRects().length);
    const at = all.indexOf(document.activeElement);
    const to = { [back]: at - 1, [on]: at + 1, Home: 0, End: all.length - 1 }[event.key];
    if (at < 0 || to === undefined || !all[to]) return;
    event.preventDefault();
    all[to].focus();
  });
  box.addEventListener("focusin", (event) => {
    const item = [...box.children].find((each) => each.contains(event.target));
    if (item) stopAt(box, item);
  });
}

rove($("jobs"), "ArrowUp", "ArrowDown");
rove($("columns"), "ArrowLeft", "ArrowRight");
rove($("epochs"), "ArrowLeft", "ArrowRight");

// --- what a person does ---
$("filter").addEventListener("input", showJobs);
$("gains").addEventListener("change", showJobs);
for (const head of $("columns").children) {
  const sort = () => {
    const { key } = head.dataset;
    shown.sort = { key, down: shown.sort.key === key ? !shown.sort.down : !["id", ...OF_USERS, "state", "nodes"].includes(key) };
    showJobs();
  };
  head.addEventListener("click", sort);
  onKeys(head, sort);
}
stopAt($("columns"), $("columns").firstElementChild);
$("csv").addEventListener("click", () => {
  const lines = [columns(), ...listed().map(({ cells }) => columns().map((key) => (cells[key] === "–" ? "" : cells[key])))];
  const name = `jobs-epoch-${shown.epoch === null ? shown.current : shown.epoch}.csv`;
  save(name, "text/csv", lines.map((line) => line.map(csvCell).join(",") + "\n").join(""));
});
$("all").addEventListener("click", () => choose(shown.epoch, null));
