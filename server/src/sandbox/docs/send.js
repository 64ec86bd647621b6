// The forms that send requests, as a program would, and what comes back.

import { element, folded, statusClass } from "./element.js";
import { pairs, textBlock } from "./json.js";

/** How long a response may take, in milliseconds: a fault can hold it back for an hour, and with it one of the browser's connections. */
const PATIENCE = 30_000;

const [id, body, key] = ["retrieveDeal-id", "createAgent-body", "service-key"].map((id) => document.getElementById(id));

/** Lets the forms send their requests. `sent` is called after each. */
export function startSending(sent) {
  const forms = {
    retrieveDeal: () => [`/v1/deals/${encodeURIComponent(id.value)}`, { headers: {} }],
    createAgent: () => ["/v1/agents", { method: "POST", headers: { "content-type": "application/json" }, body: body.value }],
  };
  for (const [name, request] of Object.entries(forms)) {
    const [form, status, parts] = [...document.getElementById(name).children].slice(1);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      status.replaceChildren("Waiting for the response …");
      parts.replaceChildren();
      await exchange(...request(), status, parts);
      sent();
    });
  }
}

/** Sends a request, and shows what came back. */
async function exchange(path, request, status, parts) {
  if (key.value) request.headers["x-service-key"] = key.value;
  const began = performance.now();
  let response;
  let end = ", ";
  let body = [];
  try {
    response = await fetch(path, { ...request, signal: AbortSignal.timeout(PATIENCE), credentials: "omit", redirect: "manual" });
    const text = await response.text();
    if (text) body = [textBlock("Body of the response", text)];
  } catch (error) {
    end = `. The browser says: ${error.message}. `;
  }
  const time = element("span", { class: "quiet" }, `${(performance.now() - began).toFixed(0)} ms`);
  status.replaceChildren(statusOf(response), end, time);
  const headers = response ? [folded(["Headers"], () => [pairs("Headers of the response", [...response.headers])])] : [];
  parts.replaceChildren(...headers, ...body);
}

function statusOf(response) {
  return element("strong", { class: statusClass(response?.status) }, response ? `${response.status} ${response.statusText}` : "No response");
}
