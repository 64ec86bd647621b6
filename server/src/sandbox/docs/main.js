// Starts the page: the operations from openapi.json, and the journal and the faults, read again and again.

import { startFaults, refreshFaults } from "./faults.js";
import { clearJournal, refreshJournal } from "./journal.js";
import { operationArticle, operationsOf } from "./operations.js";
import { resolved } from "./schema.js";
import { Refused, call, onToken } from "./sandbox.js";
import { element, prose } from "./element.js";

/** How long after a reading the next one begins, in milliseconds. */
const INTERVAL = 2_000;

const live = document.getElementById("live");
const journalStatus = document.getElementById("journal-status");
let timer;
/** What is being read or cleared: one thing after the other. */
let doing = Promise.resolve();

function inTurn(work) {
  doing = doing.then(work);
  return doing;
}

/** Reads journal and faults now, and again after a while if the page is looked at. */
function refresh() {
  return inTurn(async () => {
    clearTimeout(timer);
    let goesOn = true;
    try {
      await refreshJournal();
      await refreshFaults();
    } catch (error) {
      // What the sandbox refuses once it refuses again. If it cannot be reached, it may be starting.
      goesOn = !(error instanceof Refused);
      journalStatus.textContent = goesOn ? "The sandbox does not respond." : error.message;
    }
    if (goesOn && live.checked && !document.hidden) timer = setTimeout(refresh, INTERVAL);
  });
}

function clear() {
  return inTurn(async () => {
    try {
      await clearJournal();
    } catch (error) {
      journalStatus.textContent = error.message;
    }
  });
}

async function start() {
  const spec = resolved(JSON.parse(await call("openapi.json")));
  const operations = operationsOf(spec);
  document.getElementById("about").append(
    `${spec.info.title} ${spec.info.version}. ${spec.info.summary} `,
    element("a", { href: "openapi.json" }, "openapi.json"),
  );
  document.getElementById("operations").append(
    ...operations.map((operation) => operationArticle(spec, operation, refresh)),
    element("details", { class: "card" }, element("summary", {}, "How the sandbox reads the specification"), ...prose(spec.info.description)),
  );
  startFaults(operations);
  document.getElementById("clear").addEventListener("click", clear);
  live.addEventListener("change", refresh);
  document.addEventListener("visibilitychange", refresh);
  onToken(refresh);
  await refresh();
}

start();
