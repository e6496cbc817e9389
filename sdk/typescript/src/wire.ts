// The documents of /v2 as they are on the wire, as far as this SDK reads or writes them.

export interface WireLease {
  token: string;
  attempt: number;
  expires_at: string;
  traceparent?: string | null;
}

export interface WireEnvelope {
  run_id?: string | null;
  step_id?: string | null;
  parent_step_id?: string | null;
  tenant_id?: string | null;
  labels?: Record<string, string> | null;
  idempotency_key?: string | null;
  request_hash?: string | null;
  deadline?: string | null;
  retry_policy?: WireRetryPolicy | null;
  target_topic?: string | null;
  partition_override?: number | null;
  dead_letter?: unknown;
}

export interface WireRetryPolicy {
  max_attempts?: number;
  backoff_ms?: number;
  max_backoff_ms?: number;
  jitter?: "full" | "half" | "none";
}

/** Where a message was born. */
export interface WireOrigin {
  topic: string;
  incarnation: number;
  partition: number;
  offset: number;
}

export interface WireItem {
  origin?: WireOrigin | null;
  topic: string;
  partition: number;
  offset: number;
  key?: string | null;
  value?: string | null;
  value_b64?: string | null;
  priority: number;
  produced_at: string;
  deliver_at?: string | null;
  last_error?: string | null;
  envelope?: WireEnvelope | null;
  lease?: WireLease | null;
  routing?: unknown;
}

export interface WireMessage {
  key?: string;
  value?: string;
  value_b64?: string;
  priority?: number;
  delay_ms?: number;
  deliver_at?: string;
  envelope?: WireEnvelope;
}

export interface WireSettled {
  status: "ok" | "stale" | "unknown";
  cancelled?: boolean | null;
  /** The failed attempt was the last one. */
  dead?: boolean | null;
  draining?: boolean | null;
}

export interface WireOutcome {
  status: "succeeded" | "failed_final" | "failed_retryable";
  code?: number | null;
  headers?: Record<string, string>;
  body?: string | null;
  body_b64?: string | null;
  error?: string | null;
}

export type WireDecision =
  | { decision: "execute"; lease: { token: string; epoch: number; attempt: number; expires_at: string } }
  | { decision: "replay"; outcome: WireOutcome }
  | { decision: "in_progress"; retry_after_ms: number; epoch: number; attempt: number }
  | { decision: "retryable"; outcome: WireOutcome; epoch: number; attempt: number; attempts_left?: number | null }
  | { decision: "unknown"; epoch: number; attempt: number; since: string };

export interface WireCommitted {
  result: "committed" | "already_committed";
  produced: object[];
  outputs: object[];
}

/** Members whose names are the user's own and stay as they are. */
const OPAQUE = new Set(["labels", "headers", "meta", "waiting"]);

/** A wire document in the names of JavaScript. */
export function toCamel<T>(value: unknown): T {
  return rename(value, (name) => name.replace(/_([a-z0-9])/g, (_all, letter: string) => letter.toUpperCase())) as T;
}

/** A document of this SDK in the names of the wire. */
export function toSnake<T>(value: unknown): T {
  return rename(value, (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)) as T;
}

function rename(value: unknown, nameOf: (name: string) => string): unknown {
  if (Array.isArray(value)) return value.map((item) => rename(item, nameOf));
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Date) return value.toISOString();
  const renamed: Record<string, unknown> = {};
  for (const [name, member] of Object.entries(value)) {
    if (member === undefined || member === null) continue;
    renamed[nameOf(name)] = OPAQUE.has(name) ? member : rename(member, nameOf);
  }
  return renamed;
}

/** A path of names, each of which may be anything. */
export function path(strings: TemplateStringsArray, ...names: (string | number)[]): string {
  return String.raw({ raw: strings }, ...names.map((name) => encodeURIComponent(name)));
}

/** A query of what is given. */
export function query(fields: Record<string, string | number | boolean | undefined | null>): string {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null);
  if (given.length === 0) return "";
  return `?${given.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join("&")}`;
}
