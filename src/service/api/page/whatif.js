// What if a job ran on these nodes, or on so many, or another engine routed? The service computes one answer at a time.
"use strict";

const two = (time) => (time && typeof time.slowdown_mean === "number" ? time.slowdown_mean.toFixed(2) : null);

// What a dry run says, in words.
function outcome(plan, id) {
  const [before, after] = [plan.before, plan.after].map((figures) => two(figures && figures.time));
  const own = (plan.per_job || []).find((job) => job.job === id);
  const said = [];
  if (!plan.due) said.push("Routes would stay as they are" + (plan.worth ? ": a change is not worth its price." : "."));
  else said.push("Routes would change" + (typeof plan.changed_blocks === "number" ? ` (${plan.changed_blocks} blocks of tables).` : "."));
  if (before && after) said.push(`All jobs' exchanges: ${before} times what their own cables need with the routes of now, ${after} with the new ones.`);
  else if (after) said.push(`All jobs' exchanges would take ${after} times what their own cables need.`);
  if (own) {
    const slow = typeof own.after.slowdown === "number" ? `, slow-down ${own.after.slowdown.toFixed(2)}` : "";
    const now = own.before ? `${own.before.max} → ` : "";
    said.push(`This job: ${now}${own.after.max} of its routes on its fullest channel${slow}.`);
  } else if (plan.refused && plan.refused.length) said.push(plan.refused.map(([job, why]) => `${job}: ${why}`).join("; "));
  if (plan.unknown_nodes && plan.unknown_nodes.length) said.push(`Unknown nodes: ${plan.unknown_nodes.join(", ")}.`);
  return said.join(" ");
}

// Which nodes a job of so many would best get, in words; with `nodes`, or null if there are none.
async function nodesFor(count, pattern) {
  const asked = new URLSearchParams(pattern ? { nodes: count, pattern } : { nodes: count });
  const placed = await ask("v1/place?" + asked);
  const idle = placed.free_from === "slurm" ? " Only nodes that Slurm calls idle count." : "";
  if (placed.nodes === null) return { nodes: null, said: `No nodes can be recommended: ${placed.why}.${idle}` };
  const most = (predicted) => `${predicted.max} routes on the fullest channel${typeof predicted.slowdown === "number" ? `, slow-down ${predicted.slowdown.toFixed(2)}` : ""}`;
  const usual = placed.usual ? ` Slurm's usual choice, ${placed.usual_nodes}: ${most(placed.usual)}.` : "";
  const free = `Of ${placed.free} nodes that ${placed.free_from === "slurm" ? "Slurm calls idle" : "no job has, which Slurm may have drained or reserved"}.`;
  return { nodes: placed.nodes, said: `Best for ${count} nodes: ${placed.nodes} (${most(placed.predicted)}).${usual} ${free}` };
}

// Figures of an engine beside those of now and those of the baseline.
function showTried(answer) {
  const rows = [["now", answer.now], ["baseline", answer.baseline], ["tried", answer.tried]].filter(([, given]) => given);
  const best = Math.min(...rows.map(([, given]) => (given.time ? given.time.slowdown_mean : 1)));
  $("if-rows").replaceChildren(...rows.map(([name, given]) => {
    const row = make("tr", null, make("td", name), make("td", given.engine), make("td", two(given.time) || "–"), make("td", given.largest_load));
    row.classList.toggle("best", given.time !== null && given.time.slowdown_mean === best);
    return row;
  }), make("tr", null, make("td", "least possible"), make("td", "–"), make("td", "1"), make("td", answer.bound)));
  $("if-table").hidden = false;
}

async function answered(wanted, pattern, engine) {
  const { jobs } = await ask("v1/jobs");
  const id = "what-if";
  const line = (job) => `${job.id} ${job.nodes}${job.pattern_from === "nobody" ? "" : " " + job.pattern}`;
  const said = [];
  let nodes = wanted;
  if (/^\d+$/.test(wanted)) {
    const placed = await nodesFor(wanted, pattern);
    said.push(placed.said);
    if (placed.nodes === null) return said.join(" ");
    ({ nodes } = placed);
  }
  const own = nodes ? [`${id} ${nodes} ${pattern}`.trim()] : [];
  const body = { jobs: [...jobs.map(line), ...own].join("\n") + "\n" };
  if (engine) {
    const tried = await ask("v1/engines/" + encodeURIComponent(engine), body);
    showTried(tried);
    const [now, then] = [tried.now && two(tried.now.time), two(tried.tried.time)];
    said.push(then === null ? "No job is on several switches." : `With ${engine} the jobs' exchanges would take ${then} times what their own cables need${now ? `; with what is in force ${now}` : ""}.`);
  } else said.push(outcome(await ask("v1/plan", body), id));
  return said.join(" ");
}

let hasEngines = false;

// The engines, once they are known. A direct torus has one for each job, and chooses no nodes here.
async function fetchEngines() {
  if (hasEngines) return;
  const { engines } = await ask("v1/engines");
  hasEngines = true;
  $("if-engine").append(...engines.map(({ name, what }) => Object.assign(make("option", name), { value: name, title: what })));
  $("if-engine").parentElement.hidden = !engines.length;
  chooseEngine();
}

$("whatif").addEventListener("submit", (event) => {
  event.preventDefault();
  const [nodes, pattern, engine] = ["if-nodes", "if-pattern", "if-engine"].map((id) => $(id).value.trim());
  const [box, button] = [$("if-answer"), $("whatif").querySelector("button")];
  if (button.disabled) return;
  $("if-table").hidden = true;
  if (!nodes && !engine) {
    box.textContent = "Say on which nodes, on how many, or by which engine.";
    return;
  }
  box.textContent = "asking …";
  // One at a time: the next question waits for this answer. The rest of the page does not.
  button.disabled = true;
  const answer = async () => {
    try {
      box.textContent = await answered(nodes, pattern, engine);
    } catch (error) {
      box.textContent = error.message;
      if (error instanceof Refused) throw error;
    } finally {
      button.disabled = false;
    }
  };
  answer().catch(failed);
});
