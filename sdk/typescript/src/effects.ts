import {
  EffectBusy,
  EffectExhausted,
  EffectFailed,
  EffectUncertain,
  LeaseLost,
  ResultNotKept,
} from "./errors.js";
import { ending, happened, OMITTED, type Ending } from "./endings.js";
import type { Finding } from "./outcomes.js";
import { randomHex } from "./platform.js";
import { BodyTooLarge, EffectFinished, EffectRunning, LeaseUnknown, ResultTooLarge, StaleLease } from "./refusals.js";
import { Renewal } from "./renewal.js";
import type { EffectFunction, EffectLease, EffectOptions, EffectRecord, Terms } from "./terms.js";
import { WAIT_MS_MAX } from "./terms.js";
import { clipped, reasonText } from "./texts.js";
import { monotonicMs } from "./time.js";
import { isStrange, mayPass, type Transport } from "./transport.js";
import { toCamel, type WireDecision, type WireOutcome } from "./wire.js";

/** How often an effect that somebody else resolves or takes at the same time is begun anew. */
const ROUNDS_MAX = 8;

/** On whose behalf an effect is run. */
export interface Behalf {
  readonly owner: string;
  readonly leaseToken?: string;
  readonly runId?: string | undefined;
  readonly stepId?: string | undefined;
  /** Fires when the delivery is over. */
  readonly signal?: AbortSignal | undefined;
}

/** Begins, runs and finishes an effect; or replays it. */
export async function runEffect<T>(
  transport: Transport,
  terms: Terms,
  options: EffectOptions<T>,
  behalf: Behalf,
  run: EffectFunction<T>,
): Promise<T> {
  const signal = anySignal(behalf.signal, options.signal);
  try {
    for (let round = 0; round < ROUNDS_MAX; round += 1) {
      const decision = await begin(transport, terms, behalf, signal.signal);
      switch (decision.decision) {
        case "execute":
          return await execute(transport, terms, decision.lease, signal.signal, run);
        case "replay":
          return replayed<T>(terms, decision.outcome);
        case "in_progress":
          throw new EffectBusy(terms.scope, terms.key, decision.retry_after_ms);
        case "retryable":
          throw new EffectExhausted(terms.scope, terms.key, decision.outcome.error ?? "nothing");
        case "unknown":
          await reconciled(transport, terms, behalf, options.reconcile);
      }
    }
  } finally {
    signal.release();
  }
  throw new EffectUncertain(terms.scope, terms.key, `it was resolved and became unknown again ${ROUNDS_MAX} times`);
}

async function begin(transport: Transport, terms: Terms, behalf: Behalf, signal: AbortSignal | undefined): Promise<WireDecision> {
  const until = monotonicMs() + terms.waitMs;
  for (;;) {
    const waitMs = Math.max(0, Math.min(WAIT_MS_MAX, Math.round(until - monotonicMs())));
    const body = {
      scope: terms.scope,
      key: terms.key,
      tenant_id: terms.tenantId,
      request_hash: terms.requestHash,
      on_lapse: terms.onLapse,
      lease_ms: terms.leaseMs,
      ttl_ms: terms.ttlMs,
      max_attempts: terms.maxAttempts,
      reacquire: true,
      wait_ms: waitMs,
      lease_token: behalf.leaseToken,
      run_id: behalf.leaseToken === undefined ? behalf.runId : undefined,
      step_id: behalf.leaseToken === undefined ? behalf.stepId : undefined,
      request_id: randomHex(16),
      owner: behalf.owner,
    };
    const decision = await transport
      .call<WireDecision>("POST", "/v2/effects/begin", { body, waitMs, signal })
      .catch((error: unknown) => Promise.reject(behalf.leaseToken === undefined ? error : asLeaseLost(error)));
    if (decision.decision !== "in_progress" || until - monotonicMs() < 1) return decision;
  }
}

async function execute<T>(
  transport: Transport,
  terms: Terms,
  lease: { token: string; epoch: number; attempt: number },
  signal: AbortSignal | undefined,
  run: EffectFunction<T>,
): Promise<T> {
  const renewal = new Renewal(transport, lease.token, terms.leaseMs, signal);
  const effect: EffectLease = { scope: terms.scope, key: terms.key, epoch: lease.epoch, attempt: lease.attempt };
  let result: T;
  try {
    result = await run(renewal.signal, effect);
  } catch (error) {
    const end = ending(error, terms);
    // What cannot be recorded now is found out by the next attempt; what the function said matters more.
    if (end.finish) await finish(transport, lease.token, end.finish, renewal.until).catch(() => undefined);
    throw end.raise;
  } finally {
    renewal.stop();
  }
  const success = happened(result);
  await recordSuccess(transport, terms, lease.token, success.finish, renewal.until);
  return success.value;
}

async function recordSuccess(transport: Transport, terms: Terms, token: string, body: Ending, until: number): Promise<void> {
  try {
    await finish(transport, token, body, until);
  } catch (error) {
    const tooLarge = error instanceof ResultTooLarge || error instanceof BodyTooLarge;
    if (tooLarge && body !== OMITTED) return recordSuccess(transport, terms, token, OMITTED, until);
    if (mayPass(error) || isStrange(error)) {
      throw new EffectUncertain(terms.scope, terms.key, "it happened here, and the server did not hear of it in time", { cause: error });
    }
    throw asLeaseLost(error);
  }
}

/** Repeated until it is heard, or the effect's lease is over; once at the least. */
async function finish(transport: Transport, token: string, body: Ending, until: number): Promise<void> {
  const patienceMs = Math.max(0, until - monotonicMs());
  await transport.call("POST", "/v2/effects/finish", { body: { token, ...body }, patienceMs });
}

function replayed<T>(terms: Terms, outcome: WireOutcome): T {
  if (outcome.status !== "succeeded") throw new EffectFailed(terms.scope, terms.key, outcome.error ?? "no reason was given", true);
  if (outcome.headers?.["x-driftq-result"] === "omitted") throw new ResultNotKept(terms.scope, terms.key);
  if (outcome.body == null) return undefined as T;
  if (outcome.headers && outcome.headers["content-type"] !== "application/json") return outcome.body as T;
  try {
    return JSON.parse(outcome.body) as T;
  } catch {
    // Somebody else finished or resolved it with a text of their own.
    return outcome.body as T;
  }
}

async function reconciled<T>(
  transport: Transport,
  terms: Terms,
  behalf: Behalf,
  reconcile: ((record: EffectRecord) => Finding<T> | Promise<Finding<T>>) | undefined,
): Promise<void> {
  if (!reconcile) throw new EffectUncertain(terms.scope, terms.key, "whoever ran it was not heard of again");
  const name = { tenant_id: terms.tenantId, scope: terms.scope, key: terms.key };
  const record = toCamel<EffectRecord>(await transport.call("POST", "/v2/effects/get", { body: name }));
  if (record.state !== "unknown") return;
  const finding = await reconcile(record);
  if (finding.found === "unknown") throw new EffectUncertain(terms.scope, terms.key, "the reconcile function cannot tell");
  const body = { ...name, epoch: record.epoch, by: behalf.owner, why: "found out by the reconcile function", ...resolution(finding) };
  try {
    await transport.call("POST", "/v2/effects/resolve", { body });
  } catch (error) {
    // Somebody else resolved it, or its holder came back: what they said counts, and begin tells it.
    if (!(error instanceof StaleLease || error instanceof EffectFinished || error instanceof EffectRunning)) throw error;
  }
}

function resolution(finding: Exclude<Finding<unknown>, { found: "unknown" }>): Ending {
  switch (finding.found) {
    case "succeeded":
      return happened(finding.value).finish;
    case "failed":
      return { status: "failed_final", error: clipped(reasonText(finding.reason)) };
    case "not_done":
      return { status: "failed_retryable", error: "it did not happen" };
  }
}

/** The server's word for it in the word of a delivery. */
export function asLeaseLost(error: unknown): unknown {
  if (!(error instanceof StaleLease || error instanceof LeaseUnknown)) return error;
  return new LeaseLost(`the lease is lost: ${error.detail}. Give this attempt up`, { cause: error });
}

/** Fires when one of both does. Unlike AbortSignal.any it can be let go of, so that a long-lived signal keeps no trace. */
function anySignal(one: AbortSignal | undefined, other: AbortSignal | undefined): { signal: AbortSignal | undefined; release: () => void } {
  if (!one || !other) return { signal: one ?? other, release: () => undefined };
  const controller = new AbortController();
  const sources = [one, other];
  const listeners = sources.map((source) => () => controller.abort(source.reason));
  sources.forEach((source, index) => {
    if (source.aborted) controller.abort(source.reason);
    else source.addEventListener("abort", listeners[index]!, { once: true });
  });
  const release = () => sources.forEach((source, index) => source.removeEventListener("abort", listeners[index]!));
  return { signal: controller.signal, release };
}
