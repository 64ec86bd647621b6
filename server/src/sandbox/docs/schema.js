// openapi.json, to be read without following references.

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
