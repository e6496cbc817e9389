import { within, type EffectScope } from "./ambient.js";
import type { Delivery } from "./delivery.js";
import { endsOf, type Ends } from "./ends.js";
import { runEffect } from "./effects.js";
import { DriftQError, LeaseLost, Refused } from "./errors.js";
import { asLeaseLost, Finishes } from "./finishes.js";
import type { Ledger } from "./ledger.js";
import { followUpOptions, traceOf, TRACE_LABEL, type Trace } from "./lineage.js";
import { encodeMessage, type Message, type Produced, type SendOptions } from "./message.js";
import { expected, termsOf, type EffectFunction, type EffectOptions, type Expected, type Terms } from "./terms.js";
import { BodyTooLarge } from "./refusals.js";
import { monotonicMs } from "./time.js";
import { toCamel, toSnake, type WireCommit, type WireMessage } from "./wire.js";

/** The most messages, and the most outputs, of one commit. */
const COMMIT_ITEMS_MAX = 1_000;

/** A pointer to a result that lies elsewhere. */
export interface Output {
  dataset: string;
  version: string;
  partitionKey: string;
  mode: "replace" | "append";
  location: string;
  digest: string;
  /** Required with `append`: the same key again is a duplicate. */
  dedupeKey?: string;
}

export interface Committed {
  /** Whether this very commit had been made before. */
  readonly result: "committed" | "already_committed";
  readonly produced: readonly Produced[];
  readonly outputs: readonly { readonly result: "replaced" | "appended" | "duplicate"; readonly location: string }[];
}

/** What a handler knows about its message, and what it can do on its behalf. */
export class Context implements EffectScope {
  readonly #delivery: Delivery;
  readonly #ledger: Ledger;
  readonly #owner: string;
  #produce: { topic: string; message: WireMessage }[] | undefined;
  #outputs: Output[] | undefined;
  #reads: { dataset: string; version: string }[] | undefined;
  #expect: Expected[] | undefined;
  #trace: Trace | undefined;
  #finishes: Finishes | undefined;

  constructor(delivery: Delivery, ledger: Ledger, owner: string) {
    this.#delivery = delivery;
    this.#ledger = ledger;
    this.#owner = owner;
  }

  /** The message as it came. */
  get message(): Message {
    return this.#delivery.message;
  }
  get topic(): string {
    return this.message.topic;
  }
  get partition(): number {
    return this.message.partition;
  }
  get offset(): number {
    return this.message.offset;
  }
  get key(): string | undefined {
    return this.message.key;
  }
  /** 1 for the first one. */
  get attempt(): number {
    return this.#delivery.attempt;
  }
  get lastError(): string | undefined {
    return this.message.lastError;
  }
  get runId(): string | undefined {
    return this.message.runId;
  }
  get stepId(): string | undefined {
    return this.message.stepId;
  }
  get parentStepId(): string | undefined {
    return this.message.parentStepId;
  }
  get tenantId(): string | undefined {
    return this.message.tenantId;
  }
  get labels(): Readonly<Record<string, string>> {
    return this.message.labels;
  }
  get idempotencyKey(): string | undefined {
    return this.message.idempotencyKey;
  }
  get deadline(): Date | undefined {
    return this.message.deadline;
  }
  /** The token of the delivery, for calls that this SDK does not have. */
  get leaseToken(): string {
    return this.#delivery.token;
  }
  /** Fires with `LeaseLost`, `Cancelled`, `DeadlinePassed` or `TimedOut` as its reason. */
  get signal(): AbortSignal {
    return this.#delivery.signal;
  }
  get trace(): Trace {
    this.#trace ??= traceOf(this.labels[TRACE_LABEL]);
    return this.#trace;
  }

  /**
   * Runs the function once over all attempts, and gives what it returned to each of them. It may return before that is
   * stored: the message is acked together with it, or afterwards, and never before.
   */
  effect<T>(scope: string, options: EffectOptions<T>, run: EffectFunction<T>): Promise<T>;
  effect<T>(scope: string, run: EffectFunction<T>): Promise<T>;
  effect<T>(scope: string, optionsOrRun: EffectOptions<T> | EffectFunction<T>, maybeRun?: EffectFunction<T>): Promise<T> {
    try {
      const [options, run] = effectArguments(optionsOrRun, maybeRun);
      return this.#effect(termsOf(scope, options as EffectOptions<never>, this.message), options, run);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #effect<T>(terms: Terms, options: EffectOptions<T>, run: EffectFunction<T>): Promise<T> {
    this.#finishes ??= new Finishes(this.#ledger, this.#delivery);
    const behalf = { owner: this.#owner, leaseToken: this.#delivery.token, ends: this.#delivery, finishes: this.#finishes };
    return runEffect(this.#ledger, terms, options, behalf, run);
  }

  /** Collects a follow-up; it is stored with the ack, all or nothing. */
  send(topic: string, payload: unknown, options: SendOptions = {}): void {
    this.#mustBeOpen("send");
    const message = encodeMessage(payload, followUpOptions(this.message, this.trace, topic, options));
    this.#produce = collected(this.#produce, { topic, message });
  }

  /** Collects a pointer to a result; it is stored with the ack, all or nothing. */
  output(output: Output): void {
    this.#mustBeOpen("output");
    this.#outputs = collected(this.#outputs, output);
  }

  /** Notes, together with the ack, which version of a dataset this work has read: the run shows it. */
  readVersion(dataset: string, version: string): void {
    this.#mustBeOpen("readVersion");
    this.#reads = collected(this.#reads, { dataset, version });
  }

  /**
   * The commit of this message is done only if the entity, of the message's tenant, has this version; it is raised by one
   * together with the ack. Otherwise nothing of the commit happens, and it is `PreconditionFailed`.
   */
  expect(entity: string, version: number): void {
    this.#mustBeOpen("expect");
    if (this.#expect?.some((known) => known.entity === entity)) throw new TypeError(`a version of ${entity} is expected already`);
    this.#expect = collected(this.#expect, expected(entity, version));
  }

  /**
   * Acks the message now, together with everything that was collected. The handler's return settles nothing more. The
   * signal ends the wait for the answer, and the commit may have been heard all the same.
   */
  async commit(options: { signal?: AbortSignal } = {}): Promise<Committed> {
    this.#mustBeOpen("commit");
    return toCamel<Committed>(await this.conclude(monotonicMs() + this.#ledger.transport.patienceMs, endsOf(options.signal)));
  }

  /** @internal Acks the message with everything that was collected, and with the ends of its effects. */
  async conclude(until: number, ends: Ends | undefined): Promise<object> {
    const delivery = this.#delivery;
    if (delivery.ended instanceof LeaseLost) throw delivery.ended;
    const finishes = this.#finishes;
    const riding = finishes?.withdraw() ?? [];
    try {
      if (finishes && riding.length < finishes.count) await finishes.heard(riding, ends);
      const body = this.#body(riding.map(({ finish }) => ({ token: finish.token, ...finish.ending })));
      // It is the follow-ups that have no room for now. The ends of effects need none, and do not wait for them.
      const committed = await this.#ledger.commit(body, until, ends, () => finishes?.send(riding));
      this.#committed();
      finishes?.rode(riding);
      return committed;
    } catch (error) {
      // Nothing of it happened, but the effects did.
      finishes?.send(riding);
      if (riding.length === 0 || !isOfEffects(error)) throw this.#lost(error);
    }
    try {
      await finishes?.heard([], ends);
      const committed = await this.#ledger.commit(this.#body([]), until, ends, () => undefined);
      this.#committed();
      return committed;
    } catch (error) {
      throw this.#lost(error);
    }
  }

  #body(effects: object[]): WireCommit {
    const body: WireCommit = { ack: [this.#delivery.token] };
    if (effects.length > 0) body.effects = effects;
    if (this.#produce) body.produce = this.#produce;
    if (this.#outputs) body.outputs = this.#outputs.map((output) => toSnake<object>(output));
    if (this.#reads) body.reads = this.#reads;
    if (this.#expect) body.expect = this.#expect;
    // Whose entities and datasets these are; for anything else it does not matter.
    const named = this.#expect ?? this.#outputs ?? this.#reads;
    if (named && this.tenantId !== undefined) body.tenant_id = this.tenantId;
    return body;
  }

  #committed(): void {
    this.#delivery.settled = true;
    this.#produce = this.#outputs = this.#reads = this.#expect = undefined;
  }

  #lost(error: unknown): unknown {
    const raised = asLeaseLost(error);
    if (raised !== error) this.#delivery.end(raised as LeaseLost);
    return raised;
  }

  /** Whether the ack has to be a commit, or to wait for one. */
  get collected(): boolean {
    const lists = [this.#produce, this.#outputs, this.#reads, this.#expect];
    return lists.some((list) => list !== undefined) || this.unheard;
  }

  /** Whether there are effects whose end the server has not heard of. */
  get unheard(): boolean {
    return this.#finishes !== undefined && this.#finishes.count > 0;
  }

  /** Ends when the server has heard how the effects ended; rejects if it refuses to hear of one. */
  async heard(ends: Ends): Promise<void> {
    await this.#finishes?.heard([], ends);
  }

  /** The handler has ended, or was left behind. What it still does is not waited for. */
  close(): void {
    this.#finishes?.close();
  }

  /**
   * Runs a function in which guarded functions belong to this message. Handlers of single messages are run this way.
   */
  run<R>(run: () => R): R {
    return within(this, run);
  }

  #mustBeOpen(what: string): void {
    if (this.#delivery.settled) throw new DriftQError(`${what} came too late: the message is settled`);
  }
}

function collected<T>(list: T[] | undefined, item: T): T[] {
  if (!list) return [item];
  if (list.length >= COMMIT_ITEMS_MAX) throw new DriftQError(`a commit has room for ${COMMIT_ITEMS_MAX} items`);
  list.push(item);
  return list;
}

/** Whether a commit was refused because of the effects in it. */
function isOfEffects(error: unknown): boolean {
  return error instanceof BodyTooLarge || (error instanceof Refused && error.part?.startsWith("effects") === true);
}

/** The options of an effect may be left out. */
export function effectArguments<T>(
  optionsOrRun: EffectOptions<T> | EffectFunction<T>,
  maybeRun: EffectFunction<T> | undefined,
): [EffectOptions<T>, EffectFunction<T>] {
  if (typeof optionsOrRun === "function") return [{}, optionsOrRun];
  if (!maybeRun) throw new TypeError("effect needs the function that it is to run");
  return [optionsOrRun, maybeRun];
}
