// Calls to the control interface under /__sandbox/.

const token = document.getElementById("token");

/** The service key of the displayed namespace, or null for the default namespace. */
export const namespace = new URLSearchParams(location.search).get("namespace");

/** A rejection by the sandbox, with its message. */
export class Rejected extends Error {}

/** Sends a request, and returns the body of the response as text. The request's body must be JSON. */
export async function call(path, { method = "GET", body } = {}) {
  const url = new URL(`/__sandbox/${path}`, location.origin);
  if (namespace !== null) url.searchParams.set("namespace", namespace);
  const headers = new Headers();
  if (token.value) headers.set("x-sandbox-token", token.value);
  if (body !== undefined) headers.set("content-type", "application/json");
  const response = await fetch(url, { method, headers, body, cache: "no-store", credentials: "omit" });
  const text = await response.text();
  if (response.ok) return text;
  if (response.status === 401) document.getElementById("token-field").hidden = false;
  throw new Rejected(detailOf(text) ?? `The sandbox responded ${response.status}.`);
}

/** Runs a task, and displays its error, if any. */
export async function attempt(task) {
  const status = document.getElementById("status");
  try {
    await task();
    status.textContent = "";
  } catch (error) {
    // An unreachable sandbox may be restarting.
    status.textContent = error instanceof Rejected ? error.message : "The sandbox does not respond.";
    return error;
  }
}

function detailOf(problem) {
  try {
    return JSON.parse(problem).detail;
  } catch {
    return null;
  }
}
