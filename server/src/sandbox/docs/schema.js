// Schemas of openapi.json as lists of fields.

import { element, prose } from "./element.js";

/** What a `$ref` stands for; what stands beside it wins. */
export function resolve(spec, schema) {
  if (!schema?.$ref) return schema;
  const { $ref, ...beside } = schema;
  const target = $ref
    .slice("#/".length)
    .split("/")
    .reduce((at, name) => at[name.replaceAll("~1", "/").replaceAll("~0", "~")], spec);
  return { ...resolve(spec, target), ...beside };
}

/** The fields of an object at every depth, by their paths: `application.offers[].id`. */
export function fieldList(spec, schema) {
  return element("dl", { class: "fields" }, ...fields(spec, schema, ""));
}

/** The type, the limits and the description of one value, such as a parameter. */
export function describe(spec, schema) {
  const { main, type } = typeOf(spec, schema);
  return [type, ...limits(main)].join(", ");
}

function* fields(spec, schema, prefix) {
  const { properties = {}, required = [] } = resolve(spec, schema);
  for (const [name, property] of Object.entries(properties)) {
    const { main, type } = typeOf(spec, property);
    const description = resolve(spec, property).description ?? main.description;
    yield element(
      "div",
      {},
      element(
        "dt",
        {},
        element("code", {}, element("span", { class: "quiet" }, prefix), name),
        " ",
        required.includes(name) ? element("span", { class: "required" }, "required") : "",
      ),
      element("dd", {}, element("p", { class: "type" }, [type, ...limits(main)].join(", ")), ...prose(description)),
    );
    const inner = main.type === "array" ? typeOf(spec, main.items).main : main;
    const suffix = main.type === "array" ? "[]." : ".";
    if (inner.properties) yield* fields(spec, inner, prefix + name + suffix);
  }
}

/** The schema of what a value is when it is not null, and the type in words. */
function typeOf(spec, schema) {
  const whole = resolve(spec, schema);
  const choices = (whole.oneOf ?? [whole]).map((choice) => resolve(spec, choice));
  const main = choices.find((choice) => choice.type !== "null") ?? whole;
  const types = choices.flatMap((choice) => choice.type ?? "any");
  const type = types.find((type) => type !== "null") ?? "null";
  let words = type;
  if (type === "array") words = `array of ${typeOf(spec, main.items).type}`;
  if (main.format) words += ` (${main.format})`;
  if (types.includes("null") && type !== "null") words += " or null";
  return { main: { ...main, type }, type: words };
}

function* limits(schema) {
  yield* range(schema.minLength, schema.maxLength, "character");
  yield* range(schema.minimum, schema.maximum);
  yield* range(schema.minItems, schema.maxItems, "item");
  if (schema.enum) yield `one of ${schema.enum.join(", ")}`;
  if (schema.const !== undefined) yield `always ${schema.const}`;
  // The pattern of a format says what the format says.
  if (schema.pattern && !schema.format) yield `like ${schema.pattern}`;
}

function* range(least, most, unit) {
  if (least === undefined && most === undefined) return;
  const words = most === undefined ? `at least ${least}` : least === undefined ? `at most ${most}` : `${least} to ${most}`;
  const units = (most ?? least) === 1 ? unit : `${unit}s`;
  yield unit ? `${words} ${units}` : words;
}
