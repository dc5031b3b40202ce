// What a person asks beside the page: a node, a job that is not there yet, a picture to keep, the page again later.
"use strict";

// --- writing ---
// Writes what has changed: what is read aloud is not read again.
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Makes an element's content like that of another, and touches no more than what differs: somebody may be copying a
// command out of it.
function patch(element, fresh) {
  const [old, parts] = [element, fresh].map((each) => [...each.childNodes]);
  if (old.length !== parts.length || old.some((part, i) => part.nodeName !== parts[i].nodeName)) {
    element.replaceChildren(...parts);
    return;
  }
  old.forEach((part, i) => {
    if (part.nodeType !== Node.ELEMENT_NODE) write(part, parts[i].textContent);
    else {
      if (part.title !== parts[i].title) part.title = parts[i].title;
      patch(part, parts[i]);
    }
  });
}

// --- times ---
// 3 min, 5 h 12 min, 2 d 3 h, 120 d.
function long(seconds) {
  const [minutes, hours] = [Math.floor(seconds / 60), Math.floor(seconds / 3600)];
  if (seconds < 60) return `${Math.max(0, Math.round(seconds))} s`;
  if (hours < 1) return `${minutes} min`;
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return hours < 2400 ? `${Math.floor(hours / 24)} d ${hours % 24} h` : `${Math.floor(hours / 24)} d`;
}

let ahead = 0; // milliseconds by which the service's clock is before the reader's

// Notes the service's clock, which an answer tells to the second. Less is what answers take.
function setClock(date) {
  const by = new Date(date) - Date.now();
  ahead = Math.abs(by) > 2000 ? by : 0;
}

// The time by the service's clock, as all times that it tells are.
const serviceTime = () => Date.now() + ahead;

function ago(time) {
  const seconds = (serviceTime() - new Date(time)) / 1000;
  return seconds < 0 ? `in ${long(-seconds)}` : `${long(seconds)} ago`;
}

const WHOLE = { year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" };

// Dates of the site: whoever reads here and whoever is there name the same time.
function clock(time, how = WHOLE) {
  if (!time) return "–";
  const date = new Date(time);
  const { zone } = shown;
  if (!zone) return date.toLocaleString(undefined, how);
  try {
    if (zone.name) return date.toLocaleString(undefined, { ...how, timeZone: zone.name });
  } catch { /* The browser knows no such zone: its offset is known. */ }
  return new Date(date.getTime() + 1000 * zone.offset_seconds).toLocaleString(undefined, { ...how, timeZone: "UTC" });
}

// The same by the reader's clock.
function yours(time) {
  return time ? `${new Date(time).toLocaleString()} by your clock (${Intl.DateTimeFormat().resolvedOptions().timeZone})` : "";
}

function showZone() {
  const { name, offset_seconds: offset } = shown.zone;
  const two = (value) => String(Math.floor(value)).padStart(2, "0");
  const ahead = `UTC${offset < 0 ? "−" : "+"}${two(Math.abs(offset) / 3600)}:${two((Math.abs(offset) / 60) % 60)}`;
  $("zone").textContent = `times of the site: ${name ? `${name} (${ahead})` : ahead}`;
}

// --- what people did by hand ---
function showActs(acts) {
  $("acts").parentElement.parentElement.hidden = !acts.length;
  patch($("acts"), make("tbody", null, ...[...acts].reverse().slice(0, 50).map((act) => {
    const cells = [clock(act.time), act.act, act.by || "–", act.epoch === null ? "–" : act.epoch, act.reason];
    const row = make("tr", null, ...cells.map((cell) => make("td", cell)));
    row.firstElementChild.title = yours(act.time);
    return row;
  })));
}

// --- files ---
// A cell of a CSV file. One that begins like a formula, and is no number, is text.
const csvCell = (text) => `"${String(text).replace(/^(?!-?[\d.]+$)[=+@\t\r-]/, "'$&").replaceAll('"', '""')}"`;

function save(name, type, text) {
  const link = make("a", null);
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

$("svg").addEventListener("click", () => {
  if (shown.pictures && shown.load) save(`${shown.show === "difference" ? "difference" : "load"}-epoch-${shown.load.epoch}.svg`, "image/svg+xml", shown.pictures.now.svg());
});

$("channels").addEventListener("click", () => {
  if (!shown.load) return;
  const { now } = shown.load;
  const other = beside();
  const row = (_, c) => [channelName(c), now[c], other ? other.loads[c] : ""].map(csvCell).join(",") + "\n";
  save(`channels-epoch-${shown.load.epoch}.csv`, "text/csv", `"channel","now",${csvCell(other ? other.name : againstName())}\n` + now.map(row).join(""));
});

// --- where is a node? ---
async function showNode() {
  const name = $("filter").value.trim();
  let said = "";
  if (/^[A-Za-z][\w.-]*\d[\w.-]*$/.test(name)) {
    try {
      said = nodeWords(await ask("v1/nodes/" + encodeURIComponent(name)));
    } catch (error) {
      if (error instanceof Refused) throw error;
      // No node: the jobs that fit are listed all the same.
    }
  }
  if (name === $("filter").value.trim()) write($("node"), said);
}

function nodeWords(node) {
  const jobs = node.jobs.length ? `job ${node.jobs.join(", ")}` : "no job";
  const where = node.at
    ? `at ${node.at}, ${node.healthy ? "works" : "has failed"}`
    : node.terminals.map((t) => `LID ${t.lid} on ${t.switch_description} (${t.switch})`).join("; ");
  return `${node.node}: ${where}; ${jobs}`;
}

$("filter").addEventListener("change", () => inTurn(showNode));
$("filter").addEventListener("input", () => write($("node"), ""));
