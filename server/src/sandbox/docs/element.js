// Elements, made here and nowhere else. What a request sent becomes text, never markup; the page's
// Content-Security-Policy refuses every other way (require-trusted-types-for).

/** An element with attributes (those that are false or null are left out) and children: elements or text. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(attribute, "");
    else if (value !== false && value != null) made.setAttribute(attribute, value);
  }
  made.append(...children);
  return made;
}

/** Text in which nothing disguises the rest: characters that turn the direction of writing are shown as `\\u202e`. */
export function plain(text) {
  const disguising = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
  return text.replace(disguising, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Something that is made when it is unfolded: most of it never is. */
export function folded(summary, contents) {
  const made = element("details", {}, element("summary", {}, ...summary));
  made.addEventListener("toggle", () => made.append(...contents()), { once: true });
  return made;
}

/** A button that does something. */
export function button(label, onClick, attributes = {}) {
  const made = element("button", { type: "button", ...attributes }, label);
  made.addEventListener("click", onClick);
  return made;
}

/** A button that copies a text; nothing where the browser has no clipboard (plain http elsewhere). */
export function copyButton(label, text) {
  if (!navigator.clipboard) return "";
  const made = button(label, async () => {
    await navigator.clipboard.writeText(text);
    made.textContent = "Copied";
  });
  return made;
}

/** The class that colours a status. */
export function statusClass(status) {
  return `status s${status ? Math.floor(status / 100) : "0"}`;
}
