import { DriftQError } from "./errors.js";
import { known, names } from "./limits.js";
import { base64, bytesOfBase64, randomHex, sha256Hex } from "./platform.js";
import type { WireEnvelope, WireItem, WireMessage } from "./wire.js";
import { toSnake } from "./wire.js";

export interface RetryPolicy {
  maxAttempts?: number;
  backoffMs?: number;
  maxBackoffMs?: number;
  jitter?: "full" | "half" | "none";
}

/** What can be said about a message besides its payload. */
export interface SendOptions {
  /** Messages of one key go to one partition. */
  key?: string;
  /** 0 to 9, the highest first. */
  priority?: number;
  delayMs?: number;
  deliverAt?: Date | string;
  runId?: string | undefined;
  stepId?: string | undefined;
  parentStepId?: string | undefined;
  tenantId?: string | undefined;
  labels?: Record<string, string>;
  /** The same key again stores nothing and answers with the first message's place. */
  idempotencyKey?: string;
  /** What is asked for, in a few bytes: the same key with another hash is `KeyReused`. Made of the payload if not given. */
  requestHash?: string;
  /** After this moment no worker has to handle it any more. */
  deadline?: Date | string;
  retryPolicy?: RetryPolicy;
}

const OPTIONS = names<SendOptions>({
  key: true,
  priority: true,
  delayMs: true,
  deliverAt: true,
  runId: true,
  stepId: true,
  parentStepId: true,
  tenantId: true,
  labels: true,
  idempotencyKey: true,
  requestHash: true,
  deadline: true,
  retryPolicy: true,
});
const POLICY_OPTIONS = names<RetryPolicy>({ maxAttempts: true, backoffMs: true, maxBackoffMs: true, jitter: true });

/** Where a message was born. One that was redriven, rerouted or replayed keeps it. */
export interface Origin {
  readonly topic: string;
  /** Tells the topic from others that had its name before. */
  readonly incarnation: number;
  readonly partition: number;
  readonly offset: number;
}

/** A message as it came. */
export interface Message {
  readonly origin: Origin;
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly key: string | undefined;
  /** The payload as text, if it is text. */
  readonly value: string | undefined;
  /** The payload as bytes, if it is no text. */
  readonly bytes: Uint8Array | undefined;
  readonly priority: number;
  readonly producedAt: string;
  readonly runId: string | undefined;
  readonly stepId: string | undefined;
  readonly parentStepId: string | undefined;
  readonly tenantId: string | undefined;
  readonly labels: Readonly<Record<string, string>>;
  readonly idempotencyKey: string | undefined;
  readonly deadline: Date | undefined;
  readonly lastError: string | undefined;
}

/** Where a message was stored. */
export interface Produced {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  /** A message of this idempotency key was there before; this is its place. */
  readonly duplicate: boolean;
}

/** A text that is sent as it is. Made by `raw`. */
export class Raw {
  constructor(readonly text: string) {
    if (typeof text !== "string") throw new TypeError(`raw takes a text, and not a ${typeof text}; bytes are sent as they are anyway`);
  }

  toJSON(): never {
    throw new TypeError("a raw text is a payload of its own, and cannot be a part of one");
  }
}

/** A text to be sent as it is, without the quotes of JSON. A handler that reads it sets `encoding: "text"`. */
export function raw(text: string): Raw {
  return new Raw(text);
}

/** A payload is sent as JSON, a text too; bytes and raw texts as they are. */
export function encodeMessage(payload: unknown, options: SendOptions = {}): WireMessage {
  known(options, OPTIONS, "a message");
  if (options.retryPolicy) known(options.retryPolicy, POLICY_OPTIONS, "a retry policy");
  const message = encodePayload(payload);
  if (options.key !== undefined) message.key = options.key;
  if (options.priority !== undefined) message.priority = options.priority;
  if (options.delayMs !== undefined) message.delay_ms = options.delayMs;
  if (options.deliverAt !== undefined) message.deliver_at = moment(options.deliverAt);
  const envelope = encodeEnvelope(options);
  // A key that the caller chose stands for one payload: with another payload it is an error, not a duplicate.
  if (envelope?.idempotency_key) envelope.request_hash ??= payloadHash(payload, message);
  if (envelope) message.envelope = envelope;
  return message;
}

/** A message that is safe to send again. */
export function withKey(message: WireMessage): WireMessage {
  if (message.envelope?.idempotency_key) return message;
  return { ...message, envelope: { ...message.envelope, idempotency_key: `sdk-${randomHex(16)}` } };
}

/** Whether it is sent as JSON. */
export function isJson(payload: unknown): boolean {
  return !(payload instanceof Uint8Array || payload instanceof Raw);
}

function encodePayload(payload: unknown): WireMessage {
  if (payload instanceof Uint8Array) return { value_b64: base64(payload) };
  return { value: payload instanceof Raw ? payload.text : jsonOf(payload) };
}

function payloadHash(payload: unknown, message: WireMessage): string {
  return `sha256:${sha256Hex(payload instanceof Uint8Array ? payload : message.value!)}`;
}

function encodeEnvelope(options: SendOptions): WireEnvelope | undefined {
  const envelope: WireEnvelope = {};
  if (options.runId !== undefined) envelope.run_id = options.runId;
  if (options.stepId !== undefined) envelope.step_id = options.stepId;
  if (options.parentStepId !== undefined) envelope.parent_step_id = options.parentStepId;
  if (options.tenantId !== undefined) envelope.tenant_id = options.tenantId;
  if (options.labels !== undefined) envelope.labels = options.labels;
  if (options.idempotencyKey !== undefined) envelope.idempotency_key = options.idempotencyKey;
  if (options.requestHash !== undefined) envelope.request_hash = options.requestHash;
  if (options.deadline !== undefined) envelope.deadline = moment(options.deadline);
  if (options.retryPolicy !== undefined) envelope.retry_policy = toSnake(options.retryPolicy);
  return Object.keys(envelope).length > 0 ? envelope : undefined;
}

/** A payload that goes as JSON. */
export function jsonOf(payload: unknown): string {
  const text: string | undefined = JSON.stringify(payload);
  if (text === undefined) throw new TypeError(`a payload has to be JSON or bytes, and ${typeof payload} is neither`);
  return text;
}

function moment(value: Date | string): string {
  return typeof value === "string" ? value : value.toISOString();
}

const NO_LABELS: Readonly<Record<string, string>> = Object.freeze({});

export function decodeMessage(item: WireItem): Message {
  const envelope = item.envelope ?? undefined;
  return {
    origin: originOf(item),
    topic: item.topic,
    partition: item.partition,
    offset: exact(item.offset, "offset"),
    key: item.key ?? undefined,
    value: item.value ?? undefined,
    bytes: item.value_b64 == null ? undefined : bytesOfBase64(item.value_b64),
    priority: item.priority,
    producedAt: item.produced_at,
    runId: envelope?.run_id ?? undefined,
    stepId: envelope?.step_id ?? undefined,
    parentStepId: envelope?.parent_step_id ?? undefined,
    tenantId: envelope?.tenant_id ?? undefined,
    labels: envelope?.labels ?? NO_LABELS,
    idempotencyKey: envelope?.idempotency_key ?? undefined,
    deadline: envelope?.deadline == null ? undefined : new Date(envelope.deadline),
    lastError: item.last_error ?? undefined,
  };
}

/** A server that does not say where a message was born never moves one. */
function originOf(item: WireItem): Origin {
  const origin = item.origin ?? { topic: item.topic, incarnation: 0, partition: item.partition, offset: item.offset };
  exact(origin.incarnation, "incarnation");
  exact(origin.offset, "offset of the origin");
  return origin;
}

/** Numbers of the wire have 64 bits, those of JavaScript 53: one that would be rounded is an error, not a wrong place. */
export function exact(value: number, name: string): number {
  if (!Number.isSafeInteger(value)) throw new DriftQError(`the ${name} ${value} does not fit into a JavaScript number`);
  return value;
}
