import { Beats } from "./beats.js";
import type { Client } from "./client.js";
import { Cancelled, DriftQError, HandlersStuck } from "./errors.js";
import { printEvent, type WorkerEventListener, type WorkerEvent } from "./events.js";
import { BATCH_OPTIONS, HANDLER_OPTIONS, type BatchHandler, type BatchOptions, type Handler, type HandlerOptions, type Route } from "./handler.js";
import { Lanes } from "./lanes.js";
import { callable, CONCURRENCY_MAX, known, LEASE_MAX, names, TIMER_MS_MAX, whole } from "./limits.js";
import { ENCODINGS } from "./payload.js";
import { endBySignal, hasListeners, onStopSignal } from "./platform.js";
import { namingTopic } from "./refusals.js";
import { boundsOf, settingsOf, type Settings, type WorkerOptions } from "./settings.js";
import { Settler } from "./settler.js";
import { sleep } from "./time.js";
import { path } from "./wire.js";

/** How long a worker whose handlers have ended tries to tell the server so. */
const SETTLE_TIMEOUT_MS = 5_000;
/** Added to the grace period: a busy process may be late to see that it is over. */
const CANCEL_SLACK_MS = 1_000;
/** The most handlers that may go on after they were left behind. */
export const LEFT_BEHIND_MAX = 100;

export interface WorkerRunOptions {
  /** Whether SIGTERM and SIGINT stop it. Turn it off where the application stops its parts itself. */
  signals?: boolean;
  /** Stops it. */
  signal?: AbortSignal;
}
const RUN_OPTIONS = names<WorkerRunOptions>({ signals: true, signal: true });

/** Borrows the messages of a group, runs a handler for each, and settles them. */
export class Worker {
  readonly #routes = new Map<string, Route>();
  readonly #settler: Settler;
  readonly #emit: WorkerEventListener;
  readonly #beating = new AbortController();
  readonly #settings: Settings;
  readonly #starting = new AbortController();
  #lanes: Lanes | undefined;
  #leftBehind = 0;
  #state: "new" | "running" | "stopping" | "stopped" = "new";
  #started: Promise<void> | undefined;
  #borrowing: Promise<void> | undefined;
  #stopped: Promise<void> | undefined;
  #failure: unknown;

  constructor(
    readonly client: Client,
    readonly group: string,
    options: WorkerOptions = {},
  ) {
    this.#settings = settingsOf(options);
    this.#settler = new Settler(client.transport);
    const listener = options.onEvent ?? printEvent;
    this.#emit = (event: WorkerEvent) => {
      try {
        listener(event);
      } catch {
        // A listener that throws does not stop the work.
      }
    };
  }

  /** The topics that have a handler. */
  get topics(): string[] {
    return [...this.#routes.keys()];
  }

  /** Handles the messages of a topic, one at a time. */
  handle<P = unknown>(topic: string, handler: Handler<P>): this;
  handle<P = unknown>(topic: string, options: HandlerOptions<P>, handler: Handler<P>): this;
  handle<P>(topic: string, optionsOrHandler: HandlerOptions<P> | Handler<P>, maybeHandler?: Handler<P>): this {
    const [options, handler] = typeof optionsOrHandler === "function" ? [{}, optionsOrHandler] : [optionsOrHandler, maybeHandler];
    if (options !== optionsOrHandler && maybeHandler !== undefined) throw new TypeError(`the handler of ${topic} comes last, behind its options`);
    callable(handler, `the handler of ${topic}`, ["payload", "context"]);
    known(options, HANDLER_OPTIONS, `the handler of ${topic}`);
    return this.#route(topic, options as HandlerOptions<unknown>, 1, { handle: handler as Handler<unknown>, handleBatch: undefined });
  }

  /** Handles the messages of a topic, as many at a time as are there, up to `batch`. */
  handleBatch<P = unknown>(topic: string, options: BatchOptions<P>, handler: BatchHandler<P>): this {
    callable(handler, `the handler of ${topic}`, ["items"]);
    known(options, BATCH_OPTIONS, `the handler of ${topic}`);
    const handlers = { handle: undefined, handleBatch: handler as BatchHandler<unknown> };
    return this.#route(topic, options as HandlerOptions<unknown>, options.batch, handlers);
  }

  #route(topic: string, options: HandlerOptions<unknown>, batch: number, handlers: Pick<Route, "handle" | "handleBatch">): this {
    if (this.#state !== "new") throw new DriftQError("handlers are given to a worker before it starts");
    if (this.#routes.has(topic)) throw new DriftQError(`the topic ${topic} has a handler already`);
    this.#routes.set(topic, { topic, options, batch: whole(batch, "batch", 1, LEASE_MAX), concurrency: this.#concurrencyOf(options), ...handlers });
    return this;
  }

  #concurrencyOf({ concurrency, timeoutMs, encoding = "json", badPayload = "dead" }: HandlerOptions<unknown>): number {
    const most = this.#settings.concurrency;
    if (timeoutMs !== undefined) whole(timeoutMs, "timeoutMs", 1, TIMER_MS_MAX);
    if (!ENCODINGS.includes(encoding)) throw new TypeError(`encoding is one of ${ENCODINGS.join(", ")}`);
    if (badPayload !== "dead" && badPayload !== "retry") throw new TypeError("badPayload is dead or retry");
    if (concurrency === undefined) return most;
    if (whole(concurrency, "concurrency", 1, CONCURRENCY_MAX) <= most) return concurrency;
    throw new RangeError(`the worker runs ${most} handler(s) at once, so that a topic cannot have ${concurrency}: give the worker as many`);
  }

  /** Works until it is stopped, by `stop`, SIGTERM or SIGINT. Rejects if it cannot start, or the server refuses it for good. */
  async run(options: WorkerRunOptions = {}): Promise<void> {
    known(options, RUN_OPTIONS, "the run of a worker");
    const off = options.signals === false ? undefined : this.#listen();
    const stop = () => void this.stop();
    options.signal?.addEventListener("abort", stop, { once: true });
    try {
      if (options.signal?.aborted) return;
      await this.start();
      await this.#borrowing;
      await this.stop();
    } finally {
      off?.();
      options.signal?.removeEventListener("abort", stop);
    }
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Starts to work. Rejects if the server cannot be reached in time, or a topic does not exist. */
  start(): Promise<void> {
    this.#started ??= this.#start();
    return this.#started;
  }

  async #start(): Promise<void> {
    if (this.#routes.size === 0) throw new DriftQError("a worker without a handler has nothing to do: call handle first");
    if (!(await this.#topicsExist())) return;
    this.#state = "running";
    const { transport, owner } = this.client;
    const { leaseMs, cancelGraceMs, heartbeat } = this.#settings;
    const leaveBehind = (handler: Promise<unknown>) => this.#leaveBehind(handler);
    const runner = { ledger: this.client.ledger, owner, settler: this.#settler, emit: this.#emit, leaveBehind };
    const options = { transport, owner, group: this.group, leaseMs, cancelGraceMs, runner, emit: this.#emit };
    const routes = [...this.#routes.values()];
    const fail = (error: unknown) => this.#fail(error);
    const beats = new Beats(transport, leaseMs, this.#beating.signal);
    const lanes = new Lanes(routes, boundsOf(this.#settings, routes), options, (delivery) => beats.begun(delivery), fail);
    this.#lanes = lanes;
    if (heartbeat) void beats.run(() => lanes.held());
    this.#borrowing = this.#lanes.borrow(fail);
  }

  /** Asks for all topics; returns whether there is still something to start afterwards. */
  async #topicsExist(): Promise<boolean> {
    const signal = this.#starting.signal;
    const options = { patienceMs: this.#settings.startTimeoutMs, signal };
    const exists = async (topic: string) => {
      await this.client.transport.call("GET", path`/v2/topics/${topic}`, options).catch((error: unknown) => Promise.reject(namingTopic(error, topic)));
    };
    try {
      await Promise.all(this.topics.map(exists));
    } catch (error) {
      // For a worker that is stopped before it has started, this is not an error.
      if (!signal.aborted) throw error;
    }
    return !signal.aborted;
  }

  /** A handler that does not heed its signal keeps what it holds; with too many of them the worker gives up. */
  #leaveBehind(handler: Promise<unknown>): void {
    this.#leftBehind += 1;
    const ended = () => (this.#leftBehind -= 1);
    handler.then(ended, ended);
    if (this.#leftBehind > LEFT_BEHIND_MAX && this.#state === "running") this.#fail(new HandlersStuck(this.#leftBehind));
  }

  /** What ends one topic for good ends the worker: half a worker would look like a whole one. */
  #fail(error: unknown): void {
    this.#failure ??= error;
    void this.stop();
  }

  /** Borrows no more, gives back what was not begun, and ends when what runs has ended. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    this.#starting.abort(new Cancelled("the worker stops"));
    // At once: not one more handler is to begin.
    this.#lanes?.stop();
    await this.#started?.catch(() => undefined);
    this.#state = "stopping";
    this.#lanes?.stop();
    const idle = Promise.resolve(this.#lanes?.idle());
    if (!(await within(idle, this.#settings.drainTimeoutMs))) {
      this.#lanes?.cancel();
      await within(idle, this.#settings.cancelGraceMs + CANCEL_SLACK_MS);
    }
    // A commit that fails leaves something to the settler, so the settler is waited for afterwards.
    const settled = () => Promise.resolve(this.#lanes?.concluded()).then(() => this.#settler.idle());
    await within(Promise.all([this.#borrowing, settled()]), SETTLE_TIMEOUT_MS);
    this.#settler.stop(`the server did not hear of it within ${SETTLE_TIMEOUT_MS} ms, and the worker has stopped`);
    // What was given up is reported before the worker has stopped.
    await within(settled(), SETTLE_TIMEOUT_MS);
    this.#beating.abort();
    this.#state = "stopped";
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  /** The first signal drains, the second one ends the process at once, unless the application listens as well: then it decides. */
  #listen(): () => void {
    let asked = false;
    const off = onStopSignal((signal) => {
      if (asked) {
        off();
        if (!hasListeners(signal)) endBySignal(signal);
      } else {
        asked = true;
        void this.stop();
      }
    });
    return off;
  }
}

/** Whether the promise ends within that time. */
async function within(promise: Promise<unknown>, ms: number): Promise<boolean> {
  const timer = new AbortController();
  const late = sleep(ms, timer.signal).then(
    () => false,
    () => true,
  );
  try {
    return await Promise.race([promise.then(() => true), late]);
  } finally {
    timer.abort();
  }
}
