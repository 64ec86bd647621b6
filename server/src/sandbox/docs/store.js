// The deals and the agents that the sandbox holds: lists of trees, and an editor for deals.

import { button, copyButton, element, folded } from "./element.js";
import { parse, tree } from "./json.js";
import { attempt, call } from "./sandbox.js";

const [editor, text, error, find, findId, found, addDeal] = [
  "editor", "editor-text", "editor-error", "find", "find-id", "found", "add-deal",
].map((id) => document.getElementById(id));

/** A list in the panel of this name, page by page, with what a row shows of an entry. */
class List {
  #after = null;
  #shown = "";
  #rows = new Map();
  #list = element("ul");
  #status = element("p", { class: "quiet", role: "status" });
  #first = button("First page", () => this.#show(null), { hidden: true });
  #next = button("Next page", () => this.#show(this.#following), { hidden: true });
  #following;

  constructor(name, describe) {
    Object.assign(this, { name, describe });
    document.getElementById(name).append(this.#status, this.#list, element("div", { class: "row" }, this.#first, this.#next));
  }

  /** Reads the page; rows whose entries are the same stay, open or not. */
  async refresh() {
    const page = await call(this.#after === null ? this.name : `${this.name}?after=${encodeURIComponent(this.#after)}`);
    if (page === this.#shown) return;
    this.#shown = page;
    const read = parse(page);
    this.#following = read.next;
    this.#first.hidden = this.#after === null;
    this.#next.hidden = this.#following === null;
    const before = this.#rows;
    const entries = read[this.name].map((entry) => [JSON.stringify(entry), entry]);
    this.#rows = new Map(entries.map(([key, entry]) => [key, before.get(key) ?? element("li", {}, this.describe(entry))]));
    this.#list.replaceChildren(...this.#rows.values());
    this.#status.textContent = entries.length === 0 ? "None." : `${entries.length} shown${this.#following === null ? "" : ", more on the next page"}`;
  }

  #show(after) {
    this.#after = after;
    return attempt(() => this.refresh());
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
      found.replaceChildren();
      await lists.deals.refresh();
      findId.focus();
    };
    const edits = button("Edit …", () => edit(shown.textContent));
    const actions = [edits, button("Remove", () => attempt(remove)), copyButton("Copy", shown.textContent)];
    return [element("div", { class: "row" }, ...actions), shown];
  });
}

function pathOf(id) {
  return `deals/${encodeURIComponent(id)}`;
}

async function show(id) {
  found.replaceChildren();
  const row = dealRow(parse(await call(pathOf(id))));
  row.open = true;
  found.append(row);
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
    await Promise.all([show(id), lists.deals.refresh()]);
  } catch (refused) {
    error.textContent = refused.message;
  }
}

addDeal.addEventListener("click", () => edit('{\n  "id": ""\n}\n'));
editor.addEventListener("submit", (event) => {
  event.preventDefault();
  save();
});
find.addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(() => show(findId.value));
});
