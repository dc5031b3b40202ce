// What those who may change something do by hand: look, hold, resume, go back. For others nothing of it is there.
"use strict";

// --- what can be done ---
// { name, title, says, asks: "reason" or "hold" or nothing, path, body(reason, hold), done(answer) }
function acts() {
  const stays = isDirect() ? "The tables on the nodes stay" : shown.current === null ? "Nothing comes into force" : `Epoch ${shown.current} stays in force`;
  const look = {
    name: "look", title: "Look now", path: "v1/look", body: () => ({}), done: () => "the service looks now",
    says: "The service asks for the jobs and reads the fabric at once, and publishes other routes if they are due.",
  };
  const hold = {
    name: "hold", title: "Hold", asks: "reason", path: "v1/hold", body: (reason) => ({ reason }),
    says: `${stays}, and no job waits for routes, until somebody resumes.`,
    done: (answer) => (answer.epoch === null ? "held by you" : `epoch ${answer.epoch} held by you`),
  };
  const resume = {
    name: "resume", title: "Resume", path: "v1/resume", body: () => ({}),
    says: "The hold ends, and the next pass publishes what is due.",
    done: (answer) => (answer.was_held ? "resumed by you" : "nothing was held"),
  };
  const all = [look, shown.held ? resume : hold];
  const chosen = shown.epochs.find((e) => e.epoch === shown.epoch);
  // An epoch of another fabric does not come back.
  const isOfThis = chosen && shown.fabric !== null && chosen.fabric === shown.fabric.fingerprint;
  if (isOfThis && shown.epoch !== shown.current && !isDirect()) {
    const to = shown.epoch;
    all.push({
      name: "rollback", title: `Go back to epoch ${to}`, asks: "hold", path: `v1/epochs/${to}/rollback`, body: (_, hold) => ({ hold }),
      says: `Epoch ${to} comes into force again in the place of epoch ${shown.current}.`,
      done: (answer) => `epoch ${answer.to} put in force again by you${answer.held ? " and held" : ""}`,
    });
  }
  return all;
}

// The buttons, for those who may.
function showHand(mayChange) {
  shown.mayChange = mayChange;
  const box = $("hand");
  const wanted = mayChange ? acts() : [];
  const key = wanted.map((act) => act.title + act.says).join("\n");
  if (box.dataset.key === key) return;
  box.dataset.key = key;
  const at = [...box.children].indexOf(document.activeElement);
  const focused = at < 0 ? null : document.activeElement.dataset.act;
  box.className = mayChange ? "tools" : "";
  box.replaceChildren(...wanted.map((act) => {
    const button = make("button", act.title + " …");
    button.type = "button";
    button.dataset.act = act.name;
    button.addEventListener("click", () => confirmed(act));
    return button;
  }));
  // Resume stands where hold stood.
  const again = focused && ([...box.children].find((button) => button.dataset.act === focused) || box.children[at]);
  if (again) again.focus({ preventScroll: true });
}

// --- is it meant? ---
function field(kind, label, element) {
  element.id = "sure-" + kind;
  const named = make("label", label);
  named.htmlFor = element.id;
  return make("p", null, ...(element.type === "checkbox" ? [element, " ", named] : [named, " ", element]));
}

// Asks in words what will happen; does it when that is meant.
function confirmed(act) {
  const dialog = make("dialog", null);
  const title = make("h2", act.title);
  title.id = "sure-title";
  const says = make("p", act.says);
  says.id = "sure-says";
  dialog.setAttribute("aria-labelledby", title.id);
  dialog.setAttribute("aria-describedby", says.id);
  const reason = Object.assign(document.createElement("input"), { type: "text", maxLength: 200, autocomplete: "off" });
  const hold = Object.assign(document.createElement("input"), { type: "checkbox", checked: true });
  const go = Object.assign(make("button", act.title), { type: "submit" });
  const no = Object.assign(make("button", "Cancel"), { type: "button" });
  no.addEventListener("click", () => dialog.close());
  const form = make("form", null, title, says);
  if (act.asks === "reason") form.append(field("reason", "Why", reason));
  if (act.asks === "hold") form.append(field("hold", "Hold it until somebody resumes. Otherwise the service publishes again when other routes are due.", hold));
  form.append(make("p", null, go, " ", no));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    dialog.close();
    carryOut(act, reason.value.trim(), hold.checked);
  });
  dialog.append(form);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

// What came of it is said where the service says how it is. It waits for no picture.
async function carryOut(act, reason, hold) {
  let text;
  try {
    text = act.done(await ask(act.path, act.body(reason, hold)));
  } catch (error) {
    text = `not done (${act.title.toLowerCase()}): ${error.message}`;
  }
  tell(text);
  // Then what is in force is followed.
  if (act.name === "rollback" && !text.startsWith("not done")) shown.epoch = null;
  inTurn(refresh);
}
