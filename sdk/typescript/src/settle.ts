import { Cancelled, DeadlinePassed, EffectBusy, EffectExhausted, EffectFailed, EffectUncertain, LeaseLost, TimedOut } from "./errors.js";
import type { DeliveryEnded, EffectError, EffectName } from "./errors.js";
import { Dead, Retry, Snooze } from "./outcomes.js";
import { DURATION_MS_MAX } from "./limits.js";
import { KeyReused } from "./refusals.js";
import { clipped, describe, isA, reasonText } from "./texts.js";

/** When a message whose effect is busy comes again, if the server named no time and the effect does not end before. */
export const BUSY_MS = 30_000;
/** When a message whose effect is uncertain comes again, if the effect is not resolved before. */
export const UNCERTAIN_MS = 300_000;

/** What the server is told about a delivery when its handler has ended. */
export type Settlement =
  | { readonly kind: "ack" }
  | { readonly kind: "nack"; readonly error: string; readonly delayMs?: number | undefined; readonly dead?: boolean }
  | { readonly kind: "release"; readonly delayMs?: number; readonly effect?: EffectName }
  | { readonly kind: "drop"; readonly why: string };

export type HandlerEnd = { readonly returned: true } | { readonly returned: false; readonly error: unknown };

/** The settlement of a delivery: how its handler ended, and what ended the delivery before that, if anything did: `stopped` if the worker's own stop. */
export function settlementOf(end: HandlerEnd, ended: DeliveryEnded | undefined, stopped = false): Settlement {
  if (ended instanceof LeaseLost) return { kind: "drop", why: ended.message };
  if (ended instanceof DeadlinePassed) return { kind: "nack", dead: true, error: describe(ended) };
  if (ended instanceof TimedOut) return { kind: "nack", error: describe(ended) };
  // No worker gets it again: giving it back ends it, and its run says that it was cancelled.
  if (ended instanceof Cancelled && !stopped) return { kind: "release" };
  if (end.returned) return { kind: "ack" };
  // The worker stops: what the handler threw because of that is not the message's fault.
  if (ended instanceof Cancelled) return { kind: "release" };
  return settlementOfError(end.error);
}

/** Finds a settlement for whatever was thrown: an outcome that the application changed afterwards is still one. */
function settlementOfError(error: unknown): Settlement {
  if (isA(error, Snooze)) return { kind: "release", delayMs: wholeMs(error.forMs) ?? 0 };
  if (isA(error, Retry)) return { kind: "nack", error: clipped(reasonText(error.reason)), delayMs: wholeMs(error.afterMs) };
  if (isA(error, Dead)) return { kind: "nack", error: clipped(reasonText(error.reason)), dead: true };
  if (isA(error, EffectBusy)) return waiting(error, wholeMs(error.retryAfterMs) ?? BUSY_MS);
  if (isA(error, EffectUncertain)) return waiting(error, UNCERTAIN_MS);
  const hopeless = isA(error, EffectFailed) || isA(error, EffectExhausted) || isA(error, KeyReused);
  return hopeless ? { kind: "nack", error: clipped(describe(error)), dead: true } : { kind: "nack", error: clipped(describe(error)) };
}

/** Waiting is not failing: the message comes again when the effect is free or resolved, and the attempt does not count. */
function waiting({ scope, key, tenantId }: EffectError, delayMs: number): Settlement {
  if (typeof scope !== "string" || typeof key !== "string") return { kind: "release", delayMs };
  return { kind: "release", delayMs, effect: { tenantId: typeof tenantId === "string" ? tenantId : undefined, scope, key } };
}

/** A delay as the server takes it: whole milliseconds, up to its longest; undefined if it is not a time. */
function wholeMs(ms: unknown): number | undefined {
  if (typeof ms !== "number" || Number.isNaN(ms)) return undefined;
  return Math.max(0, Math.min(DURATION_MS_MAX, Math.ceil(ms)));
}
