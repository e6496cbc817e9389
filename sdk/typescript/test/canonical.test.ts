import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { canonical } from "../src/canonical.js";
import { anchorOf, derivedKey, requestHash, type Anchor } from "../src/keys.js";
import { sha256Hex } from "../src/platform.js";
import { FOLDER } from "./support/scenario.js";

interface Digests {
  documents: { document: unknown; canonical: string; sha256: string }[];
  keys: { anchor: Anchor; arguments: unknown; key: string }[];
}
const digests = JSON.parse(readFileSync(`${FOLDER}digests.json`, "utf8")) as Digests;

describe("canonical form", () => {
  test.each(digests.documents)("$canonical", ({ document, canonical: text, sha256 }) => {
    expect(canonical(document)).toBe(text);
    expect(sha256Hex(text)).toBe(sha256);
    expect(requestHash(document)).toBe(`sha256:${sha256}`);
  });

  test.each(digests.keys)("$key", ({ anchor, arguments: args, key }) => {
    expect(derivedKey(anchor, args)).toBe(key);
  });

  test("-0 is 0, and large integers keep their digits", () => {
    expect(canonical(-0)).toBe("0");
    expect(canonical(12345678901234567890n)).toBe("12345678901234567890");
  });

  test("reads values as JSON.stringify does", () => {
    expect(canonical({ b: undefined, a: [undefined, new Date(0)] })).toBe('{"a":[null,"1970-01-01T00:00:00.000Z"]}');
  });

  test.each([[Number.NaN], [Number.POSITIVE_INFINITY], [undefined], [() => 1], ["\ud83d"], [{ "\udc00": 1 }]])("refuses %s", (document) => {
    expect(() => canonical(document)).toThrow(TypeError);
  });

  test("refuses what contains itself, instead of never ending", () => {
    const loop: unknown[] = [];
    loop.push(loop);
    expect(() => canonical(loop)).toThrow(TypeError);
  });
});

describe("anchor", () => {
  const place = { origin: { topic: "orders", incarnation: 7, partition: 3, offset: 17 } };
  test.each([
    [{ ...place, runId: "run-7", stepId: "charge", idempotencyKey: "k" }, ["run", "run-7", "charge"]],
    [{ ...place, runId: "run-7" }, ["run", "run-7", ""]],
    [{ ...place, idempotencyKey: "k" }, ["message", "orders", 7, "k"]],
    [place, ["message", "orders", 7, 3, 17]],
    [{}, undefined],
  ])("%j", (given, anchor) => expect(anchorOf(given)).toEqual(anchor));
});
