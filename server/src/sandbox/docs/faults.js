// The faults that are to happen: a list, and a form that adds one.

import { button, element, plain } from "./element.js";
import { get, line, parse } from "./json.js";
import { call } from "./sandbox.js";

const [form, list, heading, preset, operation, times, status] = [
  "add-fault", "fault-list", "faults-heading", "fault-preset", "fault-operation", "fault-times", "fault-status",
].map((id) => document.getElementById(id));

/** The list as it was read last. */
let shown = "";

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const [method, path] = operation.value ? operation.value.split(" ") : [];
  const fault = { ...JSON.parse(preset.value), method, path, times: times.value ? Number(times.value) : null };
  change("faults", { method: "POST", body: JSON.stringify(fault) }, "Added.");
});

/** Reads the list. */
export async function refreshFaults() {
  const text = await call("faults");
  if (text === shown) return;
  shown = text;
  list.replaceChildren(...get(parse(text), "faults").items.map(([, fault]) => row(fault)));
}

function row(fault) {
  const own = ["id", "matched", "played"];
  const text = fault.items
    .map(([key, value]) => [JSON.parse(key), value])
    .filter(([name]) => !own.includes(name))
    .map(([name, value]) => (value === "null" ? `${name} without end` : `${name}=${words(value)}`))
    .join("; ");
  const [id, played] = ["id", "played"].map((name) => get(fault, name));
  const remove = button("Remove", async () => {
    await change(`faults/${id}`, { method: "DELETE" }, "Removed.");
    // The button is gone: the keyboard goes on from here.
    heading.focus();
  }, { "aria-label": `Remove ${text}` });
  const times = get(fault, "times") ?? (get(fault, "lasts") ? "null" : "1");
  const counts = element("span", { class: "quiet" }, times === "null" ? `applied ${played} times` : `applied ${played} of ${times}`);
  return element("li", {}, element("code", {}, plain(text)), counts, remove);
}

function words(value) {
  return value.open || !value.startsWith('"') ? line(value) : JSON.parse(value);
}

async function change(path, options, done) {
  try {
    await call(path, options);
    await refreshFaults();
    status.textContent = done;
  } catch (error) {
    status.textContent = error.message;
  }
}
