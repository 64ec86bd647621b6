// The deals and the agents that the sandbox holds: lists of trees, and an editor for deals.

import { button, element, folded } from "./element.js";
import { parse, tree } from "./json.js";
import { attempt, call } from "./sandbox.js";

const [editor, text, error, heading, addDeal, cancel] = [
  "editor", "editor-text", "editor-error", "deals-heading", "add-deal", "cancel",
].map((id) => document.getElementById(id));

/** The list in the panel of this name, with what a row shows of an entry. */
class List {
  #shown = "";
  #rows = new Map();
  #list = element("ul");
  #status = element("p", { class: "quiet", role: "status" });

  constructor(name, describe) {
    Object.assign(this, { name, describe });
    document.getElementById(name).append(this.#status, this.#list);
  }

  /** Reads the list; rows whose entries are the same stay, open or not. */
  async refresh() {
    const page = await call(`${this.name}?limit=1000`);
    if (page === this.#shown) return;
    this.#shown = page;
    const { next, [this.name]: read } = parse(page);
    const before = this.#rows;
    const entries = read.map((entry) => [JSON.stringify(entry), entry]);
    this.#rows = new Map(entries.map(([key, entry]) => [key, before.get(key) ?? element("li", {}, this.describe(entry))]));
    this.#list.replaceChildren(...this.#rows.values());
    this.#status.textContent = entries.length === 0 ? "None." : `${entries.length} shown${next === null ? "" : "; there are more"}`;
  }
}

export const lists = {
  deals: new List("deals", (deal) => dealRow(deal)),
  agents: new List("agents", (created) => {
    return folded(summary(created.agent, ["email", "first_name", "last_name"]), () => [tree(created)]);
  }),
};

function summary(entry, names) {
  const words = names.map((name) => entry[name]).filter((value) => typeof value === "string");
  return [element("code", {}, entry.id), element("span", { class: "quiet" }, ` ${words.join(" ")}`)];
}

function dealRow(deal) {
  const { id } = deal;
  return folded(summary(deal, ["status", "phase"]), () => {
    const shown = tree(deal);
    const remove = async () => {
      await call(pathOf(id), { method: "DELETE" });
      await lists.deals.refresh();
      // The button is gone: the keyboard goes on from here.
      heading.focus();
    };
    const actions = [button("Edit …", () => edit(shown.textContent)), button("Remove", () => attempt(remove))];
    return [element("div", { class: "row" }, ...actions), shown];
  });
}

function pathOf(id) {
  return `deals/${encodeURIComponent(id)}`;
}

function edit(deal) {
  text.value = deal;
  error.textContent = "";
  editor.showModal();
}

/** Puts the deal into the sandbox, which checks it and says what is wrong. */
async function save() {
  try {
    let id = "none";
    try {
      ({ id } = JSON.parse(text.value));
    } catch {
      // The sandbox says where it stops being JSON.
    }
    await call(pathOf(id), { method: "PUT", body: text.value });
    editor.close();
    await lists.deals.refresh();
  } catch (refused) {
    error.textContent = refused.message;
  }
}

cancel.addEventListener("click", () => editor.close());
addDeal.addEventListener("click", () => edit('{\n  "id": ""\n}\n'));
editor.addEventListener("submit", (event) => {
  event.preventDefault();
  save();
});
