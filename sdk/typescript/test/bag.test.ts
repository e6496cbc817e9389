import { describe, expect, it } from "vitest";
import { Bag } from "../src/bag.js";

describe("a bag", () => {
  it("holds what came and has not gone, in the order in which it came", () => {
    const bag = new Bag<number>();
    const held: number[] = [];
    for (let n = 0; n < 5_000; n += 1) {
      bag.add(n);
      held.push(n);
      // The oldest goes, except that one stays all the time, and that now and then another goes before its turn.
      const gone = n % 7 === 0 ? held.length >> 1 : 1;
      if (held.length > 50) bag.delete(held.splice(gone, 1)[0]!);
      bag.delete(-1);
      if (n % 100 === 0) expect(bag.all()).toEqual(held);
    }
    expect(bag.all()).toEqual(held);
  });

  it("can be looked through while things leave it", () => {
    const bag = new Bag<string>();
    for (const name of ["a", "b", "c"]) bag.add(name);
    const seen: string[] = [];
    for (const name of bag.all()) {
      for (const other of ["a", "b", "c"]) bag.delete(other);
      seen.push(name);
    }
    expect(seen).toEqual(["a", "b", "c"]);
    expect(bag.all()).toEqual([]);
  });
});
