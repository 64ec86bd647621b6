// Creates all elements of the page. Strings from requests become text, never markup; the page's Content-Security-Policy
// (require-trusted-types-for) prevents all other ways to create elements.

/** Creates an element. Omits attributes that are false or null. Children are elements or text. */
export function element(name, attributes = {}, ...children) {
  const created = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (value === true) created.setAttribute(attribute, "");
    else if (value !== false && value != null) created.setAttribute(attribute, value);
  }
  created.append(...children);
  return created;
}

/** Escapes control characters, such as those that reverse the text direction (`\\u202e`), which could disguise text. */
export function escapeControls(text) {
  const controls = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
  return text.replace(controls, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Creates a `details` element whose contents are created when it is first opened. */
export function lazyDetails(summary, contents) {
  const created = element("details", {}, element("summary", {}, ...summary));
  created.addEventListener("toggle", () => created.append(...contents()), { once: true });
  return created;
}

/** Creates a button. */
export function button(label, onClick, attributes = {}) {
  const created = element("button", { type: "button", ...attributes }, label);
  created.addEventListener("click", onClick);
  return created;
}

/** Creates a button that copies text. Returns an empty string if there is no clipboard (http, except on localhost). */
export function copyButton(label, text) {
  if (!navigator.clipboard) return "";
  const created = button(label, async () => {
    await navigator.clipboard.writeText(text);
    created.textContent = "Copied";
  });
  return created;
}

/** Returns the CSS class for a status. */
export function statusClass(status) {
  return `status s${status ? Math.floor(status / 100) : "0"}`;
}
