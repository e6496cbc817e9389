// The texts of errors. Anything that was thrown can be passed here: a getter that throws, an object without a prototype
// or a proxy gives no text, and does no harm.

/** The longest error text that the server keeps, in bytes. */
const ERROR_BYTES_MAX = 4_096;
/** The text of an error that has none, or throws when it is asked. */
const WITHOUT_A_TEXT = "an error without a text";

/** `instanceof` that never throws. */
export function isA<T>(value: unknown, type: abstract new (...args: never[]) => T): value is T {
  try {
    return value instanceof type;
  } catch {
    return false;
  }
}

export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === "function";
}

/** An error's name and text. */
export function describe(error: unknown): string {
  try {
    if (!(error instanceof Error)) return `threw ${String(error)}`;
    return error.message ? `${error.name}: ${error.message}` : String(error.name);
  } catch {
    return WITHOUT_A_TEXT;
  }
}

/** A reason as a text: of an error its text, of anything else what it is written as. */
export function reasonText(reason: unknown): string {
  if (typeof reason === "string") return reason;
  try {
    return String(reason instanceof Error ? reason.message || reason.name : reason);
  } catch {
    return WITHOUT_A_TEXT;
  }
}

/** As much of a text as the server keeps, in whole characters: half of a pair is no JSON to it. */
export function clipped(text: string): string {
  const bytes = new TextEncoder().encode(text);
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  if (bytes.length <= ERROR_BYTES_MAX) return decoder.decode(bytes);
  const kept = decoder.decode(bytes.subarray(0, ERROR_BYTES_MAX - 3));
  return `${kept.replace(/\ufffd+$/, "")}…`;
}
