import { currentScope, within, type EffectScope } from "./ambient.js";
import { effectArguments } from "./context.js";
import { mintCredential, type CredentialOptions, type Introspected } from "./credentials.js";
import { runEffect } from "./effects.js";
import { Ledger } from "./ledger.js";
import { known, names } from "./limits.js";
import { byDefault, byFetch, type Send } from "./exchange.js";
import { encodeMessage, exact, withKey, type Produced, type SendOptions } from "./message.js";
import { defaultOwner, environment } from "./platform.js";
import { Producer, type ProducerOptions } from "./producer.js";
import { Terms, type EffectFunction, type EffectOptions } from "./terms.js";
import { Admin } from "./admin.js";
import { Transport, type CallOptions, type Method } from "./transport.js";
import { path } from "./wire.js";
import type { WorkerOptions } from "./settings.js";
import { withTrace } from "./spans.js";
import { Worker } from "./worker.js";

export interface ClientOptions {
  /**
   * Where the server is; else `DRIFTQ_SERVER`, else `http://127.0.0.1:8080`. Several servers of one cluster are named with
   * commas between them, at most 16: calls go to the one that serves, and to another one when that is away. A call, and its
   * key, goes to no server that is not named here.
   */
  url?: string;
  /** Shown to a server that asks for one; else `DRIFTQ_KEY`. */
  key?: string;
  /** How long a call that may succeed later is repeated. */
  patienceMs?: number;
  connectTimeoutMs?: number;
  /** How long to wait for an answer, besides what the server was asked to wait. */
  answerTimeoutMs?: number;
  /** The name of this client, for people who look; made up if not given. */
  owner?: string;
  /** Goes by this fetch: for tests, behind a proxy, or in a runtime that has its own. */
  fetch?: typeof fetch;
  /** Another way to reach the server; on Node it is `byNodeHttp` of `driftq/node` unless given, elsewhere fetch. */
  send?: Send;
  /** Told at once when a call finds no server and is repeated; prints to standard error unless given. */
  onAway?: (words: string) => void;
}

const CLIENT_OPTIONS = names<ClientOptions>({
  url: true,
  key: true,
  patienceMs: true,
  connectTimeoutMs: true,
  answerTimeoutMs: true,
  owner: true,
  fetch: true,
  send: true,
  onAway: true,
});

const URL_DEFAULT = "http://127.0.0.1:8080";
const PATIENCE_MS = 30_000;
const CONNECT_TIMEOUT_MS = 5_000;
const ANSWER_TIMEOUT_MS = 30_000;

/** The run to which the effects of a piece of work belong. */
export interface RunOptions {
  step?: string;
  tenantId?: string;
}
const RUN_OPTIONS = names<RunOptions>({ step: true, tenantId: true });

/** A DriftQ server, or a cluster of them. Connects when it is first used. */
export class Client implements EffectScope {
  readonly owner: string;
  readonly transport: Transport;
  /** @internal */
  readonly ledger: Ledger;
  /** Topics, groups, messages, effects, runs and dead letters, to look at and to manage. */
  readonly admin: Admin;

  constructor(options: ClientOptions | string = {}) {
    const given = typeof options === "string" ? { url: options } : options;
    known(given, CLIENT_OPTIONS, "a client");
    this.owner = given.owner ?? defaultOwner();
    this.transport = new Transport({
      url: given.url ?? environment("DRIFTQ_SERVER") ?? URL_DEFAULT,
      key: checkedKey(given.key ?? environment("DRIFTQ_KEY")),
      connectTimeoutMs: given.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
      answerTimeoutMs: given.answerTimeoutMs ?? ANSWER_TIMEOUT_MS,
      patienceMs: given.patienceMs ?? PATIENCE_MS,
      send: given.send ?? (given.fetch ? byFetch(given.fetch) : byDefault()),
      onAway: given.onAway ?? ((words) => console.error(`driftq: ${words}`)),
    });
    this.ledger = new Ledger(this.transport);
    this.admin = new Admin(this.transport);
  }

  /** Where the server is; of several servers all, with commas between them. */
  get url(): string {
    return this.transport.url;
  }

  /** Any call of `/v2`, with the time-outs, repeats and errors of all the others; names are those of the wire. */
  call<T = unknown>(method: Method, target: string, options?: CallOptions): Promise<T> {
    return this.transport.call<T>(method, target, options);
  }

  /** Stores one message. Safe to repeat: one without an idempotency key gets one. */
  async send(topic: string, payload: unknown, options: SendOptions = {}): Promise<Produced> {
    const message = withTrace(withKey(encodeMessage(payload, options)));
    const produced = await this.transport.call<Produced>("POST", path`/v2/topics/${topic}/messages`, { body: message });
    exact(produced.offset, "offset");
    return produced;
  }

  /** A JSON Web Token for a service, about the delivery that `token` is the lease of. It ends with the lease at the latest. */
  async credential(token: string, audience: string, options: CredentialOptions = {}): Promise<string> {
    return mintCredential(this.transport, token, audience, options);
  }

  /** Whether a credential is still good, and what it says if so. */
  introspect(credential: string): Promise<Introspected> {
    return this.transport.call<Introspected>("POST", "/v2/introspect", { body: { token: credential } });
  }

  /** Sends in the background, many messages with one call. */
  producer(options?: ProducerOptions): Producer {
    return new Producer(this.transport, options);
  }

  worker(group: string, options?: WorkerOptions): Worker {
    return new Worker(this, group, options);
  }

  /**
   * Runs the function once, and gives what it returned to every caller that asks for the same effect. Without a message
   * it needs a key, unless it is called within `run`.
   */
  effect<T>(scope: string, options: EffectOptions<T>, run: EffectFunction<T>): Promise<T>;
  effect<T>(scope: string, run: EffectFunction<T>): Promise<T>;
  async effect<T>(scope: string, optionsOrRun: EffectOptions<T> | EffectFunction<T>, maybeRun?: EffectFunction<T>): Promise<T> {
    const [options, run] = effectArguments(optionsOrRun, maybeRun);
    const outer = currentScope();
    if (outer instanceof Run && outer.client === this) return outer.effect(scope, options, run);
    const terms = new Terms(scope, options as EffectOptions<never>, {});
    return runEffect(this.ledger, terms, options, { owner: this.owner }, run);
  }

  /** Names the run, and the step if there is one, of everything that the function does. */
  async run<R>(runId: string, options: RunOptions, run: (context: Run) => R | Promise<R>): Promise<R> {
    known(options, RUN_OPTIONS, "a run");
    const context = new Run(this, runId, options.step, options.tenantId);
    return within(context, () => run(context));
  }
}

/** A run that was named: effects within it belong to it, and derive their keys from it. */
export class Run implements EffectScope {
  constructor(
    readonly client: Client,
    readonly runId: string,
    readonly stepId: string | undefined,
    readonly tenantId: string | undefined,
  ) {}

  effect<T>(scope: string, options: EffectOptions<T>, run: EffectFunction<T>): Promise<T>;
  effect<T>(scope: string, run: EffectFunction<T>): Promise<T>;
  async effect<T>(scope: string, optionsOrRun: EffectOptions<T> | EffectFunction<T>, maybeRun?: EffectFunction<T>): Promise<T> {
    const [options, run] = effectArguments(optionsOrRun, maybeRun);
    const terms = new Terms(scope, options as EffectOptions<never>, this);
    const behalf = { owner: this.client.owner, runId: this.runId, stepId: this.stepId };
    return runEffect(this.client.ledger, terms, options, behalf, run);
  }
}

/** A key that a header can carry. What it was is not repeated in the error: it may be the secret of something else. */
function checkedKey(key: string | undefined): string | undefined {
  const shown = key?.trim();
  if (!shown) return undefined;
  if (!/^dq_[!-~]+$/.test(shown)) throw new TypeError("the key, or DRIFTQ_KEY, is not dq_, an id, _ and a secret");
  return shown;
}
