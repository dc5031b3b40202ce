// The first line: how the service is in one word, what is wrong and since when, and which command helps.
"use strict";

const STATES = { live: "live", dry_run: "dry run", held: "HELD", stopped: "stopped", waiting_for_opensm: "waiting for OpenSM" };
const LASTS = 600000; // milliseconds that the outcome of what was done by hand is told
let silentSince = null; // the service does not answer since then, as seen from here
let answeredAt = null; // the last answer
let lastState = null; // the word of the last answer

// What the browser keeps for the page. Where it may keep nothing, this lasts as long as the page is open.
function keeper(name) {
  try {
    window[name].getItem("theme");
    return window[name];
  } catch {
    const kept = new Map();
    return { isShort: true, getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value), removeItem: (key) => kept.delete(key) };
  }
}
const [local, session] = ["localStorage", "sessionStorage"].map(keeper);

let [files, newer] = [null, null]; // of the page, as the service has them: when it was loaded, and others now

// After an upgrade of the service the page is loaded anew, unless somebody is typing, or it was in vain before.
function noteFiles(now) {
  files ??= now;
  if (!now || now === files) return;
  const isBusy = document.querySelector("dialog[open]") || document.activeElement?.matches("input, select");
  if (!isBusy && !session.isShort && session.getItem("files") !== now) {
    session.setItem("files", now);
    return location.reload();
  }
  if (newer !== now) tell("the service has been upgraded: load this page anew");
  newer = now;
}

// Which of several fabrics the page is of, and the way to the others.
const [, fabricName] = location.pathname.match(/\/fabrics\/([^/]+)\/$/) || [];
if (fabricName) document.querySelector("h1").append(" ", Object.assign(make("a", fabricName), { href: "../../", title: "All fabrics" }));

const command = (text) => make("code", text);

// What belongs to the state: who, since when, why, and the command that helps.
function stateWords({ state, held, waits_for_opensm: published, ended }) {
  if (state === "held") {
    const reason = held.reason ? [": ", make("bdi", held.reason)] : [];
    return [` by ${held.by || "somebody"}, ${ago(held.since)}`, ...reason, " (", command("sarouter resume"), " ends it)"];
  }
  if (state === "waiting_for_opensm") return [`: what was published ${ago(published)} is not acknowledged (`, command("sarouter doctor"), " says why)"];
  if (state === "dry_run") return [": nobody fetches the epochs (", command("sarouter doctor"), " says what is missing)"];
  if (state === "stopped") return [` ${ago(ended)} (`, command("systemctl start sarouter"), ")"];
  return [];
}

// Writes the line, which goes with the time. What has happened is read aloud.
function strip(className, word, aloud, ...rest) {
  const box = $("health");
  const name = make("b", word);
  name.id = "state";
  write($("aloud"), word + aloud);
  box.className = className;
  document.title = [word, "sarouter", fabricName].filter(Boolean).join(" · ");
  patch(box, make("p", null, name, ...rest));
}

// The service has answered how it is.
function heard(health) {
  // After a restart it may know a baseline that it did not know before.
  if (shown.health && shown.health.started !== health.started) shown.baseline = "there";
  shown.health = health;
  [silentSince, answeredAt] = [null, serviceTime()];
  showHealth();
}

// A sign of life beside an answer that takes long: the first line goes on.
const lives = (health) => { if (shown.zone) heard(health); };

function showHealth() {
  const { health } = shown;
  const verdict = health.healthy ? "healthy" : `${health.problems.length} to look at`;
  const facts = [
    shown.current === null ? "nothing published yet" : health.torus ? `change ${shown.current} on the nodes` : `epoch ${shown.current} in force`,
    health.acknowledged ? `OpenSM took it in ${health.acknowledged.milliseconds} ms` : null,
    health.last_success ? `last pass ${ago(health.last_success)}` : "no pass yet",
    health.next_pass ? `next ${ago(health.next_pass)}` : null,
    health.waiting_jobs ? `${health.waiting_jobs} young jobs wait` : null,
  ];
  const outcome = shown.outcome && serviceTime() - shown.outcome.time < LASTS ? shown.outcome : null;
  if (outcome) facts.unshift(`${outcome.text}, ${ago(outcome.time)}`);
  const state = health.state || "live";
  lastState = STATES[state];
  strip(health.healthy ? "" : "bad", STATES[state], `, ${verdict}${outcome ? `, ${outcome.text}` : ""}`, ...stateWords({ ...health, state }), " · ", make("b", verdict), " · " + facts.filter(Boolean).join(" · "));
  $("health").title = `last pass ${clock(health.last_success)}; ${yours(health.last_success)}`
    + (health.held ? `; held since ${clock(health.held.since)}` : "");
  // A hold is the state, and told there.
  const troubles = (health.troubles || []).filter(({ kind }) => kind !== "held");
  patch($("problems"), make("ul", null, ...troubles.map(({ text, since, remedy }) => {
    const item = make("li", `${text} · since ${clock(since)}, ${ago(since)} · `, command(remedy));
    item.title = yours(since);
    return item;
  })));
}

// Tells on the first line for a while what came of something.
function tell(text) {
  shown.outcome = { text, time: serviceTime() };
  if (shown.health && silentSince === null) showHealth();
}

// --- who is signed in ---
// Only a token is signed in and out; who asks over the socket is known to the kernel.
function showWho(mayChange) {
  const hasToken = Boolean(session.getItem("token"));
  $("login").hidden = true;
  $("login-said").textContent = "";
  $("who").textContent = hasToken ? `signed in as ${mayChange ? "operator" : "reader"}` : "";
  $("who").title = mayChange ? "may look, hold, resume and go back" : "may ask, and change nothing";
  $("sign-out").hidden = !hasToken;
}

function askForToken(refused) {
  // Another one was given meanwhile.
  if (refused !== session.getItem("token")) return;
  if (refused) session.setItem("refused", "yes");
  session.removeItem("token");
  // What was shown goes with the token.
  if (shown.epochs.length || shown.fabric) return location.reload();
  if (session.getItem("refused")) $("login-said").textContent = "The service does not accept this token: it is wrong, or it has expired.";
  session.removeItem("refused");
  $("login").hidden = false;
  $("who").textContent = "";
  $("sign-out").hidden = true;
}

$("sign-out").addEventListener("click", () => {
  session.removeItem("token");
  location.reload();
});

$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  $("login-said").textContent = "";
  session.setItem("token", $("token").value.trim());
  $("token").value = "";
  inTurn(refresh);
});

// There is no answer, or one that refuses.
function failed(error) {
  const isUnknown = error instanceof Refused && error.status === 401;
  if (isUnknown) askForToken(error.token);
  else $("login").hidden = true;
  if (!error.isSilent) {
    // It answers, but not all that was asked.
    const word = isUnknown ? "not signed in" : error instanceof Refused ? "not allowed" : lastState || "no answer";
    const said = `${word === lastState ? " · not all is shown" : ""}: ${error.message}`;
    strip("bad", word, said, said);
    return;
  }
  silentSince = silentSince || serviceTime();
  const last = answeredAt ? `, the last answer ${ago(answeredAt)}` : "";
  strip("bad", STATES.stopped, `: ${error.message}`, `: the service does not answer since ${clock(silentSince)}, ${ago(silentSince)}${last} (`, command("systemctl status sarouter"), " on its machine)");
  $("problems").replaceChildren();
}
