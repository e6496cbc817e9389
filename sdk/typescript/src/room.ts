import { LEASE_MAX } from "./limits.js";

// What a worker borrows and starts next. No clock, no network: it is told everything from outside.

/** Lanes without work keep this part of the prefetch free, taken together: a quarter. */
const IDLE_PART = 4;
/** What is less than this part of what is being settled is not asked for: a quarter. */
const FEW_PART = 4;

/** How much a worker takes on. */
export interface Bounds {
  /** Handlers that may run at once, over all lanes. */
  readonly concurrency: number;
  /** Messages that these handlers may have in total. */
  readonly handled: number;
  /** Messages that may wait in addition, over all lanes. */
  readonly prefetch: number;
  readonly lanes: readonly {
    /** Messages that one handler takes. */
    readonly batch: number;
    /** A bound of the lane's own, within that of all. */
    readonly concurrency: number;
  }[];
}

/** What a lane may borrow now. */
export interface Ask {
  /** 0 is to wait until there is room. */
  readonly max: number;
  /** Whether the server may wait for a first message. */
  readonly waits: boolean;
}

/** A call of a handler that is to begin, with `count` of the messages that wait in that lane. */
export interface Start {
  readonly lane: number;
  readonly count: number;
}

interface Lane {
  readonly batch: number;
  readonly concurrency: number;
  /** The most that it may hold. */
  readonly limit: number;
  /** What it asks for while it waits for a first message, and what is kept free for it. */
  readonly stock: number;
  asked: number;
  waiting: number;
  /** Messages whose handlers run, or whose settlement is under way. */
  busy: number;
  /** Messages whose settlement is under way. */
  settling: number;
  calls: number;
  /** Its last answer was full, so there is more to come. */
  keen: boolean;
}

/**
 * The handlers and the messages of a worker, shared by its lanes. Each lane has something kept free that no other lane
 * can take: its share if there is work for it, else a little, to find out whether there is. So a lane that is alone
 * with its work gets all handlers, and gives way as soon as others have some.
 */
export class Room {
  readonly #total: number;
  readonly #share: number;
  readonly #prefetch: number;
  readonly #concurrency: number;
  readonly #lanes: Lane[];
  /** What the lanes hold or have kept free, taken together. */
  #kept = 0;
  #calls = 0;
  /** The lane whose turn it is. */
  #turn = 0;

  constructor({ concurrency, handled, prefetch, lanes }: Bounds) {
    const count = lanes.length;
    this.#total = Math.max(handled + prefetch, count);
    this.#share = Math.floor(this.#total / count);
    this.#prefetch = prefetch;
    this.#concurrency = concurrency;
    this.#lanes = lanes.map((lane) => {
      const stock = Math.min(this.#share, Math.max(1, lane.batch, Math.floor(prefetch / IDLE_PART / count)));
      const limit = lane.concurrency * lane.batch + prefetch;
      return { batch: lane.batch, concurrency: lane.concurrency, limit, stock, asked: 0, waiting: 0, busy: 0, settling: 0, calls: 0, keen: false };
    });
    for (const lane of this.#lanes) this.#kept += this.#keptFor(lane);
  }

  /**
   * How many messages the lane could borrow now. A stock that is more than half full is not topped up one by one, and
   * a few are not asked for while many are about to give their room back: few large calls instead of many small ones.
   */
  free(index: number): number {
    const lane = this.#lanes[index]!;
    const alone = this.#lanes.length === 1;
    const low = (lane.keen || alone ? this.#prefetch : this.#prefetch / this.#lanes.length) / 2;
    if (lane.asked > 0 || lane.waiting > low) return 0;
    const held = lane.waiting + lane.busy;
    const left = this.#total - (this.#kept - this.#keptFor(lane)) - held;
    const free = Math.max(0, Math.min(left, lane.limit - held, LEASE_MAX));
    return free * FEW_PART < lane.settling ? 0 : free;
  }

  /**
   * What the lane is to ask for; it counts as taken until it is answered. So a lane that shares the room asks for
   * little while the server may wait: a long wait for much would keep the room from lanes that have work.
   */
  ask(index: number): Ask {
    const lane = this.#lanes[index]!;
    const free = this.free(index);
    const alone = this.#lanes.length === 1;
    const max = alone || lane.keen ? free : Math.min(free, lane.stock);
    this.#change(lane, () => (lane.asked = max));
    return { max, waits: alone || !lane.keen };
  }

  /** `count` messages came of what the lane had asked for. */
  answered(index: number, count: number): void {
    const lane = this.#lanes[index]!;
    this.#change(lane, () => {
      lane.keen = count >= lane.asked;
      lane.asked = 0;
      lane.waiting += count;
    });
  }

  /** The next call of a handler, if there is a place for one and something to work on. Lanes take turns. */
  start(): Start | undefined {
    if (this.#calls >= this.#concurrency) return undefined;
    const count = this.#lanes.length;
    for (let step = 0; step < count; step += 1) {
      const index = (this.#turn + step) % count;
      const lane = this.#lanes[index]!;
      if (lane.waiting === 0 || lane.calls >= lane.concurrency) continue;
      this.#turn = (index + 1) % count;
      return { lane: index, count: this.#begin(lane) };
    }
    return undefined;
  }

  #begin(lane: Lane): number {
    const count = Math.min(lane.waiting, lane.batch);
    lane.waiting -= count;
    lane.busy += count;
    lane.calls += 1;
    this.#calls += 1;
    return count;
  }

  /** The handler of `count` messages has ended, or was left behind; they are to be settled. */
  handled(index: number, count: number): void {
    this.#lanes[index]!.settling += count;
  }

  /** A call is over: its place is free. */
  ended(index: number): void {
    this.#lanes[index]!.calls -= 1;
    this.#calls -= 1;
  }

  /** One message is no longer held. */
  settled(index: number): void {
    const lane = this.#lanes[index]!;
    this.#change(lane, () => {
      lane.busy -= 1;
      lane.settling -= 1;
    });
  }

  #change(lane: Lane, change: () => void): void {
    this.#kept -= this.#keptFor(lane);
    change();
    this.#kept += this.#keptFor(lane);
  }

  #keptFor(lane: Lane): number {
    return Math.max(lane.asked + lane.waiting + lane.busy, lane.keen ? this.#share : lane.stock);
  }
}
