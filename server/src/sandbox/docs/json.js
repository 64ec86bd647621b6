// JSON as a tree that folds. It is taken apart here and not by JSON.parse: a number keeps every digit that was sent.

import { element, plain } from "./element.js";

/** More than this is slow to show. */
const MAX_SHOWN = 100_000;
const MAX_INDENT = 40;
/** What is no longer than this is written on one line. */
const MAX_LINE = 72;

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** A scalar as its text, an object or array as its brackets and its items: pairs of key and value. */
export function parse(text) {
  const tokens = text.match(TOKEN);
  let at = 0;
  const value = () => {
    const open = tokens[at++];
    if (open !== "{" && open !== "[") return open;
    const node = { open, close: open === "{" ? "}" : "]", items: [], length: 2 };
    while (tokens[at] !== node.close) {
      const key = open === "{" ? tokens[at] : null;
      at += key === null ? 0 : 2;
      const item = [key, value()];
      node.items.push(item);
      node.length += (key?.length ?? 0) + item[1].length + 4;
      at += tokens[at] === "," ? 1 : 0;
    }
    at += 1;
    return node;
  };
  return value();
}

/** The value of a field. */
export function get(node, name) {
  return node.items.find(([key]) => key === `"${name}"`)?.[1];
}

/** The value as one line of text. */
export function line(node) {
  if (!node.open) return plain(node);
  return node.open + node.items.map(([key, value]) => named(key) + line(value)).join(", ") + node.close;
}

function named(key) {
  return key === null ? "" : `${plain(key)}: `;
}

function* lines([key, node], depth, end) {
  const indent = "  ".repeat(depth);
  if (!node.open || node.length <= MAX_LINE || depth > MAX_INDENT) {
    yield element("div", {}, `${indent}${named(key)}${line(node)}${end}\n`);
    return;
  }
  const items = node.items.flatMap((item, index) => [...lines(item, depth + 1, index < node.items.length - 1 ? "," : "")]);
  yield element("details", { open: true }, element("summary", {}, `${indent}${named(key)}${node.open}\n`), ...items);
  yield element("div", {}, `${indent}${node.close}${end}\n`);
}

/** The tree. Its text is the JSON, indented. */
export function tree(node) {
  return element("div", { class: "tree" }, ...lines([null, node], 0, ""));
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
    JSON.parse(text);
    return element("div", { role: "group", "aria-label": label }, tree(parse(text)));
  } catch {
    block.append(plain(text));
    return block;
  }
}
