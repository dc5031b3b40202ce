// What the epoch is compared with, the difference in colours, and why an epoch was published.
"use strict";

// Less and more than what it is compared with: blue and orange, which all eyes tell apart. Blue is dashed and thin,
// orange thick, for those who see or print no colours.
const LESS = { light: [[176, 205, 228], [63, 133, 189], [8, 69, 128]], dark: [[52, 84, 112], [70, 140, 200], [158, 208, 248]] };
const MORE = { light: [[244, 196, 150], [219, 119, 30], [143, 62, 0]], dark: [[112, 74, 40], [214, 124, 44], [255, 196, 130]] };

// --- with what ---
// What is compared with now: the tables before, where there is no baseline.
function comparedWith() {
  return isDirect() || (shown.against === "opensm" && shown.baseline !== "there") ? "before" : shown.against;
}

// The loads that are compared with, and their name.
function beside() {
  const { load } = shown;
  if (!load) return null;
  if (comparedWith() === "before") {
    return load.before && { loads: load.before, name: "before", title: isDirect() ? "Tables before" : "Tables before, same jobs" };
  }
  const { against } = load;
  if (!against || !load.beside) return null;
  const gone = against.other_fabric ? ", made for another fabric: routes over cables that are gone are not counted" : "";
  return { loads: load.beside, name: comparedShort(against), title: `${comparedName(against)}, same jobs${gone}` };
}

function comparedName(against) {
  if (against.what === "opensm") return `The baseline (${against.engine})`;
  if (against.what === "fabric") return `Epoch ${against.epoch}, before the change of fabric`;
  return `Epoch ${against.epoch}`;
}

// The name of the choice, also before the answer is there.
function againstName() {
  const against = comparedWith();
  return { before: "before", opensm: "baseline", fabric: "before the change of fabric" }[against] || "epoch " + against;
}

// What the verdict says of the tables that were chosen; the baseline is in it already.
function chosenVerdict({ against, beside: time }) {
  if (!against || against.what === "opensm") return "";
  const slow = time && typeof time.slowdown_mean === "number";
  return ` With ${comparedShort(against)} ${slow ? `it is ${time.slowdown_mean.toFixed(2)}` : "not all of their routes would arrive"}.`;
}

const comparedShort = (against) => (against.what === "opensm" ? "baseline" : `epoch ${against.epoch}`);

// The choices: epochs by number, the newest first.
function showChoices() {
  const box = $("against");
  const numbers = shown.epochs.map((e) => e.epoch).reverse().slice(0, 50);
  const wanted = shown.against;
  if (/^\d+$/.test(wanted) && !numbers.includes(Number(wanted))) numbers.push(Number(wanted));
  const engine = shown.load && shown.load.against && shown.load.against.what === "opensm" ? ` (${shown.load.against.engine})` : "";
  const key = [...numbers, isDirect(), engine].join(" ");
  if (box.dataset.key !== key) {
    box.dataset.key = key;
    const option = (value, text) => Object.assign(make("option", text), { value });
    const before = option("before", "the tables before");
    const known = isDirect() ? [before] : [option("opensm", `the baseline${engine}`), before, option("fabric", "the epoch before the change of fabric"),
      ...numbers.map((n) => option(String(n), "epoch " + n))];
    box.replaceChildren(...known);
  }
  box.value = comparedWith();
  $("show").value = shown.show;
  $("as").value = shown.as;
  $("as").hidden = shown.fabric.layout !== "circle";
  showColours();
  $("keys").textContent = shown.pictures.now.legend().keys;
}

// Stays until something else is chosen, or what was missing is there.
function sayNone(text, against) {
  $("no-against").textContent = text;
  $("no-against").dataset.of = against;
}

// Where there is nothing to compare with, that is said, and the baseline is taken; where there is none, the tables before.
async function askCompared(path, job) {
  const wanted = comparedWith();
  try {
    const answer = await ask(path + query(job, wanted));
    if (wanted === "opensm" && $("no-against").dataset.of === "opensm") sayNone("", wanted);
    return answer;
  } catch (error) {
    // There is none, or it takes longer than an answer may.
    if (![404, 503, 504].includes(error.status) || wanted === "before") throw error;
    if (wanted === "opensm") {
      // What is missing may be the epoch or the job; then this fails, too.
      const answer = await ask(path + query(job, "before"));
      shown.baseline = error.status === 504 ? "late" : "none";
      sayNone(shown.baseline === "late" ? "the baseline takes longer, and is shown once it is known" : `no baseline: ${error.message}`, wanted);
      return answer;
    }
    sayNone(`${error.message}: compared with the baseline`, wanted);
    shown.against = "opensm";
    remember();
    return askCompared(path, job);
  }
}

$("against").addEventListener("change", () => {
  shown.against = $("against").value;
  shown.baseline = "there"; // tried again
  $("no-against").textContent = "";
  choose(shown.epoch, shown.job);
});

$("show").addEventListener("change", () => {
  shown.show = $("show").value;
  remember();
  showLoad();
});

$("as").addEventListener("change", () => {
  shown.as = $("as").value;
  remember();
  makePictures();
  showLoad();
});

// "27 is the least possible", or nothing where that is not known.
const least = (bound) => (typeof bound === "number" ? `, ${bound} is the least possible` : "");

// --- the difference ---
function differenceTitle(now, other) {
  let [fewer, more] = [0, 0];
  now.forEach((n, c) => {
    if (n < other.loads[c]) fewer += 1;
    else if (n > other.loads[c]) more += 1;
  });
  return `${isDirect() ? "Change" : "Epoch"} ${shown.load.epoch} against ${other.title}: ${fewer} channels carry fewer routes, ${more} more, `
    + `${now.length - fewer - more} as many; largest load ${largest(now)} instead of ${largest(other.loads)}${least(shown.load.bound)}`;
}

const mostDifferent = (now, loads) => now.reduce((most, n, c) => Math.max(most, Math.abs(n - loads[c])), 0);

const signed = (n) => (n > 0 ? `+${n}` : n < 0 ? `−${-n}` : "0");

// The colour of a difference, -1 to 1.
function tint(share, dark) {
  const stops = (share < 0 ? LESS : MORE)[dark ? "dark" : "light"];
  return shade(stops, Math.abs(share));
}

// How lines of a difference look, the least important first.
function differences(loads, other, full, dark, gap) {
  const steps = 6;
  const looks = [];
  const few = loads.length < 4000;
  for (let i = 1; i <= steps; i++) {
    looks.push({ colour: tint(-i / steps, dark), width: gap * 1.2, dash: few ? [6, 3] : [], channels: [] });
    looks.push({ colour: tint(i / steps, dark), width: gap * 2.4, dash: [], channels: [] });
  }
  const same = { colour: null, width: 0.8, dash: [], channels: [] };
  const unused = { colour: null, width: 0.6, dash: few ? [2, 3] : [], channels: [] };
  loads.forEach((n, channel) => {
    const by = n - other[channel];
    if (by === 0) (n > 0 ? same : unused).channels.push(channel);
    else looks[2 * (Math.ceil((Math.abs(by) / full) * steps) - 1) + (by > 0 ? 1 : 0)].channels.push(channel);
  });
  return [unused, same, ...looks];
}

function showDifferenceScale(full) {
  const canvas = make("canvas", null);
  [canvas.width, canvas.height] = [49, 1];
  const context = canvas.getContext("2d");
  for (let i = 0; i < 49; i++) {
    context.fillStyle = i === 24 ? getComputedStyle(document.documentElement).getPropertyValue("--dark") : tint((i - 24) / 24, isDark());
    context.fillRect(i, 0, 1, 1);
  }
  const { less, more, same } = shown.pictures.now.legend();
  $("scale").replaceChildren(`−${full} routes`, canvas, `+${full} · ${less}: fewer than with what is compared · ${more}: more · ${same}`);
}

// --- why was it published? ---
const WHY = {
  first: "nothing was in force",
  fabric_changed: "switches, ports or cables changed",
  engine_changed: "the settings name another engine",
  jobs_changed: "jobs on several switches run on other nodes",
  budget_changed: "what was in force used more layers than the settings allow",
  promise_changed: "the settings promise more than was proved of what was in force",
};

// What is other in the fabric than before, in words; nothing where it is not known.
function differenceWords(difference) {
  const kinds = [["switches", "switch", "switches"], ["hosts", "host", "hosts"], ["cables", "cable", "cables"]];
  return ["lost", "new"].flatMap((what) => kinds.flatMap(([kind, one, more]) => {
    const { count, names } = ((difference || {})[what] || {})[kind] || { count: 0 };
    return count ? [`${count} ${count === 1 ? one : more} ${what}: ${names.join(", ")}${count > names.length ? ", …" : ""}`] : [];
  })).join("; ");
}

// The same of tables on a direct torus.
const WHY_CHANGED = {
  first: "no job had any before",
  fabric_changed: "links or nodes failed, or work again",
  jobs_changed: "jobs started or ended",
};

function whyChanged(row) {
  const loads = `Largest load ${typeof row.effective_max_before === "number" ? `${row.effective_max_before} → ` : ""}${row.effective_max_after}`;
  return `Tables were written or removed because ${WHY_CHANGED[row.reason] || WHY[row.reason] || words(row.reason)}. ${cameAndWent(row)} ${loads}${least(row.effective_bound)}.`;
}

const cameAndWent = (row) => `Jobs that came: ${listed12(row.jobs_in)}; that went: ${listed12(row.jobs_out)}.`;

let whyOf = null;
let markOf = null; // the epoch that was shown when a mark was asked why; its answer stays until an epoch is asked

// An epoch and the one before it; null where they are removed by age, or damaged: the timeline has the figures.
async function withBefore(number) {
  const one = async (n) => {
    try {
      return await ask(`v1/epochs/${n}`);
    } catch (error) {
      if (error instanceof Refused || error.isSilent) throw error;
      return null;
    }
  };
  const found = await one(number);
  return [found, found && found.plan.previous !== null ? await one(found.plan.previous) : null];
}

// Jobs that are in an epoch and not, or elsewhere, in the one before; and the other way round.
function turnover(epoch, before) {
  const on = ({ plan }) => new Map(plan.jobs.jobs.map((job) => [job.id, JSON.stringify(job.nodes)]));
  const [now, old] = [on(epoch), on(before)];
  const other = (id) => old.get(id) !== now.get(id);
  return [[...now.keys()].filter(other), [...old.keys()].filter(other)];
}

const listed12 = (ids) => (ids.length > 12 ? `${ids.slice(0, 12).join(", ")} and ${ids.length - 12} more` : ids.join(", ") || "none");

// Gain, price, and what changed for it; nothing where that was not the question.
function worthWords(worth) {
  if (!worth || typeof worth.gain !== "number") return "";
  const { gain, price, moved, changed_blocks: blocks } = worth;
  return `Gain ${gain.toFixed(2)} node-hours until the running jobs end, for a price of ${price.toFixed(2)}`
    + `${typeof blocks === "number" ? `: ${blocks} blocks of 64 table entries written` : ""}`
    + `${typeof moved === "number" ? `, ${(100 * moved).toFixed(0)} % of the jobs' connections moved` : ""}.`;
}

async function showWhy() {
  const number = shown.epoch === null ? shown.current : shown.epoch;
  const row = shown.epochs.find((e) => e.epoch === number);
  if (number === null || (isDirect() && !row)) {
    $("why").textContent = "";
    return;
  }
  if (whyOf === number || markOf === number) return;
  markOf = null;
  const [found, before] = isDirect() ? [null, null] : await withBefore(number);
  if (markOf === number) return; // asked meanwhile
  whyOf = number;
  if (isDirect()) {
    $("why").textContent = whyChanged(row);
    return;
  }
  $("why").textContent = found ? why(found, before) : `Epoch ${number} itself is not kept any more.`;
}

function why({ plan, report }, before) {
  const said = [`Published because ${WHY[plan.reason] || words(plan.reason)}.`];
  if (before) {
    said.push(`Jobs that came: ${turnover({ plan }, before).map(listed12).join("; that went: ")}.`);
    const [a, b] = [before.report.fabric, report.fabric];
    const parts = [["cables", a.inter_switch_channels / 2, b.inter_switch_channels / 2], ["switches", a.switches, b.switches], ["adapters", a.terminals, b.terminals]];
    const changed = parts.filter(([, was, is]) => was !== is).map(([name, was, is]) => `${name} ${was} → ${is}`);
    if (changed.length) said.push(`The fabric: ${changed.join(", ")}.`);
  }
  if (plan.difference) said.push(`In it: ${differenceWords(plan.difference)}.`);
  const { effective } = plan.after;
  said.push(`Largest load ${plan.before ? `${plan.before.effective.max} → ` : ""}${effective.max}${least(effective.lower_bound)}; `
    + `slow-down ${plan.before ? `${plan.before.time.slowdown_mean.toFixed(2)} → ` : ""}${plan.after.time.slowdown_mean.toFixed(2)}, 1 is the least possible.`);
  said.push(worthWords(plan.worth) || "Gain and price were not the question.");
  return said.join(" ");
}

// --- holds on the timeline ---
// From a hold to the resume after it, oldest first.
function timesHeld(acts) {
  const found = [];
  for (const act of acts) {
    const open = found.length && !found[found.length - 1].until ? found[found.length - 1] : null;
    if (act.act === "hold" && !open) found.push({ from: act.time, by: act.by, reason: act.reason, epoch: act.epoch, until: null, ended: null });
    else if (act.act === "resume" && open) [open.until, open.ended] = [act.time, act.by];
  }
  return found;
}

function holdWords(hold) {
  const until = hold.until ? `until ${clock(hold.until)}${hold.ended ? `, ended by ${hold.ended}` : ""}` : "and still";
  return `Held from ${clock(hold.from)} ${until}, by ${hold.by || "somebody"}${hold.epoch === null ? "" : `, epoch ${hold.epoch} in force`}`
    + (hold.reason ? `: ${hold.reason}` : "");
}

// Who went back to which epoch, and why.
function backWords(act) {
  return `Gone back to epoch ${act.epoch} at ${clock(act.time)}, by ${act.by || "somebody"}` + (act.reason ? `: ${act.reason}` : "");
}

// What a bar or the chart of epochs does: shows one, and why it was published.
function chooseEpoch(epoch) {
  markOf = null;
  choose(epoch === shown.current ? null : epoch, null);
}

function markButton(time, kind, text, ...children) {
  const button = make("button", null, ...children);
  button.type = "button";
  button.className = kind;
  button.dataset.hold = time + kind;
  button.title = text;
  button.setAttribute("aria-label", button.title);
  button.addEventListener("click", () => {
    $("why").textContent = button.title + ".";
    [whyOf, markOf] = [null, shown.epoch === null ? shown.current : shown.epoch];
  });
  return button;
}

// Bars and marks in the order of time.
function inTime(bars) {
  const held = (hold) => markButton(hold.from, "mark" + (hold.until ? "" : " open"), holdWords(hold), make("i", null));
  const back = (act) => markButton(act.time, "mark back", backWords(act), "↶");
  const marks = [
    ...timesHeld(shown.acts).map((hold) => ({ time: hold.from, mark: held(hold) })),
    ...shown.acts.filter((act) => act.act === "rollback").map((act) => ({ time: act.time, mark: back(act) })),
  ];
  const all = [...bars.map((bar) => ({ time: bar.dataset.time, mark: bar })), ...marks];
  return all.sort((a, b) => new Date(a.time) - new Date(b.time)).map(({ mark }) => mark);
}
