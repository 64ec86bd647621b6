// The operations of openapi.json: what each takes and responds, and a form that sends it.

import { button, copyButton, element, field, folded, prose, statusClass } from "./element.js";
import { pairs, textBlock } from "./json.js";

const METHODS = ["get", "put", "post", "delete", "patch"];

/** The value in which what each `$ref` stands for is in its place; what stands beside it wins. */
export function resolved(spec, value = spec) {
  if (Array.isArray(value)) return value.map((item) => resolved(spec, item));
  if (value === null || typeof value !== "object") return value;
  const { $ref, ...beside } = value;
  const steps = $ref?.slice("#/".length).split("/") ?? [];
  const target = steps.reduce((at, name) => at[name.replaceAll("~1", "/").replaceAll("~0", "~")], spec);
  const entries = Object.entries(beside).map(([name, item]) => [name, resolved(spec, item)]);
  return { ...($ref && resolved(spec, target)), ...Object.fromEntries(entries) };
}

/** Every operation of the document with its method and its whole path, those that read first. */
export function operationsOf(spec) {
  const base = new URL(spec.servers[0].url).pathname;
  const all = Object.entries(spec.paths).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method]).map((method) => ({ ...item[method], method: method.toUpperCase(), path: base + path })),
  );
  return all.sort((one, other) => METHODS.indexOf(one.method.toLowerCase()) - METHODS.indexOf(other.method.toLowerCase()));
}

/** An article for an operation. `sent` is called after each request that it sends. */
export function operationArticle(spec, operation, sent) {
  const { operationId: id, method, path, summary, description, requestBody, responses } = operation;
  const heading = element("h2", { id: `${id}-heading` }, element("span", { class: `method ${method}` }, method), " ", element("code", {}, path));
  const described = Object.entries(responses).map(([status, { description, content = {} }]) =>
    folded([element("span", { class: statusClass(status) }, status), " ", description.split(". ")[0]], () => [
      ...prose(description),
      ...Object.values(content).slice(0, 1).map(schemaBlock),
    ]),
  );
  const reference = element("details", {}, element("summary", {}, "Description"), ...prose(description));
  if (requestBody) reference.append(folded(["Fields of the body"], () => [schemaBlock(requestBody.content["application/json"])]));
  reference.append(...described);
  return element(
    "article",
    { id, "aria-labelledby": heading.id },
    heading,
    element("p", {}, element("strong", {}, summary)),
    ...tryForm(spec, operation, sent),
    reference,
  );
}

function schemaBlock({ schema }) {
  return textBlock("JSON Schema", JSON.stringify(schema));
}

/** The form that sends a request, and the place where the response is shown. */
function tryForm(spec, operation, sent) {
  const { operationId: id, parameters = [], requestBody, summary } = operation;
  const form = element("form", { "aria-label": `Try ${summary.toLowerCase()}` });
  const inputs = parameters.map((parameter) => ({ ...parameter, input: inputOf(id, parameter) }));
  const fields = (required) =>
    inputs.filter((one) => !one.required === !required).map(({ name, input, description }) => field(name, input, description));
  const body = requestBody && element("textarea", { id: `${id}-body`, spellcheck: "false", autocomplete: "off" });
  const reading = element("select", { id: `${id}-reading` }, element("option", { value: "" }, "that of the sandbox"));
  reading.append(...Array.from(document.getElementById("readings").options, (option) => option.cloneNode(true)));
  form.append(
    ...fields(true),
    ...(body ? [field("Sample", samples(operation, body)), field("Body", body)] : []),
    element(
      "details",
      {},
      element("summary", {}, "Options: request id, reading"),
      ...fields(false),
      field("Reading", reading, "How the response is written where the specification is silent, sent as `x-sandbox-reading`."),
    ),
  );

  let inFlight = null;
  const cancel = button("Cancel", () => inFlight?.abort(), { hidden: true });
  const send = element("button", { class: "primary" }, "Send");
  const hint = element("span", { class: "hint" }, element("kbd", {}, "Ctrl"), " ", element("kbd", {}, "Enter"), " sends from any field here");
  form.append(element("div", { class: "row" }, send, cancel, hint));
  const status = element("p", { role: "status", class: "outcome" });
  const parts = element("div");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (inFlight) return;
    inFlight = new AbortController();
    cancel.hidden = false;
    status.replaceChildren("Waiting for the response …");
    parts.replaceChildren();
    const outcome = await exchange(requestOf(spec, operation, inputs, body, reading), inFlight.signal);
    show(outcome, status, parts);
    if (document.activeElement === cancel) send.focus();
    cancel.hidden = true;
    inFlight = null;
    sent();
  });
  return [form, element("section", { class: "response", "aria-label": `Response: ${summary.toLowerCase()}` }, status, parts)];
}

function inputOf(id, { name, required, examples = {} }) {
  const sample = Object.values(examples)[0]?.value;
  return element("input", {
    id: `${id}-${name}`,
    required,
    [required ? "value" : "placeholder"]: sample,
    autocomplete: "off",
    spellcheck: "false",
  });
}

/** A choice of samples, which fills the body. */
function samples({ operationId, requestBody }, body) {
  const all = Object.values(requestBody.content["application/json"].examples);
  const choice = element("select", { id: `${operationId}-sample` });
  choice.append(...all.map(({ summary }, index) => element("option", { value: index }, summary)));
  const fill = () => {
    body.value = JSON.stringify(all[choice.value].value, null, 2);
    body.rows = body.value.split("\n").length;
  };
  choice.addEventListener("change", fill);
  fill();
  return choice;
}

function requestOf(spec, { method, path, security }, inputs, body, reading) {
  const [scheme] = Object.keys(security[0]);
  const key = document.getElementById("service-key").value;
  const headers = [[spec.components.securitySchemes[scheme].name, key], ["x-sandbox-reading", reading.value]];
  if (body) headers.push(["content-type", "application/json"]);
  const query = new URLSearchParams();
  for (const { name, in: place, input } of inputs) {
    if (place === "path") path = path.replace(`{${name}}`, encodeURIComponent(input.value));
    else if (place === "query" && input.value) query.set(name, input.value);
    else if (place === "header") headers.push([name, input.value]);
  }
  const target = query.size ? `${path}?${query}` : path;
  return { target, method, headers: headers.filter(([, value]) => value), body: body?.value };
}

/** Sends a request, and returns whatever came back, also of a response that broke off. */
async function exchange({ target, ...request }, signal) {
  const began = performance.now();
  const outcome = { text: "", bytes: 0 };
  const decoder = new TextDecoder();
  try {
    outcome.response = await fetch(target, { ...request, signal, credentials: "omit", redirect: "manual" });
    const reader = outcome.response.body?.getReader();
    for (let part = await reader?.read(); part && !part.done; part = await reader.read()) {
      outcome.bytes += part.value.length;
      outcome.text += decoder.decode(part.value, { stream: true });
    }
  } catch (error) {
    outcome.error = signal.aborted ? "Cancelled" : `The browser says: ${error.message}`;
  }
  outcome.duration = performance.now() - began;
  return outcome;
}

function show({ response, text, bytes, error, duration }, status, parts) {
  const time = element("span", { class: "quiet" }, `${duration.toFixed(0)} ms`);
  if (!response) {
    status.replaceChildren(element("strong", { class: statusClass() }, "No response"), ` ${error}. `, time);
    return;
  }
  const code = element("strong", { class: statusClass(response.status) }, `${response.status} ${response.statusText}`);
  const size = bytes === 1 ? "1 byte" : `${bytes} bytes`;
  const end = error ? `, broke off after ${size}. ${error}. ` : `, ${size}, `;
  status.replaceChildren(code, end, time);
  parts.append(folded(["Headers"], () => [pairs("Headers of the response", [...response.headers])]));
  if (text) parts.append(textBlock("Body of the response", text), copyButton("Copy body", text));
}
