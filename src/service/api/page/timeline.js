// The timeline as a chart: what jobs wait for each other with each epoch, while it was in force.
"use strict";

const TIMELINE = { height: 130, left: 44, right: 96, top: 14, bottom: 28 };
const DAY = 86400000; // milliseconds
const OF_DAY = { hour: "numeric", minute: "numeric", second: "numeric" };
const OF_YEAR = { month: "numeric", day: "numeric", hour: "numeric", minute: "numeric" };
let timelineOf = null;
let timelineUntil = 0; // the time at its right end
let timeline = null; // the chart

// Lines of the chart: slow-downs, or of a torus without them the largest load.
function timelineSeries(epochs) {
  const isSlow = epochs.some((e) => typeof e.slowdown_after === "number");
  const or = (value) => (typeof value === "number" ? value : null);
  if (!isSlow) return { least: 0, title: "Largest load, over time", series: [["now", "ours", epochs.map((e) => or(e.effective_max_after))]] };
  const series = [
    ["baseline", "without", epochs.map((e) => or(e.slowdown_oblivious))],
    ["now", "ours", epochs.map((e) => or(e.slowdown_after))],
    ["least possible", "bound", epochs.map(() => 1)],
  ];
  const isKnown = ([, , values]) => values.some((value) => value !== null);
  return { least: 1, title: "Slow-down of the jobs, over time", series: series.filter(isKnown) };
}

// Steps: a value holds until the next epoch; where there is none, there is no line.
function stepsOf(values, edges, y) {
  let path = "";
  values.forEach((value, i) => {
    if (value === null) return;
    const at = y(value).toFixed(1);
    path += `${i > 0 && values[i - 1] !== null ? "L" : "M"}${edges[i]} ${at}L${edges[i + 1]} ${at}`;
  });
  return path;
}

// Changes of fabric, steps back and holds: when, how they are drawn, and why.
function happenings(epochs, acts) {
  const changed = epochs.filter((e) => e.reason === "fabric_changed");
  return [
    ...changed.map((e) => ({ time: e.created, sign: "×", kind: "loss", words: `Fabric changed: ${differenceWords(e.difference) || WHY.fabric_changed}; epoch ${e.epoch} was published` })),
    ...acts.filter((act) => act.act === "rollback").map((act) => ({ time: act.time, sign: "↶", kind: "back", words: backWords(act) })),
    ...timesHeld(acts).map((hold) => ({ time: hold.from, sign: "‖", kind: "hold", words: holdWords(hold) })),
  ].map((each) => ({ ...each, time: new Date(each.time).getTime() }));
}

// Whether its end is far from now. It waits while somebody points at something.
function isBehind(box) {
  const all = timelineUntil - new Date(shown.epochs[0].created);
  const isPointed = box.matches(":hover") || (timeline && timeline.at >= 0);
  return !isPointed && serviceTime() - timelineUntil > Math.max(all / 50, 60000);
}

function showTimeline() {
  const box = $("timeline");
  const { epochs, acts, zone } = shown;
  const width = Math.max(320, box.clientWidth);
  const key = JSON.stringify([epochs.map((e) => [e.epoch, e.created]), acts, zone, width]);
  if (!epochs.length || (key === timelineOf && !isBehind(box))) return;
  timelineOf = key;
  const { height, left, top } = TIMELINE;
  const [right, bottom] = [width - TIMELINE.right, height - TIMELINE.bottom];
  const begins = epochs.map((e) => new Date(e.created).getTime());
  const [first, last] = [begins[0], Math.max(serviceTime(), begins[begins.length - 1] + 1)];
  timelineUntil = last;
  const x = (time) => Number((left + ((Math.min(Math.max(time, first), last) - first) * (right - left)) / (last - first)).toFixed(2));
  const edges = [...begins, last].map(x);
  const { least, title, series } = timelineSeries(epochs);
  const most = Math.max(least + 0.05, ...series.flatMap(([, , values]) => values));
  const steps = charts.ticks(least, most);
  const y = (value) => bottom - ((value - least) * (bottom - top)) / (most - least);
  const name = (e) => `epoch ${e.epoch}, ${clock(e.created)}, ${words(e.reason)}`;
  const data = {
    head: ["epoch", ...series.map(([called]) => called)],
    rows: epochs.map((e, i) => [name(e), series.map(([, , values]) => values[i])]),
    box: [left, top, right, bottom], along: "x", edges, scale: [first, last],
  };
  const svg = $("paper").cloneNode(false);
  const part = (tag, attributes, text) => Object.assign(charts.part(svg, tag, attributes), { textContent: text || "" });
  svg.removeAttribute("id");
  svg.removeAttribute("hidden");
  const zooms = part("g", { class: "zooms" });
  for (const hold of timesHeld(acts)) {
    const [from, to] = [hold.from, hold.until || last].map((time) => x(new Date(time)));
    zooms.append(part("rect", { class: "held-time", x: from, y: top, width: to - from, height: bottom - top }));
  }
  const marks = happenings(epochs, acts).filter(({ time }) => time >= first && time <= last).map((each) => ({ ...each, x: x(each.time) }));
  const signs = part("g", { class: "values signs" });
  for (const { x: at, sign, kind } of marks) {
    if (kind !== "hold") zooms.append(part("line", { class: `${kind}-time`, x1: at, x2: at, y1: top, y2: bottom }));
    signs.append(part("text", { x: at, y: top - 3, class: `name sign ${kind}` }, sign));
  }
  data.more = didWords();
  data.marks = marks.map(({ x: at, words: said }) => [at, said]);
  zooms.append(...series.map(([, kind, values]) => part("path", { class: `curve ${kind}`, d: stepsOf(values, edges, y) })));
  svg.append(
    ...steps.flatMap((value) => [
      part("line", { class: "grid", x1: left, x2: right, y1: y(value), y2: y(value) }),
      part("text", { class: "end", x: left - 6, y: y(value) + 4 }, String(value)),
    ]),
    zooms, signs, part("g", { class: "axis", "data-y": height - 8 }), ...legendOf(part, series, right + 8, (value) => y(value ?? least)),
  );
  const given = { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": title, "data-chart": JSON.stringify(data) };
  for (const [attribute, value] of Object.entries(given)) svg.setAttribute(attribute, value);
  placeTimeline(box, svg, epochs.length);
}

// Puts the chart into the page. Drawing it again costs neither zoom nor focus.
function placeTimeline(box, svg, count) {
  const [seen, at, isFocused] = timeline ? [timeline.span(), timeline.at, timeline.stage === document.activeElement] : [null, -1, false];
  const button = [...box.querySelectorAll("button")].indexOf(document.activeElement);
  box.replaceChildren(svg);
  timeline = charts.enhance(svg, (time, all) => clock(time, all < DAY ? OF_DAY : OF_YEAR));
  if (seen) timeline.lookAt(seen);
  else if (wantedSpan) lookAtWanted();
  if (button >= 0) box.querySelectorAll("button")[button].focus({ preventScroll: true });
  if (isFocused) {
    timeline.stage.focus({ preventScroll: true });
    if (at >= 0 && at < count) timeline.point(at);
  }
}

// Names beside the last values, each under the one above.
function legendOf(part, lines, at, place) {
  let next = 0;
  const ends = lines.map(([called, kind, values]) => ({ called, kind, y: place(values[values.length - 1]) + 4 }));
  return ends.sort((a, b) => a.y - b.y).map(({ called, kind, y: wanted }, i) => {
    // Those that follow need room, too.
    const y = Math.min(Math.max(wanted, next), TIMELINE.height - 4 - 14 * (ends.length - 1 - i));
    next = y + 14;
    return part("text", { class: `label ${kind}`, x: at, y }, called);
  });
}

// --- what an epoch did, in the words of the pointer ---
const did = new Map(); // by epoch: words, empty while they are asked for
let pointing = 0;

async function fetchDid(number) {
  did.set(number, "");
  try {
    const [found, before] = await withBefore(number);
    const jobs = found && before ? `Jobs that came: ${turnover(found, before).map(listed12).join("; that went: ")}` : "";
    did.set(number, [jobs, found ? worthWords(found.plan.worth).replace(/\.$/, "") : ""].filter(Boolean).join(". "));
  } catch {
    did.delete(number); // asked again when it is pointed at again
  }
}

// Words of the epochs that are known, for the chart.
const didWords = () => shown.epochs.map((e) => (e.jobs_in ? cameAndWent(e).replace(/\.$/, "") : did.get(e.epoch) || ""));

$("timeline").addEventListener("pointed", ({ detail }) => {
  const row = shown.epochs[detail];
  clearTimeout(pointing);
  if (!row || row.jobs_in || did.has(row.epoch)) return;
  // Whoever only passes by asks nothing.
  pointing = setTimeout(async () => {
    await fetchDid(row.epoch);
    timeline.data.more = didWords();
    if (timeline.at >= 0) timeline.point(timeline.at);
  }, 150);
});

$("timeline").addEventListener("entry", ({ detail }) => chooseEpoch(shown.epochs[detail].epoch));
new ResizeObserver(() => { if (shown.zone) showTimeline(); }).observe($("timeline"));
