// Calls to the sandbox's own interface, under /__sandbox/.

const token = document.getElementById("token");

/** The service key whose namespace this page shows, where each key has its own. */
export const namespace = new URLSearchParams(location.search).get("namespace");

/** What the sandbox refused, in its words. */
export class Refused extends Error {}

/** Sends a request, whose body is JSON, and returns the body of the response as text. */
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
  throw new Refused(detailOf(text) ?? `The sandbox responded ${response.status}.`);
}

/** Does something; if it is refused or fails, the page says so. */
export async function attempt(work) {
  const status = document.getElementById("status");
  try {
    await work();
    status.textContent = "";
  } catch (error) {
    // If the sandbox cannot be reached, it may be starting.
    status.textContent = error instanceof Refused ? error.message : "The sandbox does not respond.";
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
