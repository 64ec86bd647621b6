// The lists of deals and agents.

import { element, lazyDetails } from "./element.js";
import { parse, textBlock } from "./json.js";
import { call } from "./sandbox.js";

/** A list, which is loaded while it is open. `summary` returns an entry's identifier and the other texts of its row. */
class List {
  #shown = "";
  #rows = new Map();
  #list = element("ul");
  #status = element("p", { class: "quiet", role: "status" });

  constructor(name, summary) {
    const details = document.getElementById(name);
    Object.assign(this, { name, summary, details });
    details.append(this.#status, this.#list);
  }

  /** Loads and displays the list. Rows of unchanged entries stay as they are. */
  async refresh() {
    if (!this.details.open) return;
    const page = await call(`${this.name}?limit=1000`);
    if (page === this.#shown) return;
    this.#shown = page;
    const { next, [this.name]: entries } = parse(page);
    const before = this.#rows;
    this.#rows = new Map(entries.map((entry) => {
      const text = JSON.stringify(entry);
      return [text, before.get(text) ?? this.#createRow(entry, text)];
    }));
    this.#list.replaceChildren(...this.#rows.values());
    this.#status.textContent = entries.length === 0 ? "None." : `${entries.length} shown${next === null ? "" : "; there are more"}`;
  }

  #createRow(entry, text) {
    const [id, ...details] = this.summary(entry).filter((value) => typeof value === "string");
    const heading = [element("code", {}, id), element("span", { class: "quiet" }, ` ${details.join(" ")}`)];
    return element("li", {}, lazyDetails(heading, () => [textBlock(id, text)]));
  }
}

export const lists = [
  new List("deals", ({ id, status, phase }) => [id, status, phase]),
  new List("agents", ({ agent: { id, email, first_name, last_name } }) => [id, email, first_name, last_name]),
];
