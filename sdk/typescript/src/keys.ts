import { canonical } from "./canonical.js";
import type { Origin } from "./message.js";
import { sha256Hex } from "./platform.js";

/** What a derived key depends on: the place of a call in the work as a whole. */
export type Anchor =
  | readonly ["run", string, string]
  | readonly ["message", string, number, string]
  | readonly ["message", string, number, number, number];

/** What is known of the message or the run in which an effect is asked for. */
export interface Place {
  readonly runId?: string | undefined;
  readonly stepId?: string | undefined;
  readonly origin?: Origin | undefined;
  readonly idempotencyKey?: string | undefined;
}

export function anchorOf(place: Place): Anchor | undefined {
  if (place.runId) return ["run", place.runId, place.stepId ?? ""];
  if (!place.origin) return undefined;
  const { topic, incarnation, partition, offset } = place.origin;
  return place.idempotencyKey ? ["message", topic, incarnation, place.idempotencyKey] : ["message", topic, incarnation, partition, offset];
}

export function derivedKey(anchor: Anchor, args: unknown): string {
  return `auto-${sha256Hex(canonical([anchor, args ?? null]))}`;
}

export function requestHash(args: unknown): string {
  return `sha256:${sha256Hex(canonical(args))}`;
}
