// Starts the page: its panels, and what they read from the sandbox again and again.

import { refreshFaults } from "./faults.js";
import { clearJournal, refreshJournal } from "./journal.js";
import { Refused, attempt, call, world } from "./sandbox.js";
import { startSending } from "./send.js";
import { lists } from "./store.js";

/** How long after a reading the next one begins, in milliseconds. */
const INTERVAL = 2_000;

const key = document.getElementById("service-key");
/** There is room for the requests and the faults beside another panel. */
const wide = matchMedia("(min-width: 64rem)");

let panel = "requests";
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
    await lists[panel]?.refresh();
  });
  clearTimeout(timer);
  // What the sandbox refuses once it refuses again.
  if (!(error instanceof Refused) && !document.hidden) timer = setTimeout(refresh, INTERVAL);
}

/** Shows the panel that the address names. */
function showPanel() {
  const asked = document.getElementById(location.hash.slice(1))?.closest(".panel") ?? document.getElementById("requests");
  panel = wide.matches && asked.closest(".aside") ? "send" : asked.id;
  for (const each of document.querySelectorAll(".panel")) each.classList.toggle("current", each.id === panel);
  for (const link of document.querySelectorAll("nav a")) link.ariaCurrent = link.hash === `#${panel}` ? "true" : null;
  refresh();
}

if (world !== null) key.value = world;
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
wide.addEventListener("change", showPanel);
addEventListener("hashchange", showPanel);
showPanel();
