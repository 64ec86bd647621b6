// Starts the page, which reads from the sandbox again and again.

import { refreshFaults } from "./faults.js";
import { clearJournal, refreshJournal } from "./journal.js";
import { Refused, attempt, call, namespace } from "./sandbox.js";
import { startSending } from "./send.js";
import { lists } from "./store.js";

/** How long after a reading the next one begins, in milliseconds. */
const INTERVAL = 2_000;

let timer;
/** What is being read or changed: one thing after the other. */
let doing = Promise.resolve();

function inTurn(work) {
  doing = doing.then(() => attempt(work));
  return doing;
}

/** Reads what is shown now, and again after a while if the page is looked at. */
async function refresh() {
  clearTimeout(timer);
  const error = await inTurn(async () => {
    await refreshJournal();
    await refreshFaults();
    for (const list of lists) await list.refresh();
  });
  clearTimeout(timer);
  // What the sandbox refuses once it refuses again.
  if (!(error instanceof Refused) && !document.hidden) timer = setTimeout(refresh, INTERVAL);
}

if (namespace !== null) document.getElementById("service-key").value = namespace;
startSending(refresh);
document.getElementById("clear").addEventListener("click", () => inTurn(clearJournal));
document.getElementById("reset").addEventListener("click", async () => {
  if (!confirm("Drop agents, requests and faults, and go back to the deals and keys that the sandbox started with?")) return;
  await inTurn(() => call("reset", { method: "POST" }));
  await refresh();
});
addEventListener("keydown", ({ key, ctrlKey, metaKey, target }) => {
  if (key === "Enter" && (ctrlKey || metaKey)) target.form?.requestSubmit();
});
document.getElementById("token").addEventListener("change", refresh);
document.addEventListener("visibilitychange", refresh);
for (const { details } of lists) details.addEventListener("toggle", refresh);
refresh();
