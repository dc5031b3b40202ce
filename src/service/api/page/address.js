// The address says what is shown: it can be kept, sent, and gone back to. An epoch or a job that is chosen is a step of
// the browser's history; all else changes the step that is there.
"use strict";

// Fields whose text goes along, by their name in the address.
const FIELDS = { find: "find", filter: "filter", which: "which", nodes: "if-nodes", pattern: "if-pattern" };
let wantedPick = null; // what is to be picked once the fabric is there
let wantedSpan = null; // what of the timeline is to be seen once it is drawn
let wantedEngine = null; // of "what if", once the engines are there

// What is picked, as the address has it; nothing where the panel says the same.
function pickedName() {
  const { fabric, picked, open } = shown;
  if (!fabric || !picked) return wantedPick;
  const key = picked.cable === undefined ? fabric.names[picked.switch] : endName(picked.channel, 0);
  const kind = picked.cable === undefined ? "switch" : "cable";
  return open && open.kind === kind && open.key === key ? null : `${kind}:${key}`;
}

const openDetails = () => [...document.querySelectorAll("details[open]")].map((each) => each.id);

// Writes the address; `isStep`: as a step to go back from.
function remember(isStep) {
  const { key, down } = shown.sort;
  const { scale, x, y } = shown.view;
  const parts = new URLSearchParams();
  const set = (name, value) => { if (value) parts.set(name, value); };
  if (shown.epoch !== null) parts.set("epoch", shown.epoch);
  if (shown.job !== null) parts.set("job", shown.job);
  if (shown.against !== "opensm") parts.set("against", shown.against);
  if (shown.show !== "both") parts.set("show", shown.show);
  if (shown.as !== "matrix") parts.set("as", shown.as);
  set("colours", shown.colours);
  for (const [name, id] of Object.entries(FIELDS)) set(name, $(id).value);
  set("engine", $("if-engine").value || wantedEngine);
  set("gains", $("gains").value);
  if (key !== "id" || down) parts.set("sort", (down ? "-" : "") + key);
  if ($("routes").checked) parts.set("columns", "all");
  if (shown.open) parts.set("open", `${shown.open.kind}:${shown.open.key}`);
  set("pick", pickedName());
  if (scale !== 1) parts.set("view", [scale.toFixed(2), x.toFixed(4), y.toFixed(4)].join(","));
  const span = timeline ? timeline.span() : wantedSpan;
  if (span) parts.set("time", span.map(Math.round).join("-"));
  set("details", openDetails().join(","));
  const text = parts.toString();
  const address = text ? "#" + text : location.pathname;
  // Writing the same again could end a step back that the browser is about to take.
  if (location.hash === (text ? address : "")) return;
  if (isStep) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}

function recall() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const text = (name) => parts.get(name) || "";
  shown.epoch = /^\d{1,9}$/.test(text("epoch")) ? Number(text("epoch")) : null;
  shown.job = parts.get("job");
  shown.against = /^(before|fabric|\d{1,9})$/.test(text("against")) ? text("against") : "opensm";
  shown.show = text("show") === "difference" ? "difference" : "both";
  shown.colours = COLOURS.includes(text("colours")) ? text("colours") : "";
  const as = text("as") === "circle" ? "circle" : "matrix";
  const isOther = as !== shown.as;
  shown.as = as;
  if (isOther && shown.fabric) makePictures();
  const [, kind, name] = text("open").match(/^(job|switch|cable|node):(.+)$/) || [];
  shown.open = kind ? { kind, key: name } : null;
  $("panel").hidden = !shown.open;
  const sort = text("sort") || "id";
  const key = sort.replace(/^-/, "");
  if (COLUMNS.includes(key)) shown.sort = { key, down: sort !== key };
  for (const [field, id] of Object.entries(FIELDS)) $(id).value = text(field);
  wantedEngine = parts.get("engine");
  chooseEngine();
  $("gains").value = ["winners", "losers"].includes(text("gains")) ? text("gains") : "";
  $("routes").checked = text("columns") === "all";
  wantedPick = parts.get("pick");
  const [scale, x, y] = text("view").split(",").map(Number);
  const isView = scale > 1 && scale <= 40 && [x, y].every((v) => v >= 0 && v <= 1);
  shown.view = isView ? { scale, x, y } : { scale: 1, x: 0.5, y: 0.5 };
  const span = text("time").split("-").map(Number);
  wantedSpan = span.length === 2 && span[0] < span[1] ? span : null;
  if (timeline) lookAtWanted();
  const open = text("details").split(",");
  for (const each of document.querySelectorAll("details")) each.open = open.includes(each.id);
}

// Picks what the address says, if the fabric has it.
function pickAgain() {
  const [, kind, key] = (wantedPick || "").match(/^(switch|cable):(.+)$/) || [];
  if (!kind || !shown.fabric || !shown.load) return;
  wantedPick = null;
  const channel = kind === "cable" ? channelFrom(key) : -1;
  const s = kind === "switch" ? shown.fabric.names.indexOf(key) : -1;
  if (channel >= 0) pick({ cable: channel >> 1, channel });
  else if (s >= 0) pick({ switch: s });
}

// The engine of the address, once there is a list to choose it from.
function chooseEngine() {
  const known = [...$("if-engine").options].map((option) => option.value);
  if (wantedEngine !== null && !known.includes(wantedEngine)) return;
  $("if-engine").value = wantedEngine || "";
  wantedEngine = null;
}

function lookAtWanted() {
  if (wantedSpan) timeline.lookAt(wantedSpan);
  else timeline.all();
  wantedSpan = null;
}

for (const id of Object.values(FIELDS)) $(id).addEventListener("change", () => remember());
for (const id of ["if-engine", "routes"]) $(id).addEventListener("change", () => remember());
for (const each of document.querySelectorAll("details")) each.addEventListener("toggle", () => remember());
$("timeline").addEventListener("looked", () => remember());

// Back and forward, or another address by hand.
addEventListener("popstate", () => {
  recall();
  choose(shown.epoch, shown.job);
  inTurn(async () => {
    await showFound(false);
    pickAgain();
    showLoad();
  });
});
