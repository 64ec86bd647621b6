// Calls to the sandbox's own interface, under /__sandbox/.

const tokenField = document.getElementById("token-field");
const token = document.getElementById("token");

/** What the sandbox refused, in its words. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem?.detail ?? problem?.title ?? `The sandbox responded ${status}.`);
    this.status = status;
  }
}

/** Sends a request, and returns the body of the response as text. `body` is sent as JSON. */
export async function call(path, { method = "GET", body } = {}) {
  const headers = new Headers();
  if (token.value) headers.set("x-sandbox-token", token.value);
  if (body !== undefined) headers.set("content-type", "application/json");
  const response = await fetch(`/__sandbox/${path}`, {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    cache: "no-store",
    credentials: "omit",
  });
  const text = await response.text();
  if (response.ok) return text;
  if (response.status === 401) tokenField.hidden = false;
  throw new Refused(response.status, parsed(text));
}

/** Has `again` called when another token was typed in. */
export function onToken(again) {
  token.addEventListener("change", again);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
