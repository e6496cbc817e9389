import { within, type EffectScope } from "./ambient.js";
import { roleOf, type AwsCredentials, type AwsOptions } from "./aws.js";
import type { Asker } from "./collector.js";
import { mintCredential, type CredentialOptions } from "./credentials.js";
import type { Delivery } from "./delivery.js";
import { endsOf, type Ends } from "./ends.js";
import { runEffect, type Behalf } from "./effects.js";
import { DriftQError, LeaseLost, Refused } from "./errors.js";
import { finishText } from "./endings.js";
import { asLeaseLost, Finishes, type Unheard } from "./finishes.js";
import type { Ledger } from "./ledger.js";
import { followUpOptions, plainFollowUp, readTraceparent, traceOf, TRACE_LABEL, type Trace } from "./lineage.js";
import { encodeMessage, isJson, type Message, type Produced, type SendOptions } from "./message.js";
import { assume, CREDENTIAL_TTL_MS } from "./sts.js";
import { expected, Terms, type EffectFunction, type EffectOptions, type Expected } from "./terms.js";
import { BodyTooLarge } from "./refusals.js";
import { currentTrace } from "./spans.js";
import { monotonicMs } from "./time.js";
import { toCamel, toSnake } from "./wire.js";

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
  /** As JSON. */
  #produce: string[] | undefined;
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
  /** A JSON Web Token for a service, about this attempt: it ends with the lease at the latest. */
  credential(audience: string, options: CredentialOptions = {}): Promise<string> {
    return mintCredential(this.#ledger.transport, this.leaseToken, audience, options);
  }
  /**
   * Credentials of AWS for a role that trusts the server as its identity provider. They are good until their own `expiration`,
   * for 15 minutes at least, also if the lease ends before. Rejects with `StsRefused` and `StsUnanswered`.
   */
  async awsCredentials(roleArn: string, options: AwsOptions = {}): Promise<AwsCredentials> {
    const role = roleOf(roleArn, this, options);
    return assume(role, await this.credential(role.audience, { ttlMs: CREDENTIAL_TTL_MS }));
  }
  /** Fires with `LeaseLost`, `Cancelled`, `DeadlinePassed` or `TimedOut` as its reason. */
  get signal(): AbortSignal {
    return this.#delivery.signal;
  }
  get trace(): Trace {
    const given = this.labels[TRACE_LABEL];
    this.#trace ??= currentTrace(given === undefined ? undefined : readTraceparent(given)?.spanId) ?? traceOf(given);
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
      return this.#effect(new Terms(scope, options as EffectOptions<never>, this.message), options, run);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #effect<T>(terms: Terms, options: EffectOptions<T>, run: EffectFunction<T>): Promise<T> {
    this.#finishes ??= new Finishes(this.#ledger, this.#delivery);
    return runEffect(this.#ledger, terms, options, new OfMessage(this.#owner, this.#delivery, this.#finishes), run);
  }

  /** Collects a follow-up; it is stored with the ack, all or nothing. */
  send(topic: string, payload: unknown, options?: SendOptions): void {
    this.#mustBeOpen("send");
    const message =
      options === undefined && isJson(payload)
        ? plainFollowUp(this.message, this.trace, topic, payload)
        : JSON.stringify(encodeMessage(payload, followUpOptions(this.message, this.trace, topic, options ?? {})));
    this.#produce = collected(this.#produce, `{"topic":${JSON.stringify(topic)},"message":${message}}`);
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
    const until = monotonicMs() + this.#ledger.transport.patienceMs;
    const ends = endsOf(options.signal);
    return toCamel<Committed>(await new Promise<object>((answered, failed) => this.conclude(until, ends, false, { answered, failed })));
  }

  /**
   * @internal Acks the message with everything that was collected, and with the ends of its effects. `unread`: only that
   * it was done is of interest.
   */
  conclude(until: number, ends: Ends | undefined, unread: boolean, asker: Asker<object>): void {
    const delivery = this.#delivery;
    if (delivery.ended instanceof LeaseLost) {
      asker.failed(delivery.ended);
      return;
    }
    const finishes = this.#finishes;
    const riding = finishes?.withdraw() ?? [];
    const commit = new Conclusion(this, finishes, riding, until, ends, unread, asker);
    if (!finishes || riding.length === finishes.count) commit.go();
    else finishes.heard(riding, ends).then(() => commit.go(), (error: unknown) => commit.failed(error));
  }

  /** @internal */
  commitWith(riding: readonly Unheard[], until: number, ends: Ends | undefined, unread: boolean, asker: Asker<object>): void {
    this.#ledger.commit(this.#body(riding), until, ends, unread, asker);
  }

  #body(riding: readonly Unheard[]): string {
    let body = `{"ack":[${JSON.stringify(this.#delivery.token)}]`;
    if (riding.length > 0) body += `,"effects":[${riding.map(({ finish }) => finishText(finish.token, finish.ending)).join()}]`;
    if (this.#produce) body += `,"produce":[${this.#produce.join()}]`;
    if (this.#outputs) body += `,"outputs":${JSON.stringify(this.#outputs.map((output) => toSnake<object>(output)))}`;
    if (this.#reads) body += `,"reads":${JSON.stringify(this.#reads)}`;
    if (this.#expect) body += `,"expect":${JSON.stringify(this.#expect)}`;
    // Whose entities and datasets these are; for anything else it does not matter.
    const named = this.#expect ?? this.#outputs ?? this.#reads;
    if (named && this.tenantId !== undefined) body += `,"tenant_id":${JSON.stringify(this.tenantId)}`;
    return `${body}}`;
  }

  /** @internal The message is acked. */
  committed(): void {
    this.#delivery.settled = true;
    this.#produce = this.#outputs = this.#reads = this.#expect = undefined;
  }

  /** @internal The error of the delivery that a refused commit stands for. */
  lost(error: unknown): unknown {
    const raised = asLeaseLost(error);
    if (raised !== error) this.#delivery.end(raised as LeaseLost);
    return raised;
  }

  /** Whether the ack has to be a commit, or to wait for one. */
  get collected(): boolean {
    return (this.#produce ?? this.#outputs ?? this.#reads ?? this.#expect) !== undefined || this.unheard;
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

/** A message, as effects are run on its behalf. */
class OfMessage implements Behalf {
  constructor(
    readonly owner: string,
    readonly ends: Delivery,
    readonly finishes: Finishes,
  ) {}

  get leaseToken(): string {
    return this.ends.token;
  }
}

/** A commit of a message that is under way. */
class Conclusion implements Asker<object> {
  constructor(
    private readonly context: Context,
    private readonly finishes: Finishes | undefined,
    private riding: readonly Unheard[],
    private readonly until: number,
    private readonly ends: Ends | undefined,
    private readonly unread: boolean,
    private readonly asker: Asker<object>,
  ) {}

  go(): void {
    try {
      this.context.commitWith(this.riding, this.until, this.ends, this.unread, this);
    } catch (error) {
      this.failed(error);
    }
  }

  answered(committed: object): void {
    this.context.committed();
    this.finishes?.rode(this.riding);
    this.asker.answered(committed);
  }

  /** It is the follow-ups that have no room for now. The ends of effects need none, and do not wait for them. */
  putOff(): void {
    this.finishes?.send(this.riding);
  }

  failed(error: unknown): void {
    // Nothing of it happened, but the effects did.
    const { finishes, riding } = this;
    finishes?.send(riding);
    this.riding = [];
    if (!finishes || riding.length === 0 || !isOfEffects(error)) {
      this.asker.failed(this.context.lost(error));
      return;
    }
    finishes.heard([], this.ends).then(
      () => this.go(),
      (unheard: unknown) => this.asker.failed(this.context.lost(unheard)),
    );
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
