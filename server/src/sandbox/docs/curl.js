// Converts a recorded request to a curl command for a POSIX shell.

/** The documented default key. The journal redacts other keys, which become a shell variable in the command. */
const DEFAULT_KEY = "sandbox-key";
/** Headers that curl generates, or that do not apply to the repeated request. */
const OMITTED = /^(host|content-length|transfer-encoding|connection|accept|accept-encoding|user-agent|sec-.*)$/;

/** Returns the command that repeats a request, or null if the journal does not contain the whole body as text. */
export function curl({ method, path, query, headers, body, body_bytes }, key) {
  if (new TextEncoder().encode(body).length !== body_bytes) return null;
  const target = query == null ? path : `${path}?${query}`;
  // With -X HEAD, curl would wait for a body.
  const command = ["curl --path-as-is", method === "HEAD" ? "--head" : `-i -X ${quote(method)}`, quote(location.origin + target)];
  const pairs = Object.entries(headers).flatMap(([name, values]) => [values].flat().map((value) => [name, value]));
  for (const [name, value] of pairs.filter(([name]) => !OMITTED.test(name))) {
    if (value !== "<redacted>") command.push(`-H ${quote(`${name}: ${value}`)}`);
    else if (name === "x-service-key") command.push(key === DEFAULT_KEY ? `-H '${name}: ${DEFAULT_KEY}'` : `-H "${name}: $DEALKIT_SERVICE_KEY"`);
  }
  if (body) command.push(`--data-raw ${quote(body)}`);
  return command.join(" ");
}

/** Control characters, which a terminal executes when pasted, and characters that disguise a command. */
const UNSAFE = /[\p{Cc}\p{Cf}\u2028\u2029]/gu;

/** Quotes a string for a shell. Uses escapes in $'…' (bash, zsh, ksh, and POSIX since 2024). */
function quote(text) {
  const escaped = text.replace(/[\\']/g, "\\$&").replace(UNSAFE, toOctal);
  return text.search(UNSAFE) === -1 ? `'${text.replaceAll("'", "'\\''")}'` : `$'${escaped}'`;
}

function toOctal(character) {
  const bytes = [...new TextEncoder().encode(character)];
  return character === "\n" ? "\\n" : bytes.map((byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("");
}
