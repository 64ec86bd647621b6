// Faults that one can choose. Each is the JSON that POST /__sandbox/faults takes.

export const PRESETS = [
  ["503, Retry-After 1", { status: 503, retry_after: 1 }],
  ["429, Retry-After 1", { status: 429, retry_after: 1 }],
  ["500", { status: 500 }],
  ["2 seconds late", { delay: 2 }],
  ["connection reset before the response", { cut: "before-head" }],
  ["connection reset within the head", { cut: "in-head" }],
  ["connection reset after 10 bytes of the body", { cut: "after-bytes:10" }],
  ["stalls after 10 bytes of the body", { cut: "after-bytes:10", how: "stall" }],
  ["bytes that are no HTTP", { garbage: true }],
  ["acted on, but the response is lost", { act_then_reset: true }],
];

/** The same as the header x-sandbox-fault has it. */
export function asHeader(fault) {
  return Object.entries(fault)
    .map(([name, value]) => `${name}=${value}`)
    .join("; ");
}
