import { within, type EffectScope } from "./ambient.js";
import type { Delivery } from "./delivery.js";
import { asLeaseLost, runEffect } from "./effects.js";
import { DriftQError, LeaseLost } from "./errors.js";
import { followUpOptions, traceOf, TRACE_LABEL, type Trace } from "./lineage.js";
import { encodeMessage, type Message, type Produced, type SendOptions } from "./message.js";
import { termsOf, type EffectFunction, type EffectOptions } from "./terms.js";
import type { Transport } from "./transport.js";
import { toCamel, toSnake, type WireMessage } from "./wire.js";

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
  /** Whether this very commit had been there before. */
  readonly result: "committed" | "already_committed";
  readonly produced: readonly Produced[];
  readonly outputs: readonly { readonly result: "replaced" | "appended" | "duplicate"; readonly location: string }[];
}

/** What a handler knows about its message, and what it can do on its behalf. */
export class Context implements EffectScope {
  readonly #delivery: Delivery;
  readonly #transport: Transport;
  readonly #owner: string;
  #produce: { topic: string; message: WireMessage }[] | undefined;
  #outputs: Output[] | undefined;
  #trace: Trace | undefined;

  constructor(delivery: Delivery, transport: Transport, owner: string) {
    this.#delivery = delivery;
    this.#transport = transport;
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

  /** Runs the function once over all attempts, and gives what it returned to each of them. */
  effect<T>(scope: string, options: EffectOptions<T>, run: EffectFunction<T>): Promise<T>;
  effect<T>(scope: string, run: EffectFunction<T>): Promise<T>;
  async effect<T>(scope: string, optionsOrRun: EffectOptions<T> | EffectFunction<T>, maybeRun?: EffectFunction<T>): Promise<T> {
    const [options, run] = effectArguments(optionsOrRun, maybeRun);
    const terms = termsOf(scope, options as EffectOptions<never>, this.message);
    const behalf = { owner: this.#owner, leaseToken: this.#delivery.token, signal: this.signal };
    return runEffect(this.#transport, terms, options, behalf, run);
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

  /**
   * Acks the message now, together with everything that was collected. The handler's return settles nothing more. The
   * signal ends the wait for the answer, and the commit may have been heard all the same.
   */
  async commit(options: { signal?: AbortSignal } = {}): Promise<Committed> {
    this.#mustBeOpen("commit");
    const delivery = this.#delivery;
    if (delivery.ended instanceof LeaseLost) throw delivery.ended;
    try {
      const body = { ack: [delivery.token], produce: this.#produce, outputs: this.#outputs?.map((output) => toSnake(output)) };
      const committed = await this.#transport.call("POST", "/v2/commit", { body, signal: options.signal });
      delivery.settled = true;
      this.#produce = this.#outputs = undefined;
      return toCamel<Committed>(committed);
    } catch (error) {
      const raised = asLeaseLost(error);
      if (raised instanceof LeaseLost) delivery.end(raised);
      throw raised;
    }
  }

  /** Whether the ack has to be a commit. */
  get collected(): boolean {
    return this.#produce !== undefined || this.#outputs !== undefined;
  }

  /** Runs a function in which guarded functions belong to this message. Handlers of single messages are run so. */
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

/** The options of an effect may be left out. */
export function effectArguments<T>(
  optionsOrRun: EffectOptions<T> | EffectFunction<T>,
  maybeRun: EffectFunction<T> | undefined,
): [EffectOptions<T>, EffectFunction<T>] {
  if (typeof optionsOrRun === "function") return [{}, optionsOrRun];
  if (!maybeRun) throw new TypeError("effect needs the function that it is to run");
  return [optionsOrRun, maybeRun];
}
