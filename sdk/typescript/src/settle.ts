import { clipped, describe } from "./endings.js";
import { Cancelled, DeadlinePassed, EffectBusy, EffectExhausted, EffectFailed, EffectUncertain, LeaseLost, TimedOut } from "./errors.js";
import type { DeliveryEnded } from "./errors.js";
import { Dead, Retry, Snooze } from "./outcomes.js";
import { KeyReused } from "./refusals.js";

/** When a message whose effect is busy or uncertain comes again, if the server named no time. */
export const EFFECT_RETRY_MS = 30_000;

/** What the server is told about a delivery when its handler has ended. */
export type Settlement =
  | { readonly kind: "ack" }
  | { readonly kind: "nack"; readonly error: string; readonly delayMs?: number | undefined; readonly dead?: boolean }
  | { readonly kind: "release"; readonly delayMs?: number }
  | { readonly kind: "drop"; readonly why: string };

/** How a handler ended. */
export type HandlerEnd = { readonly returned: true } | { readonly returned: false; readonly error: unknown };

/** The settlement of a delivery: how its handler ended, and what ended the delivery before that, if anything did. */
export function settlementOf(end: HandlerEnd, ended: DeliveryEnded | undefined, stopping = false): Settlement {
  if (ended instanceof LeaseLost) return { kind: "drop", why: ended.message };
  if (ended instanceof DeadlinePassed) return { kind: "nack", dead: true, error: describe(ended) };
  if (ended instanceof TimedOut) return { kind: "nack", error: describe(ended) };
  if (ended instanceof Cancelled && !stopping) return { kind: "ack" };
  if (end.returned) return { kind: "ack" };
  // The worker stops: what the handler threw on that account is not the message's fault.
  if (ended instanceof Cancelled) return { kind: "release" };
  return settlementOfError(end.error);
}

function settlementOfError(error: unknown): Settlement {
  if (error instanceof Snooze) return { kind: "release", delayMs: error.forMs };
  if (error instanceof Retry) return { kind: "nack", error: clipped(error.reason), delayMs: error.afterMs };
  if (error instanceof Dead) return { kind: "nack", error: clipped(error.reason), dead: true };
  if (error instanceof EffectBusy || error instanceof EffectUncertain) {
    return { kind: "nack", error: clipped(describe(error)), delayMs: error.retryAfterMs ?? EFFECT_RETRY_MS };
  }
  const hopeless = error instanceof EffectFailed || error instanceof EffectExhausted || error instanceof KeyReused;
  return hopeless ? { kind: "nack", error: clipped(describe(error)), dead: true } : { kind: "nack", error: clipped(describe(error)) };
}
