import { repeatWait } from "./backoff.js";
import { Bag } from "./bag.js";
import { Delivery } from "./delivery.js";
import { Cancelled } from "./errors.js";
import type { WorkerEventListener } from "./events.js";
import type { Route } from "./handler.js";
import { randomHex } from "./platform.js";
import { GroupUnknown, namingTopic } from "./refusals.js";
import type { Ask, Room } from "./room.js";
import { runBatch, runOne, type Progress, type Runner } from "./runner.js";
import { giveBack } from "./settler.js";
import { sleep } from "./time.js";
import { isStrange, mayPass, type Transport } from "./transport.js";
import { path, type WireItem } from "./wire.js";

/** How long the server is asked to wait for the first message. */
const POLL_MS = 20_000;
/** How long a worker that stops tries to give back what it did not begin. */
const GIVE_BACK_TIMEOUT_MS = 5_000;

export interface LaneOptions {
  transport: Transport;
  group: string;
  owner: string;
  leaseMs: number;
  cancelGraceMs: number;
  runner: Runner;
  emit: WorkerEventListener;
}

/** What a lane shares with the others of its worker. */
export interface Common {
  readonly room: Room;
  /** Messages came or went, or a handler ended: something may be able to go on. */
  changed(): void;
  /** A handler begins with a message after the server was told that none has. */
  begun(delivery: Delivery): void;
  /** The worker cannot go on. */
  fail(error: unknown): void;
}

/** One topic of a worker: borrows messages, keeps those that wait, and runs handlers when it is its turn. */
export class Lane {
  readonly #waiting: Delivery[] = [];
  readonly #busy = new Bag<Delivery>();
  readonly #stopping = new AbortController();
  readonly #handlers = new Tally();
  /** Handlers, and the commits that follow them. */
  readonly #runs = new Tally();
  #wake: (() => void) | undefined;

  constructor(
    private readonly index: number,
    private readonly route: Route,
    private readonly common: Common,
    private readonly options: LaneOptions,
  ) {}

  /** Everything that heartbeats have to keep. */
  *held(): Iterable<Delivery> {
    for (const delivery of this.#waiting) if (delivery.held) yield delivery;
    for (const delivery of this.#busy.all()) if (delivery.held) yield delivery;
  }

  /** Borrows until it is stopped. Rejects if borrowing is refused for good. */
  async borrow(): Promise<void> {
    try {
      while (!this.#stopping.signal.aborted) {
        const ask = this.common.room.ask(this.index);
        if (ask.max === 0) await new Promise<void>((resolve) => (this.#wake = resolve));
        else this.#take(await this.#lease(ask));
      }
    } catch (error) {
      throw namingTopic(error, this.route.topic);
    } finally {
      await this.#releaseWaiting();
    }
  }

  #take(items: WireItem[]): void {
    for (const item of items) this.#waiting.push(new Delivery(item, this.options.leaseMs, this.options.cancelGraceMs));
    this.common.room.answered(this.index, items.length);
    this.common.changed();
  }

  /** Resumes borrowing if it waits for room, and there is some. */
  wake(): void {
    if (!this.#wake || this.common.room.free(this.index) === 0) return;
    this.#wake();
    this.#wake = undefined;
  }

  /** Ends when no handler runs any more; what they left to be settled may still be under way. */
  idle(): Promise<void> {
    return this.#handlers.none();
  }

  /** Ends when nothing is left to be committed either; the rest is the settler's. */
  concluded(): Promise<void> {
    return this.#runs.none();
  }

  stop(): void {
    this.#stopping.abort(new Cancelled("the worker stops"));
    this.#wake?.();
  }

  /** Fires the signal of everything that still runs. */
  cancel(): void {
    for (const delivery of this.#busy.all()) delivery.endByStop();
  }

  /** One borrowing call, repeated with the same request_id until it is answered, so that no answer is lost. */
  async #lease({ max, waits }: Ask): Promise<WireItem[]> {
    const { transport, group, owner, leaseMs, emit } = this.options;
    const target = path`/v2/topics/${this.route.topic}/groups/${group}/lease`;
    const waitMs = waits ? POLL_MS : 0;
    const body = { owner, max, lease_ms: leaseMs, wait_ms: waitMs, request_id: randomHex(8) };
    const signal = this.#stopping.signal;
    let away = false;
    for (let repeats = 0; ; repeats += 1) {
      try {
        const answer = await transport.call<{ messages: WireItem[] }>("POST", target, { body, waitMs, patienceMs: 0, signal });
        if (away) emit({ kind: "server_back" });
        return answer.messages;
      } catch (error) {
        if (signal.aborted) return this.#reclaim(target, body);
        // A group that was deleted begins again with the next call; something strange may be a gateway for a while.
        const forgotten = error instanceof GroupUnknown;
        if (!mayPass(error) && !forgotten && !isStrange(error)) throw error;
        if (!away && !forgotten) emit({ kind: "server_away", error });
        away ||= !forgotten;
        await sleep(repeatWait(repeats, undefined, Math.random()), signal).catch(() => undefined);
        if (signal.aborted) return [];
      }
    }
  }

  /**
   * The worker stopped while it was asking. What the lost answer may have lent is asked for once more under the same
   * request_id, and given back at once: otherwise it would wait for its lease to end, and count as an attempt.
   */
  async #reclaim(target: string, body: object): Promise<WireItem[]> {
    try {
      const options = { body: { ...body, wait_ms: 0 }, patienceMs: 0, timeoutMs: GIVE_BACK_TIMEOUT_MS };
      const answer = await this.options.transport.call<{ messages: WireItem[] }>("POST", target, options);
      return answer.messages;
    } catch {
      return [];
    }
  }

  async #releaseWaiting(): Promise<void> {
    const deliveries = this.#waiting.splice(0);
    for (const delivery of deliveries) delivery.stop();
    const tokens = deliveries.map((delivery) => delivery.token);
    if (tokens.length > 0) await giveBack(this.options.transport, tokens, GIVE_BACK_TIMEOUT_MS);
  }

  /** Runs a handler for the first messages that wait. */
  start(count: number): void {
    const deliveries = this.#waiting.splice(0, count);
    for (const delivery of deliveries) {
      this.#busy.add(delivery);
      delivery.begun = true;
      if (delivery.toldWaiting) this.common.begun(delivery);
    }
    this.#handlers.add(1);
    this.#runs.add(deliveries.length);
    const turn = new Turn(this, deliveries.length);
    const { runner } = this.options;
    if (this.route.handleBatch) void runBatch(runner, this.route, deliveries, turn).catch((error: unknown) => turn.failed(error));
    else runOne(runner, this.route, deliveries[0]!, turn);
  }

  /** @internal The place is free as soon as the handler has ended: what it left to be settled has room of its own. */
  ended(count: number): void {
    const { room } = this.common;
    room.handled(this.index, count);
    room.ended(this.index);
    this.common.changed();
    this.#handlers.end();
  }

  /** @internal */
  settled(delivery: Delivery): void {
    this.#busy.delete(delivery);
    this.common.room.settled(this.index);
    this.common.changed();
  }

  /** @internal What is left of one message is the settler's. */
  leftToSettler(): void {
    this.#runs.end();
  }

  /** @internal */
  fail(error: unknown): void {
    this.common.fail(error);
  }
}

/** One call of a handler, and how far it has got. */
class Turn implements Progress {
  #hasEnded = false;
  /** Of how many messages more there is something to commit. */
  #left: number;

  constructor(
    private readonly lane: Lane,
    private readonly count: number,
  ) {
    this.#left = count;
  }

  ended(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.lane.ended(this.count);
  }

  settled(delivery: Delivery): void {
    this.lane.settled(delivery);
  }

  concluded(): void {
    this.#left -= 1;
    this.lane.leftToSettler();
  }

  /**
   * Nothing that a handler throws comes here. Should this package itself fail, the worker ends with that error, and not
   * in silence.
   */
  failed(error: unknown): void {
    this.lane.fail(error);
    this.ended();
    while (this.#left > 0) this.concluded();
  }
}

/** Counts what has begun and not ended. */
class Tally {
  #count = 0;
  #waiting: (() => void)[] = [];

  add(count: number): void {
    this.#count += count;
  }

  end(): void {
    this.#count -= 1;
    if (this.#count === 0) for (const resolve of this.#waiting.splice(0)) resolve();
  }

  none(): Promise<void> {
    return this.#count === 0 ? Promise.resolve() : new Promise((resolve) => this.#waiting.push(resolve));
  }
}
