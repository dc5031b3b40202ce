// Finding a switch, an adapter or a cable; what is picked in the picture, by mouse or keyboard; zoom; printing.
"use strict";

// --- what is picked ---
// { switch: N } or { cable: N, channel: N }, or null.
function pick(what) {
  shown.picked = what;
  wantedPick = null;
  for (const picture of Object.values(shown.pictures || {})) picture.mark(what);
  showPicked();
  remember();
}

function channelWords(channel) {
  const other = beside();
  const { now } = shown.load;
  const compared = other ? `, ${other.loads[channel]} ${other.name === "before" ? "before" : `with ${other.name === "baseline" ? "the baseline" : other.name}`} (${signed(now[channel] - other.loads[channel])})` : "";
  const fullest = now[channel] > 0 && now[channel] === largest(now) ? ` – the fullest channel${least(shown.load.bound)}` : "";
  return `${now[channel]} routes now${compared}${fullest}`;
}

function showPicked() {
  const { fabric, load, picked } = shown;
  const box = $("picked");
  if (!fabric || !load || !picked) {
    box.textContent = "";
    return;
  }
  if (picked.cable !== undefined) {
    if (picked.cable >= fabric.cables.length) return;
    const lines = [2 * picked.cable, 2 * picked.cable + 1].map((c) => make("li", `${channelName(c)}: ${channelWords(c)}`));
    box.replaceChildren(`Cable ${endName(2 * picked.cable, 0)} – ${endName(2 * picked.cable, 1)}`, make("ul", null, ...lines));
    return;
  }
  const channels = channelsOf(picked.switch);
  const hosts = fabric.hosts[picked.switch];
  const fullest = channels.length ? ` Its fullest: ${channelName(channels[0])}, ${channelWords(channels[0])}.` : "";
  const what = isDirect() ? `Node ${fabric.names[picked.switch]}: ${hosts ? "works" : "has failed"}` : `Switch ${fabric.names[picked.switch]}: ${hosts} adapters`;
  box.textContent = `${what}, ${channels.length} cables.${fullest}`;
}

// Channels out of a switch, the fullest first.
function channelsOf(s) {
  const { fabric, load } = shown;
  const found = [];
  fabric.cables.forEach(([a, b], i) => {
    if (a === s) found.push(2 * i);
    else if (b === s) found.push(2 * i + 1);
  });
  return found.sort((a, b) => load.now[b] - load.now[a] || a - b);
}

// --- finding ---
const MOST_JOBS = 50; // of one user

// `isAsked`: somebody asked just now; otherwise the address did, which says itself what is open.
async function showFound(isAsked) {
  const wanted = $("find").value.trim();
  const box = $("found");
  box.replaceChildren();
  $("found-count").textContent = "";
  if (!wanted) return;
  let answer;
  try {
    answer = await ask("v1/find?what=" + encodeURIComponent(wanted));
  } catch (error) {
    if (error instanceof Refused) throw error;
    $("found-count").textContent = error.message;
    return;
  }
  const entry = (text, what, kind, key) => {
    const button = make("button", text);
    button.type = "button";
    const act = (asked) => { pick(what); if (asked) openPanel(kind, key, true); };
    button.addEventListener("click", () => act(true));
    return { item: make("li", null, button), act };
  };
  const ofJob = (job) => {
    const { user, name } = shown.submissions.get(job.id) || {};
    // Names from right to left stay where they are.
    const said = (before, word) => (word ? [before, make("bdi", word)] : []);
    const button = make("button", null, `job ${job.id}`, ...said(" ", name), ...said(" of ", user), ` on ${job.nodes}`);
    button.type = "button";
    const act = (asked) => { choose(shown.epoch, job.id, asked); if (asked) openPanel("job", job.id, true); };
    button.addEventListener("click", () => act(true));
    return { item: make("li", null, button), act };
  };
  const jobs = jobsCalled(wanted);
  const entries = [
    ...jobs.slice(0, MOST_JOBS).map(ofJob),
    ...answer.cables.map((c) => entry(`cable ${c.ends[0]} – ${c.ends[1]}`, { cable: c.cable, channel: 2 * c.cable }, "cable", c.ends[0])),
    ...answer.switches.map((s) => entry(s.at ? `node ${s.name} at ${s.at}` : `switch ${s.name}, LID ${s.lid}, GUID ${s.guid}`, { switch: s.switch }, "switch", s.name)),
    ...answer.adapters.map((a) => entry(`adapter ${a.node || a.name}, LID ${a.lid}, GUID ${a.guid}, on ${a.switch_name}:${a.port}`, { switch: a.switch }, "node", a.node || a.name)),
  ];
  box.replaceChildren(...entries.map(({ item }) => item));
  $("found-count").textContent = entries.length === 0 ? "nothing is called so" : answer.more || jobs.length > MOST_JOBS ? "and more" : `${entries.length} found`;
  // One answer needs no click.
  if (entries.length === 1) entries[0].act(isAsked);
}

$("finding").addEventListener("submit", (event) => {
  event.preventDefault();
  remember();
  inTurn(() => showFound(true));
});

// --- keyboard ---
// The switch that is next in a direction of the picture: nearest, what is aside counting twice.
function nextSwitch(from, [dx, dy]) {
  const { place } = shown.pictures.now.drawn;
  let [best, found] = [Infinity, from];
  place.forEach(([x, y], s) => {
    const [ax, ay] = [x - place[from][0], y - place[from][1]];
    const [along, aside] = [ax * dx + ay * dy, Math.abs(ax * dy) + Math.abs(ay * dx)];
    if (s === from || along <= 0.5) return;
    const far = along + 2 * aside;
    if (far < best) [best, found] = [far, s];
  });
  return found;
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

// Where a key leads from what is picked; undefined if it is none of ours.
function step(key) {
  const { fabric, picked } = shown;
  const last = fabric.names.length - 1;
  const isCable = picked && picked.cable !== undefined;
  const from = isCable ? picked.from : picked ? picked.switch : null;
  if (key === "Escape") return isCable && from !== undefined ? { switch: from } : null;
  if (key === "Home") return { switch: 0 };
  if (key === "End") return { switch: last };
  if (key === "Enter" && picked && !isCable) {
    const [channel] = channelsOf(from);
    return channel === undefined ? undefined : { cable: channel >> 1, channel, from };
  }
  if (!ARROWS[key]) return undefined;
  if (!isCable) return { switch: from === null ? 0 : nextSwitch(from, ARROWS[key]) };
  const start = from === undefined ? fabric.cables[picked.cable][0] : from;
  const channels = channelsOf(start);
  const by = key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1;
  const at = channels.findIndex((c) => c >> 1 === picked.cable);
  const channel = channels[(at + by + channels.length) % channels.length];
  return { cable: channel >> 1, channel, from: start };
}

for (const id of ["now", "before"]) {
  $(id).addEventListener("keydown", (event) => {
    if (!shown.pictures || !shown.load || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "+" || event.key === "-" || event.key === "0") {
      zoom({ "+": 1.5, "-": 1 / 1.5, 0: 0 }[event.key]);
      return;
    }
    const to = step(event.key);
    if (to === undefined) return;
    event.preventDefault();
    pick(to);
  });
  $(id).addEventListener("click", (event) => {
    if (!shown.pictures || !shown.load || dragged) return;
    const picture = shown.pictures[id];
    const s = picture.switchAt(event.offsetX, event.offsetY);
    const channel = s < 0 ? picture.at(event.offsetX, event.offsetY) : -1;
    pick(s >= 0 ? { switch: s } : channel >= 0 ? { cable: channel >> 1, channel } : null);
  });
}

// --- zoom ---
// By a factor; 0: all of it. What is under the pointer stays there; without one, what is picked stays in the middle.
function nearer(factor, pointer) {
  const view = shown.view;
  const { picked, fabric } = shown;
  if (!fabric) return;
  if (factor === 0) [view.scale, view.x, view.y] = [1, 0.5, 0.5];
  else {
    const far = 1 / view.scale;
    view.scale = Math.min(Math.max(view.scale * factor, 1), 40);
    const aside = (v, of) => Math.min(Math.max(v + (of - 0.5) * (far - 1 / view.scale), 0), 1);
    if (pointer) [view.x, view.y] = [aside(view.x, pointer[0]), aside(view.y, pointer[1])];
    else if (picked) [view.x, view.y] = shown.pictures.now.spot(picked);
  }
  if (view.scale === 1) [view.x, view.y] = [0.5, 0.5];
  showLoad();
}

function zoom(factor) {
  nearer(factor);
  remember();
}

for (const [id, factor] of [["closer", 1.5], ["farther", 1 / 1.5], ["whole", 0]]) $(id).addEventListener("click", () => zoom(factor));

let drag = null;
let dragged = false;
let wheeled = 0;
for (const id of ["now", "before"]) {
  $(id).addEventListener("pointerdown", (event) => {
    dragged = false;
    drag = shown.load && shown.view.scale > 1 ? { x: event.clientX, y: event.clientY, from: { ...shown.view } } : null;
  });
  $(id).addEventListener("pointermove", (event) => {
    if (!drag) return;
    const { width, height } = shown.pictures[id].drawn;
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    if (Math.hypot(dx, dy) > 4) dragged = true;
    shown.view.x = Math.min(Math.max(drag.from.x - dx / width / drag.from.scale, 0), 1);
    shown.view.y = Math.min(Math.max(drag.from.y - dy / height / drag.from.scale, 0), 1);
    requestAnimationFrame(showLoad);
  });
  // Plain scrolling is the page's.
  $(id).addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    if (!shown.load || !shown.pictures[id].drawn) return;
    const { left, top, width, height } = shown.pictures[id].frame;
    nearer(event.deltaY < 0 ? 1.5 : 1 / 1.5, [(event.offsetX - left) / width, (event.offsetY - top) / height]);
    // A wheel turns faster than browsers let addresses be written.
    clearTimeout(wheeled);
    wheeled = setTimeout(remember, 200);
  }, { passive: false });
}
for (const end of ["pointerup", "pointercancel"]) {
  addEventListener(end, () => {
    if (drag && dragged) remember();
    drag = null;
  });
}

// --- printing: on light paper, with all tables open ---
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  closed.forEach((details) => { details.open = true; });
  document.documentElement.classList.remove("dark");
  showLoad();
});
addEventListener("afterprint", () => {
  closed.forEach((details) => { details.open = false; });
  applyTheme();
});
