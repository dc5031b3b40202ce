// How the colours of the picture follow from loads: around the bound, by load, by its logarithm, or by rank.
"use strict";

const COLOURS = ["bound", "load", "log", "rank"];

// What the reader has chosen; unless told, around the bound where one is known.
function colouredBy() {
  const isKnown = shown.load !== null && typeof shown.load.bound === "number" && shown.load.bound > 0;
  const { colours } = shown;
  if (colours === "bound" || colours === "") return isKnown ? "bound" : "load";
  return colours;
}

// From a load to 0..1, for scales of one direction. A rank is one among all loads of both pictures.
function shareOf(kind, full) {
  if (kind === "log") return (load) => (full > 1 ? Math.log(load) / Math.log(full) : 1);
  if (kind !== "rank") return (load) => load / full;
  const other = beside();
  const known = new Set([...shown.load.now, ...(other ? other.loads : [])].filter((load) => load > 0));
  const rank = new Map([...known].sort((a, b) => a - b).map((load, i) => [load, known.size > 1 ? i / (known.size - 1) : 1]));
  return (load) => rank.get(load) ?? 1;
}

const STEPS = 6; // of colour on each side of the bound

// How far a load is from the bound: -1 (nearly unused), 0 (at it), 1 (the fullest).
function fromBound(load, bound, full) {
  if (load === bound) return 0;
  return load < bound ? -(bound - load) / bound : (load - bound) / (full - bound);
}

// How lines look around the bound, the least important first. What is above is thick, for those who see no colours.
function anchored(loads, bound, full, dark, gap) {
  const unused = { colour: null, width: 0.6, dash: loads.length < 4000 ? [2, 3] : [], channels: [] };
  const at = { colour: neutral(), width: gap * 1.6, dash: [], channels: [] };
  const side = (sign, width) => Array.from({ length: STEPS }, (_, i) => ({ colour: tint((sign * (i + 1)) / STEPS, dark), width, dash: [], channels: [] }));
  const [below, above] = [side(-1, gap * 1.2), side(1, gap * 2.4)];
  loads.forEach((load, channel) => {
    const far = fromBound(load, bound, full);
    if (load === 0) unused.channels.push(channel);
    else if (far === 0) at.channels.push(channel);
    else (far < 0 ? below : above)[Math.min(Math.ceil(Math.abs(far) * STEPS), STEPS) - 1].channels.push(channel);
  });
  // What is nearest to the bound lies above what is far below it.
  return [unused, ...below.reverse(), at, ...above];
}

const neutral = () => getComputedStyle(document.documentElement).getPropertyValue("--soft").trim();

// A strip of colours, and what they say.
function showScale(full) {
  const kind = colouredBy();
  const { bound } = shown.load;
  // Nothing is above the bound where the fullest channel is at it.
  const count = kind !== "bound" ? SHADES : full > bound ? 49 : 25;
  const canvas = make("canvas", null);
  [canvas.width, canvas.height] = [count, 1];
  const context = canvas.getContext("2d");
  const colour = (i) => {
    if (kind !== "bound") return shade(isDark() ? STOPS.dark : STOPS.light, i / (SHADES - 1));
    return i === 24 ? neutral() : tint((i - 24) / 24, isDark());
  };
  for (let i = 0; i < count; i++) {
    context.fillStyle = colour(i);
    context.fillRect(i, 0, 1, 1);
  }
  const unused = make("i", null);
  unused.className = shown.pictures.now instanceof Matrix ? "unused-cell" : "unused";
  const said = {
    bound: ` · blue: fewer than ${bound} · grey: ${bound}, the bound: no tables have a smaller largest load${full > bound ? " · orange: more" : ""}`,
    load: "", log: ", by logarithm", rank: ", by rank among all loads",
  }[kind];
  const most = kind === "bound" ? Math.max(full, bound) : full;
  $("scale").replaceChildren("1", canvas, `${most} route${most === 1 ? "" : "s"}${said}`, unused, `unused · ${shown.pictures.now.legend().each}`);
}

// The choice, as it is in force.
function showColours() {
  const isKnown = typeof shown.load.bound === "number";
  $("colours").value = colouredBy();
  $("colours").disabled = shown.show === "difference";
  $("colours").options[0].disabled = !isKnown;
}

$("colours").addEventListener("change", () => {
  // What fits by itself needs no word in the address.
  shown.colours = $("colours").value === "bound" ? "" : $("colours").value;
  remember();
  showLoad();
});
