// The journal: the latest requests, from all clients.

import { curl } from "./curl.js";
import { copyButton, element, lazyDetails, statusClass } from "./element.js";
import { pairs, textBlock } from "./json.js";
import { call } from "./sandbox.js";

/** The size of the sandbox's journal. */
const MAX_REQUESTS = 1_000;

const NO_RESPONSE = "no response";

const [list, filter, status] = ["journal", "filter", "journal-status"].map((id) => document.getElementById(id));

/** The displayed requests, oldest first, each with its row and the text for the filter. */
let entries = [];

/** Loads and displays new and changed requests. */
export async function refreshJournal() {
  // Load again from the first known request without a response, or else from the last known request. If the sandbox no longer
  // has that request, the journal was cleared or the sandbox restarted: load everything.
  const known = (entries.find(({ request }) => !request.done) ?? entries.at(-1))?.request;
  let page = await requestsAfter(known ? known.number - 1 : 0);
  if (known && (page[0]?.number !== known.number || page[0].at !== known.at)) {
    entries = [];
    page = await requestsAfter(0);
  }
  page.forEach(addOrUpdate);
  entries = entries.slice(-MAX_REQUESTS);
  update();
}

/** Adds a request, or updates it if its response has arrived. */
function addOrUpdate(request) {
  const index = request.number - (entries[0]?.request.number ?? request.number);
  // Leave finished rows untouched, so that they stay open and keep the focus.
  if (entries[index]?.request.done) return;
  const { method, status, fault } = request;
  const text = `${method} ${targetOf(request)} ${status ?? NO_RESPONSE} ${fault ?? ""}`.toLowerCase();
  const entry = { request, text, row: createRow(request) };
  entries[index]?.row.replaceWith(entry.row);
  entries[index] = entry;
}

async function requestsAfter(number) {
  return JSON.parse(await call(`requests?after=${number}&limit=${MAX_REQUESTS}`)).requests;
}

/** Clears the journal of the page and of the sandbox. */
export async function clearJournal() {
  await call("requests", { method: "DELETE" });
  entries = [];
  update();
}

filter.addEventListener("input", update);

/** Displays the requests that match the filter, newest first. */
function update() {
  const words = filter.value.toLowerCase().split(/\s+/);
  const rows = new Set(entries.map(({ row }) => row));
  for (const row of [...list.children]) if (!rows.has(row)) row.remove();
  let matching = 0;
  for (const { row, text } of entries) {
    if (!row.parentNode) list.prepend(row);
    row.hidden = !words.every((word) => text.includes(word));
    if (!row.hidden) matching += 1;
  }
  // Screen readers announce each change of the status, so change it only if it differs.
  const text = summary(matching);
  if (status.textContent !== text) status.textContent = text;
}

function summary(matching) {
  if (entries.length === 0) return "None yet. Send one, here or from your program.";
  const all = entries.length === 1 ? "1 request" : `${entries.length} requests`;
  return filter.value ? `${matching} of ${all}` : all;
}

function targetOf({ path, query }) {
  return query == null ? path : `${path}?${query}`;
}

function createRow(request) {
  const at = new Date(request.at);
  const time = `${at.toLocaleTimeString("en-GB")}.${String(at.getMilliseconds()).padStart(3, "0")}`;
  const heading = [
    element("time", { class: "quiet", datetime: request.at }, time),
    element("span", {}, request.method),
    element("code", { class: "target" }, targetOf(request)),
    element("span", { class: statusClass(request.status) }, request.status ?? NO_RESPONSE),
    element("span", { class: "duration quiet" }, duration(request.duration)),
    request.fault ? element("span", { class: "fault" }, request.fault) : "",
  ];
  return element("li", {}, lazyDetails(heading, () => contents(request)));
}

function* contents(request) {
  yield element("p", { class: "quiet" }, `Number ${request.number}, request id ${request.request_id}`);
  const command = curl(request, document.getElementById("service-key").value);
  if (command === null) yield element("p", {}, element("code", {}, targetOf(request)));
  else {
    yield textBlock("Command that repeats it", command);
    yield copyButton("Copy curl command", command);
  }
  yield pairs("Headers of the request", Object.entries(request.headers));
  if (request.body) yield textBlock("Body of the request", request.body);
  const recordedBytes = new TextEncoder().encode(request.body).length;
  if (request.body_bytes > recordedBytes) yield element("p", { class: "quiet" }, `${request.body_bytes} bytes, of which the first are kept.`);
}

function duration(seconds) {
  return seconds < 1 ? `${(seconds * 1000).toFixed(1)} ms` : `${seconds.toFixed(1)} s`;
}
