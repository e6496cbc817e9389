import { describe, expect, test } from "vitest";
import { Client, type BatchOptions, type EffectOptions, type HandlerOptions, type WorkerOptions } from "../src/index.js";

const client = new Client("http://127.0.0.1:2");
const nothing = () => undefined;

/** What no count and no time can be. */
const bad = [-1, Number.NaN, 1.5, Number.POSITIVE_INFINITY, 1e16];

describe("settings that cannot work are errors at once", () => {
  const options: (keyof WorkerOptions)[] = ["concurrency", "prefetch", "leaseMs", "drainTimeoutMs", "cancelGraceMs", "startTimeoutMs"];
  test.each(options.flatMap((name) => bad.map((value) => [name, value] as const)))("of a worker: %s %d", (name, value) => {
    expect(() => client.worker("billing", { [name]: value })).toThrow(RangeError);
    expect(() => client.worker("billing", { [name]: value })).toThrow(name);
  });
  test.each<WorkerOptions>([{ concurrency: 0 }, { concurrency: 10_001 }, { prefetch: 1_001 }, { leaseMs: 0 }, { leaseMs: 604_800_001 }])("of a worker: %j", (given) => {
    expect(() => client.worker("billing", given)).toThrow(RangeError);
  });
  test.each<WorkerOptions>([{ prefetch: 0 }, { prefetch: 1_000 }, { concurrency: 10_000 }, { drainTimeoutMs: 0 }, { leaseMs: 604_800_000 }])("but not %j", (given) => {
    expect(() => client.worker("billing", given)).not.toThrow();
  });
  test("of what is no number", () => {
    expect(() => client.worker("billing", { concurrency: "4" as unknown as number })).toThrow(TypeError);
  });

  test.each(["concurrency", "timeoutMs"].flatMap((name) => [...bad, 0].map((value) => [name, value] as const)))("of a handler: %s %d", (name, value) => {
    expect(() => client.worker("billing").handle("orders", { [name]: value } as HandlerOptions<unknown>, nothing)).toThrow(RangeError);
  });
  test.each([...bad, 0, 1_001])("of a batch: %d", (batch) => {
    expect(() => client.worker("billing").handleBatch("orders", { batch } as BatchOptions<unknown>, nothing)).toThrow(RangeError);
  });
  test("of a topic that wants more handlers than the worker has", () => {
    expect(() => client.worker("billing", { concurrency: 4 }).handle("orders", { concurrency: 5 }, nothing)).toThrow(/give the worker as many/);
    expect(() => client.worker("billing", { concurrency: 4 }).handle("orders", { concurrency: 4 }, nothing)).not.toThrow();
  });
  test.each([{ encoding: "xml" }, { badPayload: "drop" }])("of a handler: %j", (given) => {
    expect(() => client.worker("billing").handle("orders", given as HandlerOptions<unknown>, nothing)).toThrow(TypeError);
  });

  const terms: (keyof EffectOptions)[] = ["leaseMs", "ttlMs", "maxAttempts", "waitMs"];
  test.each(terms.flatMap((name) => bad.map((value) => [name, value] as const)))("of an effect: %s %d", async (name, value) => {
    await expect(client.effect("charge", { key: "k", [name]: value }, nothing)).rejects.toBeInstanceOf(RangeError);
  });
});
