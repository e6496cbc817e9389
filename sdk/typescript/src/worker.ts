import type { Client } from "./client.js";
import type { Delivery } from "./delivery.js";
import { Cancelled, DriftQError, LeaseLost, Refused } from "./errors.js";
import { printEvent, type WorkerEventListener, type WorkerEvent } from "./events.js";
import type { BatchHandler, BatchOptions, Handler, HandlerOptions, Route } from "./handler.js";
import { beatMs, beatPatienceMs, chunks, lapsed } from "./heartbeat.js";
import { Lane } from "./lane.js";
import { endBySignal, onStopSignal } from "./platform.js";
import { Settler, settleOnce, SETTLE_MAX } from "./settler.js";
import { monotonicMs, sleep } from "./time.js";
import { path } from "./wire.js";

export interface WorkerOptions {
  /** Handlers that run at once, for each topic. */
  concurrency?: number;
  /** Messages that wait in the worker besides, for each topic; as many again, at most 1,000. */
  prefetch?: number;
  /** How long a message is on loan between two heartbeats. */
  leaseMs?: number;
  /** Whether leases are extended while handlers run. Turn it off in tests only. */
  heartbeat?: boolean;
  /** How long handlers may go on when the worker stops. */
  drainTimeoutMs?: number;
  /** How long a handler whose signal has fired may take to end before it is left behind and its place given to others. */
  cancelGraceMs?: number;
  /** How long to wait for the server at the start. */
  startTimeoutMs?: number;
  /** Told what goes wrong on the way; prints to standard error unless given. */
  onEvent?: WorkerEventListener;
}

const PREFETCH_MAX = 1_000;
const LEASE_MS = 30_000;
const CANCEL_GRACE_MS = 5_000;
const DRAIN_TIMEOUT_MS = 30_000;
const START_TIMEOUT_MS = 10_000;
/** How long a worker whose handlers have ended tries to tell the server so. */
const SETTLE_TIMEOUT_MS = 5_000;

/** Borrows the messages of a group, runs a handler for each, and settles them. */
export class Worker {
  readonly #routes = new Map<string, Route>();
  readonly #settler: Settler;
  readonly #emit: WorkerEventListener;
  readonly #beating = new AbortController();
  #lanes: Lane[] = [];
  #state: "new" | "running" | "stopping" | "stopped" = "new";
  #started: Promise<void> | undefined;
  #borrowing: Promise<void> | undefined;
  #stopped: Promise<void> | undefined;
  #failure: unknown;

  constructor(
    readonly client: Client,
    readonly group: string,
    private readonly options: WorkerOptions = {},
  ) {
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
    if (!handler) throw new TypeError(`the topic ${topic} needs a handler`);
    return this.#route(topic, options as HandlerOptions<unknown>, 1, { handle: handler as Handler<unknown>, handleBatch: undefined });
  }

  /** Handles the messages of a topic, as many at a time as are there, up to `batch`. */
  handleBatch<P = unknown>(topic: string, options: BatchOptions<P>, handler: BatchHandler<P>): this {
    const handlers = { handle: undefined, handleBatch: handler as BatchHandler<unknown> };
    return this.#route(topic, options as HandlerOptions<unknown>, options.batch, handlers);
  }

  #route(topic: string, options: HandlerOptions<unknown>, batch: number, handlers: Pick<Route, "handle" | "handleBatch">): this {
    if (this.#state !== "new") throw new DriftQError("handlers are given to a worker before it starts");
    if (this.#routes.has(topic)) throw new DriftQError(`the topic ${topic} has a handler already`);
    const concurrency = positive(options.concurrency ?? this.options.concurrency ?? 1, "concurrency");
    const prefetch = options.prefetch ?? this.options.prefetch ?? Math.min(concurrency * batch, PREFETCH_MAX);
    this.#routes.set(topic, { topic, options, concurrency, prefetch, batch: positive(batch, "batch"), ...handlers });
    return this;
  }

  /** Works until it is stopped, by `stop`, SIGTERM or SIGINT. Rejects if it cannot start, or the server refuses it for good. */
  async run(options: { signals?: boolean; signal?: AbortSignal } = {}): Promise<void> {
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
    const patienceMs = this.options.startTimeoutMs ?? START_TIMEOUT_MS;
    await Promise.all(this.topics.map((topic) => this.client.transport.call("GET", path`/v2/topics/${topic}`, { patienceMs })));
    if (this.#state !== "new") return;
    this.#state = "running";
    const { transport, owner } = this.client;
    const runner = { transport, owner, settler: this.#settler, emit: this.#emit, stopping: () => this.#state !== "running" };
    const times = { leaseMs: this.#leaseMs, cancelGraceMs: this.#cancelGraceMs };
    const options = { transport, owner, group: this.group, ...times, runner, emit: this.#emit };
    this.#lanes = [...this.#routes.values()].map((route) => new Lane(route, options));
    if (this.options.heartbeat !== false) void this.#beat();
    const borrowing = this.#lanes.map((lane) => lane.borrow().catch((error: unknown) => this.#fail(error)));
    this.#borrowing = Promise.all(borrowing).then(() => undefined);
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
    await this.#started?.catch(() => undefined);
    this.#state = "stopping";
    for (const lane of this.#lanes) lane.stop();
    const idle = Promise.all(this.#lanes.map((lane) => lane.idle()));
    if (!(await within(idle, this.options.drainTimeoutMs ?? DRAIN_TIMEOUT_MS))) {
      for (const lane of this.#lanes) lane.cancel();
      await within(idle, this.#cancelGraceMs + SETTLE_TIMEOUT_MS);
    }
    await within(Promise.all([this.#borrowing, this.#settler.idle()]), SETTLE_TIMEOUT_MS);
    this.#settler.stop();
    this.#beating.abort();
    this.#state = "stopped";
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  /** The first signal drains, the second one ends the process at once. */
  #listen(): () => void {
    let asked = false;
    const off = onStopSignal((signal) => {
      if (asked) {
        off();
        endBySignal(signal);
      } else {
        asked = true;
        void this.stop();
      }
    });
    return off;
  }

  get #cancelGraceMs(): number {
    return this.options.cancelGraceMs ?? CANCEL_GRACE_MS;
  }

  get #leaseMs(): number {
    return this.options.leaseMs ?? LEASE_MS;
  }

  async #beat(): Promise<void> {
    const signal = this.#beating.signal;
    for (let failed = false; ; ) {
      try {
        await sleep(failed ? beatMs(this.#leaseMs) / 4 : beatMs(this.#leaseMs), signal);
        const held = this.#lanes.flatMap((lane) => [...lane.held()]);
        await Promise.all(chunks(held, SETTLE_MAX).map((part) => this.#extend(part, signal)));
        failed = false;
      } catch {
        if (signal.aborted) return;
        failed = true;
      }
    }
  }

  async #extend(held: Delivery[], signal: AbortSignal): Promise<void> {
    const leaseMs = this.#leaseMs;
    const asked = monotonicMs();
    const patienceMs = beatPatienceMs(asked, held, leaseMs);
    try {
      const leases = held.map(({ token }) => ({ token, lease_ms: leaseMs }));
      const results = await settleOnce(this.client.transport, "extend", leases, { signal, patienceMs, timeoutMs: patienceMs });
      held.forEach((delivery, index) => {
        const result = results[index];
        if (result?.status === "ok") delivery.until = asked + leaseMs;
        else delivery.end(new LeaseLost("the lease is lost: a newer attempt has begun, or the server was restarted"));
        if (result?.cancelled) delivery.end(new Cancelled("somebody cancelled the message"));
      });
    } catch (error) {
      if (signal.aborted) throw error;
      const why = error instanceof Refused ? "the server refused to extend it" : "the server could not be reached in time";
      for (const delivery of lapsed(monotonicMs(), held)) delivery.end(new LeaseLost(`the lease is over: ${why}`, { cause: error }));
      throw error;
    }
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

function positive(value: number, name: string): number {
  if (!Number.isInteger(value) || value < 1) throw new RangeError(`${name} is a whole number from 1 on, not ${value}`);
  return value;
}
