import type { Delivery } from "./delivery.js";
import type { Route } from "./handler.js";
import { Lane, type LaneOptions } from "./lane.js";
import { Room, type Bounds } from "./room.js";

/** All topics of a worker: they share its handlers and its room. */
export class Lanes {
  readonly #room: Room;
  readonly #lanes: Lane[];
  #stopping = false;
  #isPumping = false;

  constructor(routes: readonly Route[], bounds: Bounds, options: LaneOptions, begun: (delivery: Delivery) => void, fail: (error: unknown) => void) {
    this.#room = new Room(bounds);
    const common = { room: this.#room, changed: () => this.#pump(), begun, fail };
    this.#lanes = routes.map((route, index) => new Lane(index, route, common, options));
  }

  /** Everything that heartbeats have to keep. */
  held(): Delivery[] {
    return this.#lanes.flatMap((lane) => [...lane.held()]);
  }

  /** Borrows until it is stopped; tells what ends a lane before that. */
  async borrow(failed: (error: unknown) => void): Promise<void> {
    await Promise.all(this.#lanes.map((lane) => lane.borrow().catch(failed)));
  }

  stop(): void {
    this.#stopping = true;
    for (const lane of this.#lanes) lane.stop();
  }

  /** Fires the signal of everything that still runs. */
  cancel(): void {
    for (const lane of this.#lanes) lane.cancel();
  }

  /** Ends when no handler runs any more. */
  async idle(): Promise<void> {
    await Promise.all(this.#lanes.map((lane) => lane.idle()));
  }

  /** Ends when nothing is left to be committed either. */
  async concluded(): Promise<void> {
    await Promise.all(this.#lanes.map((lane) => lane.concluded()));
  }

  /** Starts handlers while there are places and something waits, and lets lanes borrow that have room again. */
  #pump(): void {
    // A handler that waits for nothing ends while it is started here: what is next is seen by the loop.
    if (this.#isPumping) return;
    this.#isPumping = true;
    try {
      // Looked at each time: a handler may stop the worker before it first waits for something.
      while (!this.#stopping) {
        const next = this.#room.start();
        if (!next) break;
        this.#lanes[next.lane]!.start(next.count);
      }
    } finally {
      this.#isPumping = false;
    }
    for (const lane of this.#lanes) lane.wake();
  }
}
