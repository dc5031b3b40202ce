// The panel beside the page: what is found, with its figures and ports, and where to look further. In the address.
"use strict";

// What is open: { kind: "job", "switch", "cable" or "node", key: what it is called }, or null; and what opened it.
let opener = null;

function openPanel(kind, key, isAsked) {
  if (isAsked) opener = document.activeElement;
  shown.open = { kind, key };
  remember();
  return inTurn(async () => {
    await fillPanel();
    if (isAsked && shown.open) $("p-title").focus({ preventScroll: true });
  });
}

function closePanel() {
  // Who was elsewhere stays there.
  const isInside = $("panel").contains(document.activeElement);
  shown.open = null;
  $("panel").hidden = true;
  remember();
  if (isInside && opener && opener.isConnected) opener.focus({ preventScroll: true });
  opener = null;
}

// The cable with an end of this name: its channel that leaves there, or -1.
function channelFrom(end) {
  const { cables } = shown.fabric;
  for (let c = 0; c < 2 * cables.length; c++) if (endName(c, 0) === end) return c;
  return -1;
}

const linkTo = (text, act) => {
  const button = Object.assign(make("button", text), { type: "button" });
  button.addEventListener("click", act);
  return button;
};

const inPicture = (what) => linkTo("Show it in the picture", () => {
  pick(what);
  $("now").scrollIntoView({ block: "nearest" });
});

const opens = (kind, key, text) => linkTo(text || key, () => openPanel(kind, key, true));

// Buttons to jobs that own one of these nodes.
function jobsOn(nodes) {
  const found = shown.jobs.filter((job) => nodes.some((node) => holds(job.nodes, node)));
  if (!found.length) return [make("p", "No job runs here.")];
  return [make("p", null, found.length === 1 ? "Job: " : "Jobs: ", ...found.slice(0, 20).flatMap((job) => [opens("job", job.id), " "]))];
}

function tableOf(heads, rows) {
  const cells = (row) => row.map((cell) => (cell instanceof Node ? make("td", null, cell) : make("td", String(cell))));
  const head = make("thead", null, make("tr", null, ...heads.map((text) => make("th", text))));
  return make("table", null, head, make("tbody", null, ...rows.map((row) => make("tr", null, ...cells(row)))));
}

// --- what is said of each ---
function jobPart(id) {
  const job = shown.jobs.find((one) => one.id === id);
  if (!job) return [make("p", "There is no such job in this epoch.")];
  const cells = cellsOf(job);
  const names = [...$("columns").children].map((head) => [head.dataset.key, head.textContent.replaceAll("\u00ad", "").trim()]);
  const told = names.filter(([key]) => key !== "id" && columns().includes(key)).map(([key, name]) => [name, cells[key]]);
  const row = () => {
    if (!listed().some((one) => one.job.id === id)) [$("filter").value, $("gains").value] = ["", ""];
    showJobs();
    rowOf.get(id).focus();
  };
  return [
    tableOf(["figure", "value"], [...told, ["exchanges", `${job.pattern} (${job.pattern_from === "nobody" ? "nobody said so" : `said by ${job.pattern_from}`})`]]),
    make("p", null, linkTo("Show its channels alone", () => choose(shown.epoch, id)), " ", linkTo("Show it in the list", row)),
  ];
}

// Ports of a switch that have cables, and what these carry.
function portsOf(s) {
  const { load } = shown;
  const number = (end) => end.slice(end.lastIndexOf(":") + 1);
  const rows = channelsOf(s).map((c) => [endName(c, 0), endName(c, 1), load.now[c], load.now[c ^ 1]]);
  rows.sort(([a], [b]) => number(a).localeCompare(number(b), "en", { numeric: true }));
  return tableOf(["port", "leads to", "routes out", "routes in"],
    rows.map(([from, to, out, back]) => [number(from), opens("cable", from, to), out, back]));
}

function switchPart(name, found) {
  const s = shown.fabric.names.indexOf(name);
  if (s < 0) return [make("p", "The fabric has no such switch now.")];
  const row = found.switches.find((one) => one.switch === s);
  const where = row && (row.at ? `At ${row.at}.` : `LID ${row.lid}, GUID ${row.guid}.`);
  const nodes = isDirect() ? [name] : (row && row.nodes) || [];
  const hosts = shown.fabric.hosts[s];
  const what = isDirect() ? (hosts ? "It works." : "It has failed.") : `${hosts} adapters.`;
  return [make("p", `${where || ""} ${what}`), ...(nodes.length && !isDirect() ? [make("p", `Nodes: ${nodes.join(", ")}.`)] : []), ...jobsOn(nodes), portsOf(s), make("p", null, inPicture({ switch: s }))];
}

function cablePart(end) {
  const c = channelFrom(end);
  if (c < 0) return [make("p", "The fabric has no such cable now.")];
  const switches = shown.fabric.cables[c >> 1].map((s) => shown.fabric.names[s]);
  return [
    make("ul", null, ...[c, c ^ 1].map((one) => make("li", `${channelName(one)}: ${channelWords(one)}`))),
    make("p", null, isDirect() ? "Nodes: " : "Switches: ", ...switches.flatMap((name) => [opens("switch", name), " "])),
    make("p", null, inPicture({ cable: c >> 1, channel: c })),
  ];
}

function nodePart(name, found) {
  const ports = found.adapters.filter((a) => (a.node || a.name) === name);
  if (!ports.length) return [make("p", "The fabric has no such node now.")];
  return [
    tableOf(["adapter", "LID", "GUID", "on"], ports.map((a) => [a.name, a.lid, a.guid, opens("switch", a.switch_name, `${a.switch_name}:${a.port}`)])),
    ...jobsOn([name]), make("p", null, inPicture({ switch: ports[0].switch })),
  ];
}

async function fillPanel() {
  const { open, fabric, load } = shown;
  if (!open || !fabric || !load) return;
  const { kind, key } = open;
  const found = kind === "switch" || kind === "node" ? await ask("v1/find?what=" + encodeURIComponent(key)) : null;
  if (shown.open !== open) return; // closed meanwhile, or another one is open
  const parts = { job: jobPart, switch: switchPart, cable: cablePart, node: nodePart }[kind](key, found);
  const box = $("p-body");
  const text = parts.map((part) => part.textContent).join("\n");
  $("panel").hidden = false;
  $("p-title").textContent = `${kind === "switch" && isDirect() ? "node" : kind} ${key}`;
  const isSame = box.dataset.key === kind + key;
  if (box.dataset.text === text && isSame) return;
  // What has the focus keeps it, and what can be done there has the same words.
  const focused = isSame && box.contains(document.activeElement) ? document.activeElement.textContent : null;
  [box.dataset.text, box.dataset.key] = [text, kind + key];
  box.replaceChildren(...parts);
  const again = focused !== null && [...box.querySelectorAll("button")].find((button) => button.textContent === focused);
  if (again) again.focus({ preventScroll: true });
}

$("p-close").addEventListener("click", closePanel);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && shown.open && !document.querySelector("dialog[open]")) closePanel();
});
