import { describe, expect, test, vi } from "vitest";
import { repeatWait } from "../src/backoff.js";
import { ending, happened, OMITTED } from "../src/endings.js";
import { Delivery } from "../src/delivery.js";
import { Cancelled, DeadlinePassed, DriftQError, EffectBusy, EffectExhausted, EffectFailed, EffectUncertain, LeaseLost, TimedOut } from "../src/errors.js";
import { beatPatienceMs, chunks, lapsed } from "../src/heartbeat.js";
import { followUpOptions, traceOf } from "../src/lineage.js";
import type { Message } from "../src/message.js";
import { Dead, Final, NotDone, NotSent, Retry, Snooze } from "../src/outcomes.js";
import { BATCH_BYTES_MAX, takeBatch } from "../src/batches.js";
import { refusal } from "../src/refusals.js";
import { settlementOf } from "../src/settle.js";
import { clipped } from "../src/texts.js";
import { toCamel, toSnake } from "../src/wire.js";

describe("waits between repeats", () => {
  test("double from 100 ms to 5 s, with jitter down to the half", () => {
    expect([0, 1, 2, 5, 6, 100].map((repeats) => repeatWait(repeats, undefined, 1))).toEqual([100, 200, 400, 3_200, 5_000, 5_000]);
    expect(repeatWait(0, undefined, 0)).toBe(50);
  });
  test("are never shorter than the server's hint", () => {
    expect(repeatWait(9, 1_000, 0)).toBe(1_000);
    expect(repeatWait(9, 1_000, 1)).toBe(1_250);
  });
});

describe("settlement", () => {
  const raised = (error: unknown, ended?: LeaseLost, stopping = false) => settlementOf({ returned: false, error }, ended, stopping);
  const keyReused = refusal({ code: "KEY_REUSED", status: 422, retryable: false, detail: "other request" });

  test("of a handler that returns is an ack", () => expect(settlementOf({ returned: true }, undefined)).toEqual({ kind: "ack" }));
  test.each([
    ["Retry", new Retry("rate limit", { afterMs: 20 }), { kind: "nack", error: "rate limit", delayMs: 20 }],
    ["Retry without a time", new Retry("again"), { kind: "nack", error: "again", delayMs: undefined }],
    ["Dead", new Dead("cancelled"), { kind: "nack", error: "cancelled", dead: true }],
    ["Snooze", new Snooze({ forMs: 20 }), { kind: "release", delayMs: 20 }],
    ["EffectBusy", new EffectBusy("s", "k", 7_000), { kind: "release", delayMs: 7_000, effect: { scope: "s", key: "k" } }],
    ["EffectBusy without a time", new EffectBusy("s", "k", undefined), { kind: "release", delayMs: 30_000 }],
    ["EffectUncertain", new EffectUncertain("s", "k", "why", { tenantId: "t" }), { kind: "release", delayMs: 300_000, effect: { tenantId: "t", scope: "s", key: "k" } }],
    ["EffectFailed", new EffectFailed("s", "k", "stolen", false), { kind: "nack", dead: true }],
    ["EffectExhausted", new EffectExhausted("s", "k", "closed"), { kind: "nack", dead: true }],
    ["KeyReused", keyReused, { kind: "nack", dead: true }],
    ["an error", new RangeError("too far"), { kind: "nack", error: "RangeError: too far" }],
    ["what is no error", "text", { kind: "nack", error: "threw text" }],
  ])("of %s", (_name, error, settlement) => expect(raised(error)).toMatchObject(settlement));

  test("of a lost lease is nothing, whatever the handler says", () => {
    const lost = new LeaseLost("gone");
    expect(settlementOf({ returned: true }, lost).kind).toBe("drop");
    expect(raised(new Dead("no"), lost).kind).toBe("drop");
  });
  test("of a handler that was too late does not depend on what it returns", () => {
    expect(settlementOf({ returned: true }, new TimedOut("late"))).toMatchObject({ kind: "nack" });
    expect(settlementOf({ returned: true }, new DeadlinePassed("late"))).toMatchObject({ kind: "nack", dead: true });
  });
  test("of a message that was cancelled is to give it back, whatever the handler says", () => {
    expect(raised(new Error("aborted"), new Cancelled("by somebody")).kind).toBe("release");
    expect(settlementOf({ returned: true }, new Cancelled("by somebody")).kind).toBe("release");
  });
  test("of a worker that stops gives back what did not end", () => {
    expect(raised(new Error("aborted"), new Cancelled("stopping"), true).kind).toBe("release");
    expect(settlementOf({ returned: true }, new Cancelled("stopping"), true).kind).toBe("ack");
  });
});

describe("the ending of an effect", () => {
  const hold = { tenantId: undefined, scope: "charge", key: "k", onLapse: "hold" as const };
  const retry = { ...hold, onLapse: "retry" as const };
  test.each([
    ["Retry", new Retry("later"), hold, "failed_retryable"],
    ["NotDone", new NotDone("closed"), hold, "failed_retryable"],
    ["Snooze", new Snooze({ forMs: 5 }), hold, "failed_retryable"],
    ["Final", new Final("stolen"), hold, "failed_final"],
    ["Dead", new Dead("stolen"), retry, "failed_final"],
    ["an error under retry", new Error("time-out"), retry, "failed_retryable"],
    ["an error under hold", new Error("time-out"), hold, undefined],
    ["NotSent under retry", new NotSent("no connection"), retry, undefined],
  ])("%s", (_name, error, terms, status) => expect(ending(error, terms).finish?.status).toBe(status));

  test("what was not sent gives the lease up", () => {
    const error = new NotSent("no connection");
    expect(ending(error, hold)).toEqual({ release: "not_sent", raise: error });
    const lost = new Error("time-out");
    expect(ending(lost, hold)).toEqual({ release: "uncertain", raise: lost });
  });

  test("only Final is raised on as something else", () => {
    expect(ending(new Final("stolen"), hold).raise).toBeInstanceOf(EffectFailed);
    const error = new Dead("stolen");
    expect(ending(error, hold).raise).toBe(error);
  });
  test("whoever ran it gets what a replay gets", () => {
    expect(happened({ at: new Date(0) }).value).toEqual({ at: "1970-01-01T00:00:00.000Z" });
    expect(happened(Number.NaN)).toMatchObject({ value: null, finish: { body: "null" } });
    expect(happened("text")).toMatchObject({ value: "text", finish: { body: '"text"' } });
  });
  test("undefined is a success without a body, and null is not", () => {
    expect(happened(undefined)).toEqual({ value: undefined, finish: { status: "succeeded", code: 200 } });
    expect(happened(null)).toMatchObject({ value: null, finish: { body: "null" } });
  });
  test("a result that is no JSON has happened all the same", () => {
    expect(happened(1n)).toEqual({ value: 1n, finish: OMITTED });
    const nothing = () => undefined;
    expect(happened(nothing)).toEqual({ value: nothing, finish: OMITTED });
  });
  test("errors are cut to what the server keeps, in whole characters", () => {
    expect(clipped("short")).toBe("short");
    const text = clipped("ü".repeat(4_096));
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(4_096);
    expect(text).toMatch(/^ü+…$/);
    expect(clipped("half of \ud800 pair")).toBe("half of \ufffd pair");
  });
});

describe("heartbeats", () => {
  test("are tried until the first lease is over", () => {
    expect(beatPatienceMs(1_000, [{ until: 5_000 }, { until: 3_000 }], 9_000)).toBe(2_000);
    expect(beatPatienceMs(1_000, [{ until: 900 }], 9_000)).toBe(3_000);
  });
  test("what is over is lost, and nothing else", () => expect(lapsed(10, [{ until: 9 }, { until: 10 }, { until: 11 }])).toEqual([{ until: 9 }, { until: 10 }]));
  test("many leases take more than one call", () => expect(chunks([1, 2, 3, 4, 5], 2)).toEqual([[1, 2], [3, 4], [5]]));
});

describe("a delivery", () => {
  const item = { topic: "orders", partition: 0, offset: 1, priority: 0, produced_at: "", value: "1", lease: { token: "t", attempt: 1, expires_at: "" } };
  const made = () => new Delivery(item, 1_000, 1_000);
  test("is kept by heartbeats until it is settled or lost", () => {
    const [settled, lost, late] = [made(), made(), made()];
    settled.settled = true;
    lost.end(new LeaseLost("gone"));
    late.end(new TimedOut("late"));
    expect([made(), settled, lost, late].map(({ held }) => held)).toEqual([true, false, false, true]);
    for (const delivery of [lost, late]) delivery.stop();
  });
  test("keeps its first reason, except for a lost lease", () => {
    const delivery = made();
    delivery.end(new TimedOut("late"));
    delivery.end(new Cancelled("stopping"));
    expect(delivery.ended).toBeInstanceOf(TimedOut);
    delivery.end(new LeaseLost("gone"));
    expect(delivery.ended).toBeInstanceOf(LeaseLost);
    delivery.stop();
  });
  test("is left behind once, however many reasons it had to end", () => {
    vi.useFakeTimers();
    const delivery = made();
    let left = 0;
    delivery.patience = { over: () => (left += 1) };
    delivery.end(new TimedOut("late"));
    delivery.end(new LeaseLost("gone"));
    vi.runAllTimers();
    vi.useRealTimers();
    expect(left).toBe(1);
  });
  test("with an offset that JavaScript cannot hold is an error", () => {
    expect(() => new Delivery({ ...item, offset: 2 ** 53 }, 1_000, 1_000)).toThrow(DriftQError);
  });
});

describe("lineage", () => {
  const given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
  const random = (bytes: number) => "ab".repeat(bytes);

  test("goes on with a trace", () => {
    const trace = traceOf(given, random);
    expect(trace).toMatchObject({ traceId: "0af7651916cd43dd8448eb211c80319c", parentSpanId: "b7ad6b7169203331", spanId: random(8) });
    expect(trace.traceparent).toBe(`00-0af7651916cd43dd8448eb211c80319c-${random(8)}-00`);
  });
  test.each([[undefined], ["nonsense"], [given.replace("00-", "ff-")], [given.replace(/-[0-9a-f]{32}-/, `-${"0".repeat(32)}-`)]])("begins one instead of %s", (label) => {
    expect(traceOf(label, random)).toMatchObject({ traceId: random(16), parentSpanId: undefined });
  });
  test("a follow-up descends from its cause, unless it says otherwise", () => {
    const cause = { runId: "run-7", stepId: "charge", tenantId: "acme" } as Message;
    const trace = traceOf(given, random);
    expect(followUpOptions(cause, trace, "receipts", { key: "k" })).toEqual({
      key: "k", runId: "run-7", tenantId: "acme", parentStepId: "charge", stepId: "receipts", labels: { traceparent: trace.traceparent },
    });
    const own = { runId: "r", tenantId: "t", parentStepId: "p", stepId: "s", labels: { traceparent: "own", a: "b" } };
    expect(followUpOptions(cause, trace, "receipts", own)).toEqual(own);
  });
});

describe("batches of a producer", () => {
  test("have at most so many messages and bytes", () => {
    const queue = Array.from({ length: 2_500 }, () => ({ bytes: 10 }));
    expect([takeBatch(queue).length, takeBatch(queue).length, takeBatch(queue).length, queue.length]).toEqual([1_000, 1_000, 500, 0]);
    const large = Array.from({ length: 3 }, () => ({ bytes: BATCH_BYTES_MAX - 100 }));
    expect(takeBatch(large).length).toBe(1);
  });
});

test("names change between the wire and JavaScript, those of labels and headers do not", () => {
  const wire = { run_id: "r", value_b64: "x", labels: { my_label: "1" }, outcome: { headers: { "x-a_b": "c" }, finished_at: "t" } };
  const ours = { runId: "r", valueB64: "x", labels: { my_label: "1" }, outcome: { headers: { "x-a_b": "c" }, finishedAt: "t" } };
  expect(toCamel(wire)).toEqual(ours);
  expect(toSnake(ours)).toEqual(wire);
});
