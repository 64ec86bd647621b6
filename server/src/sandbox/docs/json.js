// JSON as a tree that folds, in which a number keeps every digit that was sent.

import { element, plain } from "./element.js";

/** More than this is slow to show. */
const MAX_SHOWN = 100_000;
const MAX_INDENT = 40;
/** What is no longer than this is written on one line. */
const MAX_LINE = 72;

/** The value of a JSON text. `JSON.stringify` writes its numbers as they were. */
export function parse(text) {
  return JSON.parse(text, (_, value, { source }) => (typeof value === "number" ? JSON.rawJSON(source) : value));
}

function* lines(name, value, depth, end) {
  const indent = "  ".repeat(depth);
  const text = JSON.stringify(value);
  if (!/^[{[]/.test(text) || text.length <= MAX_LINE || depth > MAX_INDENT) {
    yield element("div", {}, plain(`${indent}${name}${text}${end}\n`));
    return;
  }
  const entries = Object.entries(value);
  const items = entries.flatMap(([key, item], index) => {
    const name = text[0] === "{" ? `${JSON.stringify(key)}: ` : "";
    return [...lines(name, item, depth + 1, index < entries.length - 1 ? "," : "")];
  });
  yield element("details", { open: true }, element("summary", {}, plain(`${indent}${name}${text[0]}\n`)), ...items);
  yield element("div", {}, `${indent}${text.at(-1)}${end}\n`);
}

/** The tree. Its text is the JSON, indented. */
export function tree(value) {
  return element("div", { class: "tree" }, ...lines("", value, 0, ""));
}

/** A block with names and values, such as headers. */
export function pairs(label, entries) {
  return textBlock(label, entries.map(([name, value]) => `${name}: ${value}`).join("\n"));
}

/** A block with the text in it: as a tree if it is JSON, else as it is. */
export function textBlock(label, text) {
  const block = element("pre", { tabindex: "0", role: "group", "aria-label": label });
  if (text.length > MAX_SHOWN) {
    block.append(plain(text.slice(0, MAX_SHOWN)), `\n… (${MAX_SHOWN} of ${text.length} characters)`);
    return block;
  }
  try {
    return element("div", { role: "group", "aria-label": label }, tree(parse(text)));
  } catch {
    block.append(plain(text));
    return block;
  }
}
