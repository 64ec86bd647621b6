// The forms that send requests to /v1, and display the responses.

import { element, lazyDetails, statusClass } from "./element.js";
import { pairs, textBlock } from "./json.js";

/** Time limit for a response in milliseconds. A fault can delay a response for an hour, which would occupy a connection. */
const RESPONSE_TIMEOUT = 30_000;

const [id, body, key] = ["retrieveDeal-id", "createAgent-body", "service-key"].map((id) => document.getElementById(id));

/** Connects the forms. Calls `onSent` after each request. */
export function connectForms(onSent) {
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
      onSent();
    });
  }
}

/** Sends a request and displays the response. */
async function exchange(path, request, status, parts) {
  if (key.value) request.headers["x-service-key"] = key.value;
  const start = performance.now();
  let response;
  let end = ", ";
  let body = [];
  try {
    response = await fetch(path, { ...request, signal: AbortSignal.timeout(RESPONSE_TIMEOUT), credentials: "omit", redirect: "manual" });
    const text = await response.text();
    if (text) body = [textBlock("Body of the response", text)];
  } catch (error) {
    end = `. The browser says: ${error.message}. `;
  }
  const time = element("span", { class: "quiet" }, `${(performance.now() - start).toFixed(0)} ms`);
  status.replaceChildren(statusOf(response), end, time);
  const headers = response ? [lazyDetails(["Headers"], () => [pairs("Headers of the response", [...response.headers])])] : [];
  parts.replaceChildren(...headers, ...body);
}

function statusOf(response) {
  return element("strong", { class: statusClass(response?.status) }, response ? `${response.status} ${response.statusText}` : "No response");
}
