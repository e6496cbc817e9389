import { EffectFailed } from "./errors.js";
import { Dead, Final, NotDone, Retry, Snooze } from "./outcomes.js";
import type { Terms } from "./terms.js";

/** The longest error text that the server keeps, in bytes. */
const ERROR_BYTES_MAX = 4_096;

/** What finish and resolve are told. */
export interface Ending {
  status: "succeeded" | "failed_final" | "failed_retryable";
  code?: number;
  headers?: Record<string, string>;
  body?: string;
  error?: string;
}

/** It happened, and nothing more is known to the server. */
export const OMITTED: Ending = { status: "succeeded", code: 200, headers: { "x-driftq-result": "omitted" } };

/**
 * A result as it is stored, and as it is given back. Whoever ran the effect gets what a replay gets: a date has
 * become a text the first time already, and not only in the rare case.
 */
export function happened<T>(result: T): { finish: Ending; value: T } {
  let body: string;
  try {
    body = JSON.stringify(result) ?? "null";
  } catch {
    // It cannot be stored, and has happened all the same.
    return { finish: OMITTED, value: result };
  }
  const finish: Ending = { status: "succeeded", code: 200, headers: { "content-type": "application/json" }, body };
  return { finish, value: typeof result === "object" && result !== null ? (JSON.parse(body) as T) : result };
}

/** What an error of the function is recorded as, if at all, and what the caller gets. */
export function ending(error: unknown, terms: Pick<Terms, "scope" | "key" | "onLapse">): { finish?: Ending; raise: unknown } {
  if (error instanceof Final) {
    const raise = new EffectFailed(terms.scope, terms.key, error.reason, false, { cause: error });
    return { finish: { status: "failed_final", error: clipped(error.reason) }, raise };
  }
  if (error instanceof Dead) return { finish: { status: "failed_final", error: clipped(error.reason) }, raise: error };
  if (error instanceof Retry || error instanceof Snooze || error instanceof NotDone || terms.onLapse === "retry") {
    return { finish: { status: "failed_retryable", error: clipped(describe(error)) }, raise: error };
  }
  return { raise: error };
}

/** An error's name and text. */
export function describe(error: unknown): string {
  if (!(error instanceof Error)) return `threw ${String(error)}`;
  return error.message ? `${error.name}: ${error.message}` : error.name;
}

/** As much of a text as the server keeps, in whole characters. */
export function clipped(text: string): string {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= ERROR_BYTES_MAX) return text;
  const kept = new TextDecoder("utf-8").decode(bytes.subarray(0, ERROR_BYTES_MAX - 3));
  return `${kept.replace(/\ufffd+$/, "")}…`;
}
