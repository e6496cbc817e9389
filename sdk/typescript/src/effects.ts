import { callEffect } from "./ambient.js";
import { either, endsOf, signalled, type Ends } from "./ends.js";
import { EffectBusy, EffectExhausted, EffectFailed, EffectUncertain, ResultNotKept } from "./errors.js";
import { ending, happened, type Ending } from "./endings.js";
import { asLeaseLost, tell, Finish, type Finishes } from "./finishes.js";
import type { Ledger } from "./ledger.js";
import type { Finding } from "./outcomes.js";
import { uniqueId } from "./platform.js";
import { AttemptsExhausted, EffectFinished, EffectRunning, EffectUnknown, LimitReached, StaleLease } from "./refusals.js";
import { Renewal } from "./renewal.js";
import { carryingOut } from "./spans.js";
import type { EffectFunction, EffectLease, EffectOptions, EffectRecord, Terms } from "./terms.js";
import { clipped, reasonText } from "./texts.js";
import { monotonicMs, sleep } from "./time.js";
import { toCamel, type WireDecision, type WireOutcome } from "./wire.js";

/** How often an unknown outcome is reconciled in one call before it is left to people. */
const RECONCILE_ROUNDS_MAX = 3;
/** A wait at the server is cut into pieces, because a lease that it grants is counted from when the piece began. */
const WAIT_PIECE_MS = 5_000;
/** The longest pause before asking again for an effect that another holder is carrying out. */
const PAUSE_MS_MAX = 1_000;
/** The shortest one, whatever the server says. */
const PAUSE_MS_MIN = 20;

/** The result of a function that took longer is stored before the handler goes on: there it costs little, and more is at stake. */
const PROMPT_MS = 1_000;

/** On whose behalf an effect is run. */
export interface Behalf {
  readonly owner: string;
  readonly leaseToken?: string;
  readonly runId?: string | undefined;
  readonly stepId?: string | undefined;
  /** When the delivery is over. */
  readonly ends?: Ends;
  /** Takes endings that need not be waited for. */
  readonly finishes?: Finishes;
}

/** Begins, runs and finishes an effect; or replays it. */
export async function runEffect<T>(
  ledger: Ledger,
  terms: Terms,
  options: EffectOptions<T>,
  behalf: Behalf,
  run: EffectFunction<T>,
): Promise<T> {
  const ends = either(behalf.ends, endsOf(options.signal));
  if (behalf.finishes && behalf.finishes.count > 0) await behalf.finishes.of(terms);
  for (let round = 0; ; round += 1) {
    let decision: WireDecision;
    let askedAt = monotonicMs();
    try {
      decision = await ledger.begin(question(terms, behalf), askedAt, ends);
      if (decision.decision === "in_progress") ({ decision, askedAt } = await waited(ledger, terms, behalf, decision, askedAt, ends));
    } catch (error) {
      throw refusedBegin(error, terms, behalf);
    }
    switch (decision.decision) {
      case "execute": {
        const renewal = new Renewal(ledger.transport, decision.lease.token, terms.leaseMs, askedAt, ends);
        const result = execute(ledger, terms, decision.lease, renewal, behalf, run);
        return isThenable(result) ? await result : result;
      }
      case "replay":
        return replayed<T>(terms, decision.outcome);
      case "in_progress":
        throw new EffectBusy(terms.scope, terms.key, decision.retry_after_ms, terms);
      case "retryable":
        throw new EffectExhausted(terms.scope, terms.key, decision.outcome.error ?? "nothing", terms);
      case "unknown":
        if (round === RECONCILE_ROUNDS_MAX) throw uncertain(terms, `it was reconciled ${round} times, and is unknown again`);
        await reconciled(ledger, terms, behalf, options.reconcile);
    }
  }
}

function uncertain(terms: Terms, why: string): EffectUncertain {
  return new EffectUncertain(terms.scope, terms.key, why, terms);
}

/**
 * The question who carries it out, as JSON. Written by hand, because a worker asks it for every message; and joined,
 * because a text that is added up stays in as many pieces while it waits.
 */
function question(terms: Terms, behalf: Behalf): string {
  const parts = ['{"scope":', JSON.stringify(terms.scope), ',"key":', JSON.stringify(terms.key)];
  parts.push(terms.onLapse === "hold" ? ',"on_lapse":"hold","lease_ms":' : `,"on_lapse":${JSON.stringify(terms.onLapse)},"lease_ms":`, String(terms.leaseMs));
  if (terms.tenantId !== undefined) parts.push(',"tenant_id":', JSON.stringify(terms.tenantId));
  if (terms.requestHash !== undefined) parts.push(',"request_hash":"', terms.requestHash, '"');
  if (terms.ttlMs !== undefined) parts.push(',"ttl_ms":', String(terms.ttlMs));
  if (terms.maxAttempts !== undefined) parts.push(',"max_attempts":', String(terms.maxAttempts));
  if (terms.expect !== undefined) parts.push(',"expect":', JSON.stringify(terms.expect));
  if (behalf.leaseToken !== undefined) parts.push(',"lease_token":', JSON.stringify(behalf.leaseToken));
  else {
    if (behalf.runId !== undefined) parts.push(',"run_id":', JSON.stringify(behalf.runId));
    if (behalf.stepId !== undefined) parts.push(',"step_id":', JSON.stringify(behalf.stepId));
  }
  parts.push(',"reacquire":true,"request_id":"', uniqueId(), '","owner":', JSON.stringify(behalf.owner), "}");
  return parts.join("");
}

/** The error that the caller gets for a refusal to begin. */
function refusedBegin(error: unknown, terms: Terms, behalf: Behalf): unknown {
  if (error instanceof AttemptsExhausted) return new EffectExhausted(terms.scope, terms.key, error.detail, { ...terms, cause: error });
  return behalf.leaseToken === undefined ? error : asLeaseLost(error);
}

/** The server's last answer, and when that was asked for: the lease in it cannot have begun before. */
interface Waited {
  readonly decision: WireDecision;
  readonly askedAt: number;
}

/**
 * Waits, at the server, for the holder that is carrying it out. After an answer that comes too early it pauses before
 * it asks again.
 */
async function waited(
  ledger: Ledger,
  terms: Terms,
  behalf: Behalf,
  decision: WireDecision,
  askedAt: number,
  ends: Ends | undefined,
): Promise<Waited> {
  const until = askedAt + terms.waitMs;
  const longestMs = Math.min(WAIT_PIECE_MS, Math.max(PAUSE_MS_MIN, Math.floor(terms.leaseMs / 3)));
  for (let attaches = true; decision.decision === "in_progress"; ) {
    const now = monotonicMs();
    const pieceMs = Math.min(longestMs, Math.floor(until - now));
    if (pieceMs < 1) break;
    askedAt = now;
    try {
      decision = attaches
        ? await ledger.attach(question(terms, behalf), pieceMs, ends)
        : await ledger.begin(question(terms, behalf), askedAt, ends);
    } catch (error) {
      // Too many callers wait there already: this one waits here.
      if (!attaches || !(error instanceof LimitReached)) throw error;
      attaches = false;
    }
    if (decision.decision !== "in_progress") break;
    const answeredAt = monotonicMs();
    const early = !attaches || answeredAt < askedAt + pieceMs;
    if (early) await pause(pauseMs(decision.retry_after_ms, until - answeredAt), ends);
  }
  return { decision, askedAt };
}

function pause(ms: number, ends: Ends | undefined): Promise<void> {
  return signalled(ends, (signal) => sleep(ms, signal));
}

function pauseMs(retryAfterMs: number, leftMs: number): number {
  const pause = Math.max(PAUSE_MS_MIN, Math.min(retryAfterMs, PAUSE_MS_MAX)) * (0.5 + Math.random() / 2);
  return Math.max(0, Math.min(pause, leftMs));
}

/** Runs the function. Only where there is something to wait for is there a promise: each costs something in every call. */
function execute<T>(
  ledger: Ledger,
  terms: Terms,
  lease: { token: string; epoch: number; attempt: number },
  renewal: Renewal,
  behalf: Behalf,
  run: EffectFunction<T>,
): T | Promise<T> {
  const begunAt = monotonicMs();
  const succeeded = (result: T) => written(ledger, terms, lease.token, renewal, behalf, begunAt, result);
  let returned: T | Promise<T>;
  try {
    returned = carryingOut(terms.scope, lease.attempt, () => callEffect(run, new Held(terms, lease, renewal)));
  } catch (error) {
    return failed(ledger, terms, lease.token, renewal, error);
  }
  return isThenable(returned) ? awaited(ledger, terms, lease.token, renewal, returned, succeeded) : succeeded(returned);
}

/** Keeps the lease while the function waits for something. */
async function awaited<T>(
  ledger: Ledger,
  terms: Terms,
  token: string,
  renewal: Renewal,
  returned: Promise<T>,
  succeeded: (result: T) => T | Promise<T>,
): Promise<T> {
  let result: T;
  renewal.start();
  try {
    result = await returned;
  } catch (error) {
    return await failed(ledger, terms, token, renewal, error);
  } finally {
    renewal.stop();
  }
  return await succeeded(result);
}

/** Writes down that it happened, or leaves that to the commit of the message. */
function written<T>(ledger: Ledger, terms: Terms, token: string, renewal: Renewal, behalf: Behalf, begunAt: number, result: T): T | Promise<T> {
  const { finish: ending, value } = happened(result);
  const finish = new Finish(terms, token, ending, renewal.until);
  const now = monotonicMs();
  const rides = !terms.durable && renewal.isSecure(now) && now - begunAt <= PROMPT_MS;
  if (rides && behalf.finishes?.take(finish, now)) return value;
  return tell(ledger, finish, behalf.leaseToken !== undefined).then(() => value);
}

/** An effect that is this caller's to run, as its function sees it. */
class Held implements EffectLease {
  readonly scope: string;
  readonly key: string;
  readonly epoch: number;
  readonly attempt: number;
  readonly #renewal: Renewal;

  constructor({ scope, key }: Terms, { epoch, attempt }: { epoch: number; attempt: number }, renewal: Renewal) {
    this.scope = scope;
    this.key = key;
    this.epoch = epoch;
    this.attempt = attempt;
    this.#renewal = renewal;
  }

  get signal(): AbortSignal {
    return this.#renewal.signal;
  }
}

function isThenable<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === "function";
}

/** Records what an error of the function says about the effect, and throws what the caller is to get. */
async function failed(ledger: Ledger, terms: Terms, token: string, renewal: Renewal, error: unknown): Promise<never> {
  const end = ending(error, terms);
  // If the lease is over or nearly so, there is no need to give it up: its lapse says the same.
  if (end.release === "uncertain" && !renewal.isSecure(monotonicMs())) throw end.raise;
  try {
    if (end.release) await ledger.release(token, end.release === "uncertain");
    else if (end.finish) await finished(ledger, token, end.finish, renewal.until);
  } catch {
    // What cannot be recorded now is found out by the next attempt; what the function said matters more.
  }
  throw end.raise;
}

function finished(ledger: Ledger, token: string, ending: Ending, until: number): Promise<object> {
  return new Promise((answered, failed) => void ledger.finish(token, ending, until, { answered, failed }));
}

function replayed<T>(terms: Terms, outcome: WireOutcome): T {
  if (outcome.status !== "succeeded") throw new EffectFailed(terms.scope, terms.key, outcome.error ?? "no reason was given", true, terms);
  if (outcome.headers?.["x-driftq-result"] === "omitted") throw new ResultNotKept(terms.scope, terms.key, terms);
  if (outcome.body == null) return undefined as T;
  if (outcome.headers && outcome.headers["content-type"] !== "application/json") return outcome.body as T;
  try {
    return JSON.parse(outcome.body) as T;
  } catch {
    // It was finished or resolved by other means than an SDK, with a text that is not JSON.
    return outcome.body as T;
  }
}

/** Asks the reconcile function and writes down what it found. Afterwards the server is asked again. */
async function reconciled<T>(
  ledger: Ledger,
  terms: Terms,
  behalf: Behalf,
  reconcile: ((record: EffectRecord) => Finding<T> | Promise<Finding<T>>) | undefined,
): Promise<void> {
  if (!reconcile) throw uncertain(terms, "its last holder was not heard of again");
  const { transport } = ledger;
  const name = { tenant_id: terms.tenantId, scope: terms.scope, key: terms.key };
  try {
    const record = toCamel<EffectRecord>(await transport.call("POST", "/v2/effects/get", { body: name }));
    if (record.state !== "unknown") return;
    const finding = await reconcile(record);
    if (finding.found === "unknown") throw uncertain(terms, "the reconcile function cannot tell");
    if (finding.found === "not_done") mayRunAgain(terms, record);
    const body = { ...name, epoch: record.epoch, by: behalf.owner, why: "found out by the reconcile function", ...resolution(finding) };
    await transport.call("POST", "/v2/effects/resolve", { body });
  } catch (error) {
    // Another caller resolved it, its holder came back, or its time is over: what was said there counts, and begin
    // tells it.
    const quicker = error instanceof StaleLease || error instanceof EffectFinished || error instanceof EffectRunning || error instanceof EffectUnknown;
    if (!quicker) throw error;
  }
}

/** If it were resolved this way, the server would grant one more attempt: that is for people to decide. */
function mayRunAgain(terms: Terms, { attempt, maxAttempts }: EffectRecord): void {
  const cap = Math.max(terms.maxAttempts ?? 0, maxAttempts ?? 0);
  if (cap > 0 && attempt >= cap) throw new EffectExhausted(terms.scope, terms.key, "it was not heard of again, and did not happen", terms);
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
