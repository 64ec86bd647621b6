// The faults that are to happen: a list, and a form that adds one.

import { element, plain } from "./element.js";
import { PRESETS } from "./presets.js";
import { call } from "./sandbox.js";

const form = document.getElementById("add-fault");
const list = document.getElementById("fault-list");
const heading = document.getElementById("faults-heading");
const preset = document.getElementById("fault-preset");
const operation = document.getElementById("fault-operation");
const times = document.getElementById("fault-times");
const status = document.getElementById("fault-status");

/** The list as it was read last. */
let shown = "";

/** Makes the form, which adds faults for these operations. */
export function startFaults(operations) {
  preset.append(...PRESETS.map(([label], index) => element("option", { value: index }, label)));
  const targets = operations.map(({ method, path }, index) => element("option", { value: index }, `${method} ${path}`));
  operation.append(...targets);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const [, fault] = PRESETS[preset.value];
    const { method, path } = operations[operation.value] ?? {};
    change({ method: "POST", body: { ...fault, method, path, times: times.value ? Number(times.value) : null } }, "", "Added.");
  });
}

/** Reads the list. */
export async function refreshFaults() {
  const text = await call("faults");
  if (text === shown) return;
  shown = text;
  // Numbers stay as they are written: a seed may have more digits than a JavaScript number.
  const { faults } = JSON.parse(text, (_, value, { source } = {}) => (typeof value === "number" ? (source ?? value) : value));
  list.replaceChildren(...faults.map(row));
}

function row({ id, matched, played, ...fault }) {
  const words = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  const text = Object.entries(fault)
    .map(([name, value]) => (value === null ? `${name} without end` : `${name}=${words(value)}`))
    .join("; ");
  const remove = element("button", { type: "button", "aria-label": `Remove ${text}` }, "Remove");
  remove.addEventListener("click", async () => {
    await change({ method: "DELETE" }, `/${id}`, "Removed.");
    // The button is gone: the keyboard goes on from here.
    heading.focus();
  });
  const counts = element("span", { class: "quiet" }, `played ${played}, matched ${matched}`);
  return element("li", {}, element("code", {}, plain(text)), counts, remove);
}

async function change(options, path, done) {
  try {
    await call(`faults${path}`, options);
    await refreshFaults();
    status.textContent = done;
  } catch (error) {
    status.textContent = error.message;
  }
}
