// The list of pending faults, and the form that adds one.

import { button, element, escapeControls } from "./element.js";
import { parse } from "./json.js";
import { call } from "./sandbox.js";

const [form, release, list, heading, preset, operation, times, body, status] = [
  "add-fault", "release", "fault-list", "faults-heading", "fault-preset", "fault-operation", "fault-times", "fault-body",
  "fault-status",
].map((id) => document.getElementById(id));

/** The displayed list, as JSON. */
let shown = "";

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const [method, path] = operation.value ? operation.value.split(" ") : [];
  const fault = { ...JSON.parse(preset.value), method, path, times: times.value ? Number(times.value) : null };
  try {
    if (body.value) fault.request_body = parse(body.value);
  } catch {
    status.textContent = "What the body contains must be JSON.";
    return;
  }
  change("faults", { method: "POST", body: JSON.stringify(fault) }, "Added.");
});

release.addEventListener("click", async () => {
  try {
    const { released } = parse(await call("release", { method: "POST" }));
    status.textContent = `Released ${JSON.stringify(released)}.`;
  } catch (error) {
    status.textContent = error.message;
  }
});

/** Loads and displays the list. */
export async function refreshFaults() {
  const text = await call("faults");
  if (text === shown) return;
  shown = text;
  list.replaceChildren(...parse(text).faults.map(createRow));
}

function createRow({ id, matched, applied, ...fault }) {
  const text = escapeControls(JSON.stringify(fault));
  const remove = button("Remove", async () => {
    await change(`faults/${JSON.stringify(id)}`, { method: "DELETE" }, "Removed.");
    // Keep the keyboard focus near the removed button.
    heading.focus();
  }, { "aria-label": `Remove ${text}` });
  const count = element("span", { class: "quiet" }, `applied ${JSON.stringify(applied)} times`);
  return element("li", {}, element("code", {}, text), count, remove);
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
