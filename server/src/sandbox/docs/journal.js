// The latest requests that the sandbox saw, whoever sent them.

import { curl } from "./curl.js";
import { copyButton, element, folded, statusClass } from "./element.js";
import { pairs, textBlock } from "./json.js";
import { call } from "./sandbox.js";

/** As many as the sandbox keeps. */
const MAX_KEPT = 1_000;

const NO_RESPONSE = "no response";

const [list, filter, status] = ["journal", "filter", "journal-status"].map((id) => document.getElementById(id));

/** The requests that are shown unless the filter hides them, the oldest first, each with its row and the text that the filter looks at. */
let entries = [];

/** Reads what is new. */
export async function refreshJournal() {
  // The last request that is known is asked for again, or an earlier one that had no response yet. When it is not
  // there, the journal was cleared or the sandbox started anew, and everything is read from the beginning.
  const known = (entries.find(({ request }) => !request.done) ?? entries.at(-1))?.request;
  let page = await requestsAfter(known ? known.number - 1 : 0);
  if (known && (page[0]?.number !== known.number || page[0].at !== known.at)) {
    entries = [];
    page = await requestsAfter(0);
  }
  page.forEach(keep);
  entries = entries.slice(-MAX_KEPT);
  update();
}

/** Adds a request, or what became of one. */
function keep(request) {
  const index = request.number - (entries[0]?.request.number ?? request.number);
  // A row that stays is not touched: what is open stays open, and focus stays where it is.
  if (entries[index]?.request.done) return;
  const { method, status, fault } = request;
  const text = `${method} ${targetOf(request)} ${status ?? NO_RESPONSE} ${fault ?? ""}`.toLowerCase();
  const entry = { request, text, row: rowOf(request) };
  entries[index]?.row.replaceWith(entry.row);
  entries[index] = entry;
}

async function requestsAfter(number) {
  return JSON.parse(await call(`requests?after=${number}&limit=${MAX_KEPT}`)).requests;
}

/** Forgets every request, here and in the sandbox. */
export async function clearJournal() {
  await call("requests", { method: "DELETE" });
  entries = [];
  update();
}

filter.addEventListener("input", update);

/** Shows those that pass the filter, the newest first. */
function update() {
  const words = filter.value.toLowerCase().split(/\s+/);
  const rows = new Set(entries.map(({ row }) => row));
  for (const row of [...list.children]) if (!rows.has(row)) row.remove();
  let passing = 0;
  for (const { row, text } of entries) {
    if (!row.parentNode) list.prepend(row);
    row.hidden = !words.every((word) => text.includes(word));
    if (!row.hidden) passing += 1;
  }
  // What is set is read out, even when it is the same.
  const text = summary(passing);
  if (status.textContent !== text) status.textContent = text;
}

function summary(passing) {
  if (entries.length === 0) return "None yet. Send one, here or from your program.";
  const all = entries.length === 1 ? "1 request" : `${entries.length} requests`;
  return filter.value ? `${passing} of ${all}` : all;
}

function targetOf({ path, query }) {
  return query == null ? path : `${path}?${query}`;
}

function rowOf(request) {
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
  return element("li", {}, folded(heading, () => contents(request)));
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
  const kept = new TextEncoder().encode(request.body).length;
  if (request.body_bytes > kept) yield element("p", { class: "quiet" }, `${request.body_bytes} bytes, of which the first are kept.`);
}

function duration(seconds) {
  return seconds < 1 ? `${(seconds * 1000).toFixed(1)} ms` : `${seconds.toFixed(1)} s`;
}
