import { describe, expect, test } from "vitest";
import { Room, type Bounds } from "../src/room.js";
import { boundsOf } from "../src/settings.js";

function roomOf(concurrency: number, prefetch: number | undefined, lanes: { batch?: number; concurrency?: number }[]): Room {
  return new Room(boundsOf({ concurrency, prefetch }, lanes.map(({ batch = 1, concurrency: own = concurrency }) => ({ batch, concurrency: own }))));
}

/** Asks, and is given all of it. */
function fill(room: Room, lane: number, count = room.ask(lane).max): number {
  room.answered(lane, count);
  return count;
}

/** Starts what can be started, and tells in which lanes. */
function started(room: Room): number[] {
  const lanes = [];
  for (let next = room.start(); next; next = room.start()) lanes.push(next.lane);
  return lanes;
}

function settle(room: Room, lane: number, count = 1): void {
  for (let n = 0; n < count; n += 1) {
    room.handled(lane, 1);
    room.ended(lane);
    room.settled(lane);
  }
}

test.each<[string, Bounds, Omit<Bounds, "lanes">]>([
  ["one lane", boundsOf({ concurrency: 4, prefetch: undefined }, [{ batch: 1, concurrency: 4 }]), { concurrency: 4, handled: 4, prefetch: 4 }],
  ["batches", boundsOf({ concurrency: 4, prefetch: undefined }, [{ batch: 1, concurrency: 4 }, { batch: 10, concurrency: 4 }]), { concurrency: 4, handled: 40, prefetch: 40 }],
  ["many", boundsOf({ concurrency: 5_000, prefetch: undefined }, [{ batch: 1, concurrency: 4 }]), { concurrency: 5_000, handled: 5_000, prefetch: 1_000 }],
  ["no prefetch", boundsOf({ concurrency: 4, prefetch: 0 }, [{ batch: 1, concurrency: 4 }]), { concurrency: 4, handled: 4, prefetch: 0 }],
])("the bounds of %s", (_name, bounds, expected) => expect(bounds).toMatchObject(expected));

describe("a lane that is alone", () => {
  test("asks for everything, and lets the server wait with it", () => {
    expect(roomOf(4, 4, [{}]).ask(0)).toEqual({ max: 8, waits: true });
    expect(roomOf(4, 0, [{}]).ask(0)).toEqual({ max: 4, waits: true });
    expect(roomOf(1, undefined, [{ batch: 100 }]).ask(0)).toEqual({ max: 200, waits: true });
  });
  test("asks for no more than a call takes", () => expect(roomOf(5_000, undefined, [{}]).ask(0).max).toBe(1_000));
  test("asks again when half of what waits is gone", () => {
    const room = roomOf(4, 4, [{}]);
    expect(fill(room, 0)).toBe(8);
    expect(started(room)).toEqual([0, 0, 0, 0]);
    settle(room, 0);
    started(room);
    expect(room.free(0)).toBe(0);
    settle(room, 0);
    started(room);
    expect(room.free(0)).toBe(2);
  });
  test("does not ask for a few while many are being settled", () => {
    const room = roomOf(10, 0, [{}]);
    fill(room, 0);
    started(room);
    room.handled(0, 9);
    for (let n = 0; n < 9; n += 1) room.ended(0);
    room.settled(0);
    expect(room.free(0)).toBe(0);
    room.settled(0);
    expect(room.free(0)).toBe(2);
  });
  test("asks for a few while many handlers run", () => {
    const room = roomOf(10, 0, [{}]);
    fill(room, 0);
    started(room);
    settle(room, 0);
    expect(room.free(0)).toBe(1);
  });
  test("asks once at a time", () => {
    const room = roomOf(4, 4, [{}]);
    room.ask(0);
    expect(room.ask(0).max).toBe(0);
  });
  test("has no room while what ended is not settled", () => {
    const room = roomOf(2, 0, [{}]);
    fill(room, 0);
    started(room);
    for (let n = 0; n < 2; n += 1) {
      room.handled(0, 1);
      room.ended(0);
    }
    expect(room.ask(0).max).toBe(0);
    room.settled(0);
    expect(room.ask(0).max).toBe(1);
  });
});

describe("lanes that share", () => {
  test("run no more handlers than there are places, and take turns", () => {
    const room = roomOf(3, 9, [{}, {}, {}]);
    for (const lane of [0, 1, 2]) fill(room, lane, 3);
    expect(started(room)).toEqual([0, 1, 2]);
    settle(room, 1);
    expect(started(room)).toEqual([0]);
    settle(room, 0);
    expect(started(room)).toEqual([1]);
  });

  test("never hold more than the worker may, and each can always ask for something", () => {
    for (const [concurrency, prefetch, count] of [[1, 1, 5], [4, 0, 2], [10, 10, 3], [100, 100, 7]] as const) {
      const total = Math.max(concurrency + prefetch, count);
      const room = roomOf(concurrency, prefetch, Array.from({ length: count }, () => ({})));
      // The first one takes what it can get before the others ask at all.
      let taken = 0;
      for (let got = fill(room, 0); got > 0; got = fill(room, 0)) {
        taken += got;
        started(room);
      }
      for (let lane = 1; lane < count; lane += 1) {
        const { max } = room.ask(lane);
        expect(max, `lane ${lane} of ${count}`).toBeGreaterThan(0);
        taken += max;
      }
      expect(taken).toBeLessThanOrEqual(total);
    }
  });

  test("leave all handlers to the one that has work", () => {
    const room = roomOf(10, 10, Array.from({ length: 5 }, () => ({})));
    for (const lane of [1, 2, 3, 4]) expect(room.ask(lane)).toEqual({ max: 1, waits: true });
    let running = 0;
    for (let got = fill(room, 0); got > 0; got = fill(room, 0)) running += started(room).length;
    expect(running).toBe(10);
  });

  test("give way to one that gets work", () => {
    const room = roomOf(10, 10, [{}, {}]);
    room.ask(1);
    let held = 0;
    for (let got = fill(room, 0); got > 0; got = fill(room, 0)) {
      held += got;
      started(room);
    }
    expect(held).toBe(19);
    // Its first answer is full: from now on it has a claim to half of everything.
    room.answered(1, 1);
    expect(room.ask(1).max).toBe(0);
    settle(room, 0, 5);
    expect(room.free(0)).toBe(0);
    started(room);
    expect(room.ask(1)).toEqual({ max: 5, waits: false });
  });

  test("do not let the server wait with much: what is asked for without a wait was little or came up empty", () => {
    const room = roomOf(40, 40, [{}, {}]);
    expect(room.ask(0)).toEqual({ max: 5, waits: true });
    room.answered(0, 5);
    started(room);
    const keen = room.ask(0);
    expect(keen.waits).toBe(false);
    expect(keen.max).toBeGreaterThan(5);
    room.answered(0, 0);
    expect(room.ask(0)).toEqual({ max: 5, waits: true });
  });

  test("keep to a bound of their own", () => {
    const room = roomOf(4, 4, [{ concurrency: 1 }, {}]);
    for (let got = fill(room, 0); got > 0; got = fill(room, 0)) expect(started(room).length).toBeLessThanOrEqual(1);
    expect(started(room)).toEqual([]);
    fill(room, 1);
    expect(started(room).every((lane) => lane === 1)).toBe(true);
  });

  test("get batches of their own size", () => {
    const room = roomOf(2, 20, [{ batch: 10 }, {}]);
    for (const lane of [0, 1]) fill(room, lane, 10);
    expect([room.start(), room.start()]).toEqual([{ lane: 0, count: 10 }, { lane: 1, count: 1 }]);
  });
});
