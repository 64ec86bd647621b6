// The latest requests that the sandbox saw, whoever sent them.

import { curl } from "./curl.js";
import { copyButton, element, folded, statusClass } from "./element.js";
import { pairs, textBlock } from "./json.js";
import { call } from "./sandbox.js";

/** As many as the sandbox keeps. */
const MAX_KEPT = 1_000;

const NO_RESPONSE = "no response";

const [list, scroll, newest, filter, status, newer] = ["journal", "scroll", "newest", "filter", "journal-status", "newer"].map(
  (id) => document.getElementById(id),
);

/** The newest first: each as it was read, the text that the filter looks at, and its row once it was shown. */
let entries = [];
/** Above which number requests wait until somebody who has scrolled down comes back; none do while the top is in view. */
let paused = Infinity;

/** Reads what is new. */
export async function refreshJournal() {
  // The last request that is known is asked for again, or an earlier one that had no response yet. When it is not
  // there, the journal was cleared or the sandbox started anew, and everything is read from the beginning.
  const known = (entries.findLast(({ request }) => !request.done) ?? entries[0])?.request;
  let page = await requestsAfter(known ? known.number - 1 : 0);
  if (known && (page[0]?.number !== known.number || page[0].at !== known.at)) {
    entries = [];
    page = await requestsAfter(0);
  }
  page.forEach(keep);
  entries.length = Math.min(entries.length, MAX_KEPT);
  update();
}

/** Adds a request, or what became of one. */
function keep(request) {
  const { method, status, fault } = request;
  const text = `${method} ${targetOf(request)} ${status ?? NO_RESPONSE} ${fault ?? ""}`.toLowerCase();
  const entry = { request, text, row: null };
  const index = (entries[0]?.request.number ?? 0) - request.number;
  if (index < 0) entries.unshift(entry);
  else if (entries[index] && !entries[index].request.done) entries[index] = entry;
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
newer.addEventListener("click", () => {
  scroll.scrollTop = 0;
  newest.scrollIntoView({ block: "center" });
  list.querySelector("summary")?.focus({ preventScroll: true });
});
new IntersectionObserver(([{ isIntersecting }]) => {
  paused = isIntersecting ? Infinity : (entries[0]?.request.number ?? 0);
  update();
}).observe(newest);

/** Shows those that pass the filter. */
function update() {
  const words = filter.value.toLowerCase().split(/\s+/);
  const passing = entries.filter(({ text }) => words.every((word) => text.includes(word)));
  const before = passing.findIndex(({ request }) => request.number <= paused);
  const waiting = before < 0 ? 0 : before;
  // Rows that stay are not touched: what is open stays open, and focus stays where it is.
  const rows = new Set(passing.slice(waiting).map((entry) => (entry.row ??= rowOf(entry.request))));
  const known = new Set(list.children);
  for (const row of known.difference(rows)) row.remove();
  let next = null;
  for (const row of [...rows].reverse()) {
    if (!known.has(row)) list.insertBefore(row, next);
    next = row;
  }
  newer.hidden = waiting === 0;
  newer.textContent = `Paused: show ${waiting} new`;
  // What is set is read out, even when it is the same.
  const text = summary(passing.length);
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
  return element("li", { value: request.number }, folded(heading, () => contents(request)));
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
