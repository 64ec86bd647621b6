// JSON as text, indented and coloured without being read: a number keeps every digit that was sent.

import { element, plain } from "./element.js";

/** More than this is slow to show. */
const MAX_SHOWN = 100_000;
const MAX_INDENT = 40;

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** A block with the text in it: as JSON if it is some, else as it is. */
export function textBlock(label, text) {
  const block = element("pre", { tabindex: "0", role: "group", "aria-label": label });
  if (text.length > MAX_SHOWN) {
    block.append(plain(text.slice(0, MAX_SHOWN)), `\n… (${MAX_SHOWN} of ${text.length} characters)`);
  } else if (isJson(text)) {
    block.append(...coloured(plain(text)));
  } else {
    block.append(plain(text));
  }
  return block;
}

function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function* coloured(text) {
  const tokens = text.match(TOKEN);
  let depth = 0;
  const newLine = () => "\n" + " ".repeat(2 * Math.min(depth, MAX_INDENT));
  for (const [index, token] of tokens.entries()) {
    const next = tokens[index + 1];
    if (token === "{" || token === "[") {
      const isEmpty = next === "}" || next === "]";
      depth += 1;
      yield isEmpty ? token : token + newLine();
    } else if (token === "}" || token === "]") {
      const before = tokens[index - 1];
      depth -= 1;
      yield before === "{" || before === "[" ? token : newLine() + token;
    } else if (token === ",") {
      yield token + newLine();
    } else if (token === ":") {
      yield ": ";
    } else {
      yield element("span", { class: kind(token, next) }, token);
    }
  }
}

function kind(token, next) {
  if (token.startsWith('"')) return next === ":" ? "key" : "string";
  return /^[tfn]/.test(token) ? "word" : "number";
}
