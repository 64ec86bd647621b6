// Starts the page, which polls the sandbox.

import { refreshFaults } from "./faults.js";
import { clearJournal, refreshJournal } from "./journal.js";
import { Rejected, attempt, call, namespace } from "./sandbox.js";
import { connectForms } from "./send.js";
import { lists } from "./store.js";

/** Polling interval in milliseconds. */
const INTERVAL = 2_000;

let timer;
/** The last queued task. Tasks run one after another. */
let lastTask = Promise.resolve();

function enqueue(task) {
  lastTask = lastTask.then(() => attempt(task));
  return lastTask;
}

/** Reloads all open lists, and schedules the next reload if the page is visible. */
async function refresh() {
  clearTimeout(timer);
  const error = await enqueue(async () => {
    await refreshJournal();
    await refreshFaults();
    for (const list of lists) await list.refresh();
  });
  clearTimeout(timer);
  // Stop polling after a rejection, which would recur.
  if (!(error instanceof Rejected) && !document.hidden) timer = setTimeout(refresh, INTERVAL);
}

if (namespace !== null) document.getElementById("service-key").value = namespace;
connectForms(refresh);
document.getElementById("clear").addEventListener("click", () => enqueue(clearJournal));
document.getElementById("reset").addEventListener("click", async () => {
  if (!confirm("Drop agents, requests and faults, and go back to the deals and keys that the sandbox started with?")) return;
  await enqueue(() => call("reset", { method: "POST" }));
  await refresh();
});
addEventListener("keydown", ({ key, ctrlKey, metaKey, target }) => {
  if (key === "Enter" && (ctrlKey || metaKey)) target.form?.requestSubmit();
});
document.getElementById("token").addEventListener("change", refresh);
document.addEventListener("visibilitychange", refresh);
for (const { details } of lists) details.addEventListener("toggle", refresh);
refresh();
