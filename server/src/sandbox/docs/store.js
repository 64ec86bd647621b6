// The deals and the agents that the sandbox holds.

import { element, folded } from "./element.js";
import { parse, textBlock } from "./json.js";
import { call } from "./sandbox.js";

/** The list of this name, which is read while it is unfolded. `summary` names an entry's identifier and what else its row shows. */
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

  /** Reads the list; rows whose entries are the same stay, open or not. */
  async refresh() {
    if (!this.details.open) return;
    const page = await call(`${this.name}?limit=1000`);
    if (page === this.#shown) return;
    this.#shown = page;
    const { next, [this.name]: entries } = parse(page);
    const before = this.#rows;
    this.#rows = new Map(entries.map((entry) => {
      const text = JSON.stringify(entry);
      return [text, before.get(text) ?? this.#rowOf(entry, text)];
    }));
    this.#list.replaceChildren(...this.#rows.values());
    this.#status.textContent = entries.length === 0 ? "None." : `${entries.length} shown${next === null ? "" : "; there are more"}`;
  }

  #rowOf(entry, text) {
    const [id, ...words] = this.summary(entry).filter((value) => typeof value === "string");
    const heading = [element("code", {}, id), element("span", { class: "quiet" }, ` ${words.join(" ")}`)];
    return element("li", {}, folded(heading, () => [textBlock(id, text)]));
  }
}

export const lists = [
  new List("deals", ({ id, status, phase }) => [id, status, phase]),
  new List("agents", ({ agent: { id, email, first_name, last_name } }) => [id, email, first_name, last_name]),
];
