// Formats JSON without changing the digits of numbers.

import { element, escapeControls } from "./element.js";

/** Longer text is truncated, because browsers display it slowly. */
const MAX_SHOWN = 100_000;

/** Parses JSON. `JSON.stringify` of the result preserves the digits of numbers. */
export function parse(text) {
  return JSON.parse(text, (_, value, { source }) => (typeof value === "number" ? JSON.rawJSON(source) : value));
}

/** Creates a text block of names and values, such as headers. */
export function pairs(label, entries) {
  return textBlock(label, entries.map(([name, value]) => `${name}: ${value}`).join("\n"));
}

/** Creates a text block. Indents JSON. */
export function textBlock(label, text) {
  const shown = text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}\n… (${MAX_SHOWN} of ${text.length} characters)` : indent(text);
  return element("pre", { tabindex: "0", role: "group", "aria-label": label }, escapeControls(shown));
}

function indent(text) {
  try {
    return JSON.stringify(parse(text), null, 2);
  } catch {
    return text;
  }
}
