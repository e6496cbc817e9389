import { EffectFailed } from "./errors.js";
import { Dead, Final, NotDone, NotSent, Retry, Snooze } from "./outcomes.js";
import type { Terms } from "./terms.js";
import { clipped, describe, isA, reasonText } from "./texts.js";

/** What finish and resolve are called with. */
export interface Ending {
  status: "succeeded" | "failed_final" | "failed_retryable";
  code?: number;
  headers?: Record<string, string>;
  body?: string;
  error?: string;
}

/** It happened, and nothing more is known to the server. */
export const OMITTED: Ending = { status: "succeeded", code: 200, headers: { "x-driftq-result": "omitted" } };

/** As finish and commit take it. */
export function finishText(token: string, ending: Ending): string {
  if (ending.headers !== JSON_HEADERS) return JSON.stringify({ token, ...ending });
  // Most are so, and a worker writes one or more per message.
  return `{"token":${JSON.stringify(token)},"status":"succeeded","code":200,"headers":{"content-type":"application/json"},"body":${JSON.stringify(ending.body)}}`;
}

/** The headers of a result that is JSON. */
const JSON_HEADERS: Record<string, string> = Object.freeze({ "content-type": "application/json" });

/** It happened, with a result that is JSON. */
class Succeeded implements Ending {
  readonly status = "succeeded";
  readonly code = 200;
  readonly headers = JSON_HEADERS;

  constructor(readonly body: string) {}
}

/**
 * A result as it is stored, and as it is given back. The caller that ran the effect gets what a replay gets: a date
 * becomes a text the first time already, and not only in a replay.
 */
export function happened<T>(result: T): { finish: Ending; value: T } {
  // JSON cannot express it, so it is kept as a success without a body.
  if (result === undefined) return { finish: { status: "succeeded", code: 200 }, value: result };
  let body: string | undefined;
  try {
    body = JSON.stringify(result);
  } catch {
    // Like a function or a symbol, it cannot be stored; the effect has happened all the same.
  }
  if (body === undefined) return { finish: OMITTED, value: result };
  const finish = new Succeeded(body);
  // Reading a text back would give the same.
  return { finish, value: typeof result === "string" ? result : (JSON.parse(body) as T) };
}

/** What an error of the function is recorded as, if at all, and what the caller gets. `release`: the lease is given up. */
export function ending(
  error: unknown,
  terms: Pick<Terms, "tenantId" | "scope" | "key" | "onLapse">,
): { finish?: Ending; release?: "not_sent" | "uncertain"; raise: unknown } {
  if (isA(error, Final)) {
    const raise = new EffectFailed(terms.scope, terms.key, reasonText(error.reason), false, { tenantId: terms.tenantId, cause: error });
    return { finish: { status: "failed_final", error: clipped(reasonText(error.reason)) }, raise };
  }
  if (isA(error, NotSent)) return { release: "not_sent", raise: error };
  if (isA(error, Dead)) return { finish: { status: "failed_final", error: clipped(reasonText(error.reason)) }, raise: error };
  if (isA(error, Retry) || isA(error, Snooze) || isA(error, NotDone) || terms.onLapse === "retry") {
    return { finish: { status: "failed_retryable", error: clipped(describe(error)) }, raise: error };
  }
  // It may have happened: the next callers are told so at once, and not only when the lease is over.
  return { release: "uncertain", raise: error };
}
