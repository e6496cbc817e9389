import type { Finding } from "./outcomes.js";
import type { Place } from "./keys.js";
import { anchorOf, derivedKey, requestHash } from "./keys.js";
import { NoContext } from "./errors.js";
import { ATTEMPTS_MAX, DURATION_MS_MAX, known, LEASE_MS_MAX, names, whole } from "./limits.js";

/** How long one attempt has an effect to itself, unless it is renewed. */
export const EFFECT_LEASE_MS = 60_000;
/** How long to wait for another holder that is carrying it out. */
export const EFFECT_WAIT_MS = 30_000;

/** What the ledger keeps of an effect. */
export interface EffectRecord {
  readonly tenantId: string;
  readonly scope: string;
  readonly key: string;
  readonly state: "in_progress" | "succeeded" | "failed_final" | "failed_retryable" | "unknown";
  readonly epoch: number;
  readonly attempt: number;
  readonly maxAttempts?: number;
  readonly onLapse: "retry" | "hold";
  readonly owner?: string;
  readonly requestHash?: string;
  readonly runId?: string;
  readonly stepId?: string;
  readonly createdAt: string;
  readonly begunAt: string;
  readonly leaseExpiresAt?: string;
  readonly leaseLive?: boolean;
  readonly unknownSince?: string;
  readonly expiresAt?: string;
  /** The delivery that it was last begun for. */
  readonly message?: { readonly topic: string; readonly partition: number; readonly offset: number; readonly attempt?: number };
  readonly outcome?: EffectOutcome;
}

export interface EffectOutcome {
  readonly status: "succeeded" | "failed_final" | "failed_retryable";
  readonly code?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly bodyB64?: string;
  readonly error?: string;
  readonly finishedAt: string;
  readonly resolvedBy?: string;
  readonly resolvedWhy?: string;
}

export interface EffectOptions<T = unknown> {
  /** What the effect is, the same in every attempt. Derived from run, step and `args` if not given. */
  key?: string;
  /** What is asked for. The same key with other arguments is `KeyReused`. */
  args?: unknown;
  /** Whether the next caller may run it if this one is not heard of again. `hold` unless said otherwise. */
  onLapse?: "hold" | "retry";
  leaseMs?: number;
  /** How long the outcome is remembered. */
  ttlMs?: number;
  maxAttempts?: number;
  /** How long to wait for another holder that is carrying it out. */
  waitMs?: number;
  tenantId?: string;
  /** Versions of entities, by name: it is begun only if the entities have them, and they are then raised by one. */
  expect?: Readonly<Record<string, number>>;
  /** In a handler: return only when the result is stored, and do not leave that to the commit that acks the message. */
  durable?: boolean;
  /** Called when the server does not know whether it happened. Answers with one of `found`. */
  reconcile?: (record: EffectRecord) => Finding<T> | Promise<Finding<T>>;
  /** Ends the wait, and fires the signal of the function. */
  signal?: AbortSignal;
}

const OPTIONS = names<EffectOptions>({
  key: true,
  args: true,
  onLapse: true,
  leaseMs: true,
  ttlMs: true,
  maxAttempts: true,
  waitMs: true,
  tenantId: true,
  expect: true,
  durable: true,
  reconcile: true,
  signal: true,
});

/** What the options of an effect must be, wherever they are given. */
export function checkEffectOptions(options: object): void {
  known(options, OPTIONS, "an effect");
}

/** What the function of an effect may want to pass on. */
export interface EffectLease {
  readonly scope: string;
  /** Pass it on to a provider that takes an idempotency key. */
  readonly key: string;
  readonly epoch: number;
  readonly attempt: number;
  /** Fires when the effect is no longer this caller's. */
  readonly signal: AbortSignal;
}

export type EffectFunction<T> = (signal: AbortSignal, effect: EffectLease) => T | Promise<T>;

/** An effect by its name, and on what terms it is begun. */
export class Terms {
  readonly key: string;
  readonly tenantId: string | undefined;
  readonly requestHash: string | undefined;
  readonly onLapse: "hold" | "retry";
  readonly leaseMs: number;
  readonly ttlMs: number | undefined;
  readonly maxAttempts: number | undefined;
  readonly waitMs: number;
  readonly durable: boolean;
  readonly expect: readonly Expected[] | undefined;

  /** Determines key and hash, from what was given and where it is asked for. */
  constructor(
    readonly scope: string,
    options: EffectOptions<never>,
    place: Place & { tenantId?: string | undefined },
  ) {
    checkEffectOptions(options);
    this.key = options.key ?? keyFor(scope, options.args, place);
    this.tenantId = options.tenantId ?? place.tenantId;
    this.requestHash = options.args === undefined ? undefined : requestHash(options.args);
    this.onLapse = options.onLapse ?? "hold";
    this.leaseMs = whole(options.leaseMs ?? EFFECT_LEASE_MS, "leaseMs", 1, LEASE_MS_MAX);
    this.ttlMs = options.ttlMs === undefined ? undefined : whole(options.ttlMs, "ttlMs", 1, DURATION_MS_MAX);
    this.maxAttempts = options.maxAttempts === undefined ? undefined : whole(options.maxAttempts, "maxAttempts", 1, ATTEMPTS_MAX);
    this.waitMs = whole(options.waitMs ?? EFFECT_WAIT_MS, "waitMs", 0, DURATION_MS_MAX);
    this.durable = options.durable === true;
    this.expect = options.expect === undefined ? undefined : Object.entries(options.expect).map(([entity, version]) => expected(entity, version));
  }
}

/** An entity, and the version that it must have. */
export interface Expected {
  readonly entity: string;
  readonly version: number;
}

/** Checks a version before it goes out. */
export function expected(entity: string, version: number): Expected {
  return { entity, version: whole(version, `expect.${entity}`, 0, Number.MAX_SAFE_INTEGER) };
}

function keyFor(scope: string, args: unknown, place: Place): string {
  const anchor = anchorOf(place);
  if (anchor) return derivedKey(anchor, args);
  throw new NoContext(`effect ${scope} needs a key: there is neither a message nor a run that one could be derived from`);
}
