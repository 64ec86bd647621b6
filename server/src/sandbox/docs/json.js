// JSON as text, in which a number keeps every digit that was sent.

import { element, plain } from "./element.js";

/** More than this is slow to show. */
const MAX_SHOWN = 100_000;

/** The value of a JSON text. `JSON.stringify` writes its numbers as they were. */
export function parse(text) {
  return JSON.parse(text, (_, value, { source }) => (typeof value === "number" ? JSON.rawJSON(source) : value));
}

/** A block with names and values, such as headers. */
export function pairs(label, entries) {
  return textBlock(label, entries.map(([name, value]) => `${name}: ${value}`).join("\n"));
}

/** A block with the text in it: indented if it is JSON, else as it is. */
export function textBlock(label, text) {
  const shown = text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}\n… (${MAX_SHOWN} of ${text.length} characters)` : indented(text);
  return element("pre", { tabindex: "0", role: "group", "aria-label": label }, plain(shown));
}

function indented(text) {
  try {
    return JSON.stringify(parse(text), null, 2);
  } catch {
    return text;
  }
}
