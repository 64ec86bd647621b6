// A request of the journal as a command for a POSIX shell.

/** The key that everybody knows. Of others the journal keeps nothing, so that a shell's variable stands in their place. */
const KEY = "sandbox-key";
/** Headers that curl sends by itself, or that would not be true of the repeated request. */
const OWN = /^(host|content-length|transfer-encoding|connection|accept|accept-encoding|user-agent|sec-.*)$/;

/** The command that repeats a request; null if its body is not text, or was not kept whole. */
export function curl({ method, path, query, headers, body, body_bytes }, key) {
  if (new TextEncoder().encode(body).length !== body_bytes) return null;
  const target = query == null ? path : `${path}?${query}`;
  // With -X, curl would wait for the body that a response to HEAD does not have.
  const words = ["curl --path-as-is", method === "HEAD" ? "--head" : `-i -X ${quoted(method)}`, quoted(location.origin + target)];
  const pairs = Object.entries(headers).flatMap(([name, values]) => [values].flat().map((value) => [name, value]));
  for (const [name, value] of pairs.filter(([name]) => !OWN.test(name))) {
    if (value !== "<redacted>") words.push(`-H ${quoted(`${name}: ${value}`)}`);
    else if (name === "x-service-key") words.push(key === KEY ? `-H '${name}: ${KEY}'` : `-H "${name}: $DEALKIT_SERVICE_KEY"`);
  }
  if (body) words.push(`--data-raw ${quoted(body)}`);
  return words.join(" ");
}

/** Characters that a terminal acts on when they are pasted, or that hide what a command is. */
const UNSAFE = /[\p{Cc}\p{Cf}\u2028\u2029]/gu;

/** Quotes a text for a shell: in bash, zsh and ksh, and by POSIX since 2024, $'…' may have escapes. */
function quoted(text) {
  const escaped = text.replace(/[\\']/g, "\\$&").replace(UNSAFE, octal);
  return text.search(UNSAFE) === -1 ? `'${text.replaceAll("'", "'\\''")}'` : `$'${escaped}'`;
}

function octal(character) {
  const bytes = [...new TextEncoder().encode(character)];
  return character === "\n" ? "\\n" : bytes.map((byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("");
}
