// The latest requests that the sandbox saw, whoever sent them.

import { copyButton, element, folded, pairs, statusClass } from "./element.js";
import { textBlock } from "./json.js";
import { call } from "./sandbox.js";

/** As many as the sandbox keeps. */
const MAX_KEPT = 1_000;
const MAX_SHOWN = 100;

const NO_RESPONSE = "no response";

const list = document.getElementById("requests");
const filter = document.getElementById("filter");
const status = document.getElementById("journal-status");

/** The newest first: each as it was read, the text that the filter looks at, and its row once it was shown. */
let entries = [];

/** Reads what is new. */
export async function refreshJournal() {
  // The last request that is known is asked for again, or an earlier one that had no response yet. When it is not
  // there, the journal was cleared or the sandbox started anew, and everything is read from the beginning.
  const known = (entries.findLast(isDelayed) ?? entries[0])?.request;
  let page = await requestsAfter(known ? known.number - 1 : 0);
  if (known && (page[0]?.number !== known.number || page[0].at !== known.at)) {
    entries = [];
    page = await requestsAfter(0);
  }
  page.forEach(keep);
  entries.length = Math.min(entries.length, MAX_KEPT);
  update();
}

/** Whether a request waits for its response because a fault delays it. */
function isDelayed({ request: { status, fault, duration } }) {
  const [, delay] = /^delay=([\d.]+)/.exec(fault ?? "") ?? [];
  return status === null && duration < Number(delay);
}

/** Adds a request, or what became of one. */
function keep(request) {
  const entry = { request, text: textOf(request), row: null };
  const newest = entries[0]?.request.number ?? 0;
  const index = newest - request.number;
  if (index < 0) entries.unshift(entry);
  else if (entries[index] && entries[index].request.duration !== request.duration) entries[index] = entry;
}

/** Forgets every request, here and in the sandbox. */
export async function clearJournal() {
  await call("requests", { method: "DELETE" });
  entries = [];
  update();
}

filter.addEventListener("input", update);

async function requestsAfter(number) {
  return JSON.parse(await call(`requests?after=${number}&limit=${MAX_KEPT}`)).requests;
}

/** Shows the newest of those that pass the filter. */
function update() {
  const words = filter.value.toLowerCase().split(/\s+/);
  const passing = entries.filter(({ text }) => words.every((word) => text.includes(word)));
  // Rows that stay are not touched: what is open stays open, and focus stays where it is.
  const before = new Set(list.children);
  const after = passing.slice(0, MAX_SHOWN).map((entry) => (entry.row ??= rowOf(entry.request)));
  for (const row of before) if (!after.includes(row)) row.remove();
  let next = null;
  for (const row of after.toReversed()) {
    if (!before.has(row)) list.insertBefore(row, next);
    next = row;
  }
  // What is set is read out, even when it is the same.
  const text = summary(passing.length);
  if (status.textContent !== text) status.textContent = text;
}

function summary(passing) {
  if (entries.length === 0) return "None yet. Send one, here or from your program.";
  const all = entries.length === 1 ? "1 request" : `${entries.length} requests`;
  const found = filter.value ? `${passing} of ${all}` : all;
  return passing > MAX_SHOWN ? `${found}, the newest ${MAX_SHOWN} shown` : found;
}

function targetOf({ path, query }) {
  return query == null ? path : `${path}?${query}`;
}

function textOf(request) {
  const { method, status, fault } = request;
  return `${method} ${targetOf(request)} ${status ?? NO_RESPONSE} ${fault ?? ""}`.toLowerCase();
}

function rowOf(request) {
  const heading = [
    element("span", { class: `method ${request.method}` }, request.method),
    element("code", { class: "target" }, targetOf(request)),
    element("span", { class: statusClass(request.status) }, request.status ?? NO_RESPONSE),
    element("span", { class: "quiet" }, duration(request.duration)),
    request.fault ? element("span", { class: "fault" }, request.fault) : "",
  ];
  return element("li", { value: request.number }, folded(heading, () => contents(request)));
}

function* contents(request) {
  const at = new Date(request.at).toLocaleTimeString();
  yield element("p", { class: "quiet" }, `Number ${request.number}, at ${at}, request id ${request.request_id}`);
  if (request.curl) {
    yield textBlock("Command that repeats it", request.curl);
    yield copyButton("Copy curl command", () => request.curl);
  }
  yield pairs(request.headers);
  if (request.body) yield textBlock("Body of the request", request.body);
  const kept = new TextEncoder().encode(request.body).length;
  if (request.body_bytes > kept) yield element("p", { class: "quiet" }, `${request.body_bytes} bytes, of which the first are kept.`);
}

function duration(seconds) {
  return seconds < 1 ? `${(seconds * 1000).toFixed(1)} ms` : `${seconds.toFixed(1)} s`;
}
