// The operations of openapi.json: what each takes and responds, and a form that sends it.

import { copyButton, element, field, folded, inline, pairs, prose, statusClass } from "./element.js";
import { textBlock } from "./json.js";
import { PRESETS, asHeader } from "./presets.js";

const METHODS = ["get", "put", "post", "delete", "patch"];

/** Every operation of the document with its method and its whole path. */
export function operationsOf(spec) {
  const base = new URL(spec.servers[0].url).pathname;
  return Object.entries(spec.paths).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method]).map((method) => ({
      ...item[method],
      method: method.toUpperCase(),
      path: base + path,
    })),
  );
}

/** An article for an operation. `sent` is called after each request that it sends. */
export function operationArticle(spec, operation, sent) {
  const id = operation.operationId;
  const heading = element(
    "h2",
    { id: `${id}-heading` },
    element("span", { class: `method ${operation.method}` }, operation.method),
    " ",
    element("code", {}, operation.path),
  );
  const { form, response } = tryForm(spec, operation, sent);
  return element(
    "article",
    { id, "aria-labelledby": heading.id },
    heading,
    element("p", {}, element("strong", {}, operation.summary)),
    ...prose(operation.description),
    form,
    response,
    ...reference(operation),
  );
}

function* reference({ requestBody, responses }) {
  if (requestBody) {
    const { schema } = requestBody.content["application/json"];
    yield folded(["Fields of the body"], () => [...prose(requestBody.description), schemaBlock(schema)]);
  }
  const each = Object.entries(responses).map(([status, { description, content = {}, headers = {} }]) => {
    const [, first, rest] = description.match(/^(.*?\.)(?:\s+(.*))?$/s) ?? [null, description];
    return folded([element("span", { class: statusClass(status) }, status), " ", ...inline(first)], () => [
      ...(rest ? prose(rest) : []),
      ...Object.entries(headers).map(([name, header]) =>
        element("p", { class: "hint" }, element("code", {}, name), ": ", ...inline(header.description)),
      ),
      ...Object.values(content).slice(0, 1).map(({ schema }) => schemaBlock(schema)),
    ]);
  });
  yield element("details", {}, element("summary", {}, "Responses"), ...each);
}

function schemaBlock(schema) {
  return textBlock("JSON Schema", JSON.stringify(schema));
}

/** The form that sends a request, and the place where the response is shown. */
function tryForm(spec, operation, sent) {
  const id = operation.operationId;
  const form = element("form", { "aria-label": `Try ${operation.summary.toLowerCase()}` });

  const inputs = (operation.parameters ?? []).map((parameter) => ({ ...parameter, input: inputOf(id, parameter) }));
  const fieldOf = ({ name, input, description, in: place }) =>
    field(name, input, `${input.required ? "Required" : "Optional"}, in the ${place}. ${description}`);
  const body = operation.requestBody && bodyFields(operation);
  const fault = faultChoice(id);
  const reading = readingChoice(id);
  form.append(
    ...inputs.filter(({ required }) => required).map(fieldOf),
    ...(body?.fields ?? []),
    element(
      "details",
      {},
      element("summary", {}, "Options: request id, fault, reading"),
      ...inputs.filter(({ required }) => !required).map(fieldOf),
      field("Fault", fault, "What goes wrong with this one request, sent as `x-sandbox-fault`. A browser may repeat a request whose connection broke."),
      field("Reading", reading, "How the response is written where the specification is silent, sent as `x-sandbox-reading`."),
    ),
  );

  const send = element("button", { class: "primary" }, "Send");
  const cancel = element("button", { type: "button", hidden: true }, "Cancel");
  form.append(element("div", { class: "row" }, send, cancel));

  const status = element("p", { role: "status", class: "outcome" });
  const parts = element("div");
  const response = element("section", { class: "response", "aria-label": `Response: ${operation.summary.toLowerCase()}` }, status, parts);

  let inFlight = null;
  cancel.addEventListener("click", () => inFlight?.abort());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (inFlight) return;
    inFlight = new AbortController();
    cancel.hidden = false;
    status.replaceChildren("Waiting for the response …");
    parts.replaceChildren();
    const outcome = await exchange(requestOf(spec, operation, { inputs, body: body?.text, fault, reading }), inFlight.signal);
    show(outcome, status, parts);
    if (document.activeElement === cancel) send.focus();
    cancel.hidden = true;
    inFlight = null;
    sent();
  });
  // As in other tools of this kind.
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  return { form, response };
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

/** A choice of samples, and the text of the body, which begins as the first. */
function bodyFields({ operationId, requestBody }) {
  const samples = Object.values(requestBody.content["application/json"].examples);
  const choice = element("select", { id: `${operationId}-sample` });
  choice.append(...samples.map(({ summary }, index) => element("option", { value: index }, summary)));
  const text = element("textarea", { id: `${operationId}-body`, spellcheck: "false", autocomplete: "off" });
  const fill = () => {
    text.value = JSON.stringify(samples[choice.value].value, null, 2);
    text.rows = text.value.split("\n").length;
  };
  choice.addEventListener("change", fill);
  fill();
  return { text, fields: [field("Sample", choice), field("Body", text)] };
}

function faultChoice(id) {
  const presets = PRESETS.map(([label, preset]) => element("option", { value: asHeader(preset) }, label));
  return element("select", { id: `${id}-fault` }, element("option", { value: "" }, "none"), ...presets);
}

function readingChoice(id) {
  const readings = Array.from(document.getElementById("readings").options, (option) => option.cloneNode(true));
  return element("select", { id: `${id}-reading` }, element("option", { value: "" }, "that of the sandbox"), ...readings);
}

function requestOf(spec, operation, { inputs, body, fault, reading }) {
  let path = operation.path;
  const query = new URLSearchParams();
  const headers = [];
  for (const { name, in: place, input } of inputs) {
    if (place === "path") path = path.replace(`{${name}}`, encodeURIComponent(input.value));
    else if (input.value && place === "query") query.set(name, input.value);
    else if (input.value) headers.push([name, input.value]);
  }
  const key = document.getElementById("service-key").value;
  const [scheme] = Object.keys(operation.security[0]);
  if (key) headers.push([spec.components.securitySchemes[scheme].name, key]);
  if (body) headers.push(["content-type", "application/json"]);
  if (fault.value) headers.push(["x-sandbox-fault", fault.value]);
  if (reading.value) headers.push(["x-sandbox-reading", reading.value]);
  const target = query.size ? `${path}?${query}` : path;
  return { target, method: operation.method, headers, body: body?.value };
}

/** Sends a request, and returns whatever came back, also of a response that broke off. */
async function exchange({ target, ...request }, signal) {
  const began = performance.now();
  const outcome = { text: "", bytes: 0 };
  const decoder = new TextDecoder();
  try {
    outcome.response = await fetch(target, {
      ...request,
      signal,
      credentials: "omit",
      redirect: "manual",
    });
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
  const headers = element("details", {}, element("summary", {}, "Headers"), pairs([...response.headers]));
  parts.append(headers);
  if (text) {
    parts.append(textBlock("Body of the response", text), copyButton("Copy body", () => text));
  }
}
