import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Client, Dead, Final, NotDone, raw, Retry, Snooze, type Context, type WorkerEvent } from "../src/index.js";
import { runUntilIdle, TestServer } from "../src/testing/index.js";
import { DURATION_MS_MAX } from "../src/limits.js";
import { settlementOf } from "../src/settle.js";
import { Proxy } from "./support/proxy.js";
import { gate } from "./support/signals.js";

const quiet = { onEvent: () => undefined };
const settled = (error: unknown) => settlementOf({ returned: false, error }, undefined);

let server: TestServer;
let client: Client;
let topics = 0;
beforeAll(async () => {
  server = await TestServer.start();
  client = server.client();
});
afterAll(() => server.stop());

/** A topic of its own with these messages, each of which may come twice. */
async function topicOf(...values: unknown[]): Promise<string> {
  const topic = `topic-${(topics += 1)}`;
  await client.admin.createTopic(topic, { retryPolicy: { maxAttempts: 2, backoffMs: 1, maxBackoffMs: 1, jitter: "none" } });
  for (const value of values) await client.send(topic, value);
  return topic;
}

async function deadLetters(topic: string): Promise<number> {
  let count = 0;
  for await (const _letter of client.admin.deadLetters(topic)) count += 1;
  return count;
}

describe("what an outcome is made of", () => {
  test.each([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -1])("%d is no time", (ms) => {
    expect(() => new Retry("later", { afterMs: ms })).toThrow(RangeError);
    expect(() => new Snooze({ forMs: ms })).toThrow(RangeError);
  });
  test.each([["a text", "5s"], ["null", null], ["an object", {}]])("%s is no time either", (_name, ms) => {
    expect(() => new Retry("later", { afterMs: ms as number })).toThrow(TypeError);
    expect(() => new Snooze({ forMs: ms as number })).toThrow(TypeError);
  });
  test("a time is whole milliseconds, and at most what the server takes", () => {
    expect(new Retry("later", { afterMs: 0.5 }).afterMs).toBe(1);
    expect(new Retry("later", { afterMs: 1e18 }).afterMs).toBe(DURATION_MS_MAX);
    expect(new Snooze({ forMs: 1e18 }).forMs).toBe(DURATION_MS_MAX);
    expect(new Retry("later").afterMs).toBeUndefined();
  });
  test("a reason is a text, that of an error if it is one, which is then the cause", () => {
    const error = new Error("bad card");
    for (const outcome of [new Dead(error), new Retry(error), new Final(error)]) {
      expect(outcome).toMatchObject({ reason: "bad card", message: "bad card", cause: error });
    }
    expect(new NotDone(error)).toMatchObject({ message: "bad card", cause: error });
    expect(new Dead(7 as unknown as string).reason).toBe("7");
    expect(new Dead(Object.create(null) as string).reason).toBe("an error without a text");
    const cause = new Error("why");
    expect(new Dead(error, { cause }).cause).toBe(cause);
  });
  test("one that was changed afterwards still settles", () => {
    expect(settled(Object.assign(new Retry("later"), { afterMs: 1e15 }))).toMatchObject({ kind: "nack", delayMs: DURATION_MS_MAX });
    expect(settled(Object.assign(new Retry("later"), { afterMs: Number.NaN }))).toMatchObject({ kind: "nack", delayMs: undefined });
    expect(settled(Object.assign(new Snooze({ forMs: 1 }), { forMs: "soon" }))).toEqual({ kind: "release", delayMs: 0 });
    expect(settled(Object.create(Dead.prototype))).toEqual({ kind: "nack", dead: true, error: "undefined" });
  });
});

const unspeakable = (): Error => Object.defineProperty(new Error("x"), "message", { get: () => { throw new Error("no"); } });
const untouchable = (): object => new globalThis.Proxy({}, { getPrototypeOf: () => { throw new Error("no"); }, get: () => { throw new Error("no"); } });
const hostile: [string, () => unknown][] = [
  ["nothing", () => undefined],
  ["an object without a prototype", () => Object.create(null)],
  ["an error whose text cannot be read", unspeakable],
  ["an object that cannot be touched", untouchable],
  ["a symbol", () => Symbol("s")],
  ["half of a pair", () => new Error("\ud800")],
  ["an outcome without its parts", () => Object.create(Retry.prototype) as unknown],
];

describe.concurrent("whatever a handler throws", () => {
  test.each(hostile)("%s: the message is nacked, and the worker goes on", async (_name, thrown) => {
    const topic = await topicOf(1);
    const attempts: number[] = [];
    // No listener of its own: what is printed has to be put into words, too.
    const worker = client.worker("billing").handle(topic, (_payload, { attempt }) => {
      attempts.push(attempt);
      if (attempt === 1) throw thrown();
    });
    await runUntilIdle(worker);
    expect(attempts).toEqual([1, 2]);
  });

  test.each(hostile)("%s, of a single message of a batch", async (_name, thrown) => {
    const topic = await topicOf(1, 2);
    const attempts: number[] = [];
    const worker = client.worker("billing", quiet).handleBatch<number>(topic, { batch: 2 }, (items) => {
      for (const { payload, context, fail } of items) {
        attempts.push(context.attempt);
        if (payload === 1 && context.attempt === 1) fail(thrown());
      }
    });
    await runUntilIdle(worker);
    expect(attempts.sort()).toEqual([1, 1, 2]);
  });

  test.each(hostile)("%s, by a schema: a dead letter", async (_name, thrown) => {
    const topic = await topicOf(1);
    let calls = 0;
    const schema = () => {
      calls += 1;
      throw thrown();
    };
    await runUntilIdle(client.worker("billing", quiet).handle(topic, { schema }, () => undefined));
    expect(await deadLetters(topic)).toBe(1);
    expect(calls).toBe(1);
  });

  test("a time that is none is an error of the handler", async () => {
    const topic = await topicOf(1);
    const errors: unknown[] = [];
    await runUntilIdle(client.worker("billing", quiet).handle(topic, (_payload, { attempt, lastError }) => {
      errors.push(lastError);
      if (attempt === 1) throw new Retry("later", { afterMs: Number.NaN });
    }));
    expect(errors).toEqual([undefined, expect.stringMatching(/^RangeError: afterMs/)]);
  });
});

describe.concurrent("a settlement that the server refuses", () => {
  const refusal = JSON.stringify({ code: "INVALID_ARGUMENT", status: 400, detail: "not so", help: "", retryable: false });

  /** All five end together, so that they are settled by one call, which is refused because of one of them. */
  async function refusedOne(act: (order: number, context: Context) => void): Promise<{ events: WorkerEvent[]; calls: [number, number][]; letters: () => Promise<number> }> {
    await using proxy = await Proxy.before(server.url);
    const topic = await topicOf(0, 1, 2, 3, 4);
    proxy.deed = ({ path, body }) => (/nack|release/.test(path) && /refuse me|"delay_ms":77/.test(body) ? { status: 400, body: refusal } : "pass");
    const events: WorkerEvent[] = [];
    const calls: [number, number][] = [];
    const all = gate();
    const options = { concurrency: 5, onEvent: (event: WorkerEvent) => events.push(event) };
    const worker = new Client(proxy.url).worker("billing", options).handle<number>(topic, async (order, context) => {
      calls.push([order, context.attempt]);
      if (calls.length === 5) all.open();
      await all.promise;
      act(order, context);
    });
    await runUntilIdle(worker);
    return { events, calls: calls.sort(), letters: () => deadLetters(topic) };
  }

  test("spoils no other, and is a plain nack", async () => {
    const { events, calls, letters } = await refusedOne((order, { attempt }) => {
      if (order > 0) throw new Dead("no use");
      if (attempt === 1) throw new Retry("refuse me");
    });
    expect(calls).toEqual([[0, 1], [0, 2], [1, 1], [2, 1], [3, 1], [4, 1]]);
    expect(await letters()).toBe(4);
    expect(events.filter(({ kind }) => kind === "settlement_refused").length).toBe(1);
    expect(events.filter(({ kind }) => kind === "settlement_lost")).toEqual([]);
  });

  test("as a dead letter becomes one all the same", async () => {
    const { calls, letters } = await refusedOne((order) => {
      throw new Dead(order === 0 ? "refuse me" : "no use");
    });
    expect(calls).toEqual([[0, 1], [1, 1], [2, 1], [3, 1], [4, 1]]);
    expect(await letters()).toBe(5);
  });

  test("as a snooze is a plain nack, too", async () => {
    const { calls } = await refusedOne((order, { attempt }) => {
      if (order === 0 && attempt === 1) throw new Snooze({ forMs: 77 });
    });
    expect(calls).toEqual([[0, 1], [0, 2], [1, 1], [2, 1], [3, 1], [4, 1]]);
  });
});

describe.concurrent("a raw text", () => {
  test("comes as it is to whoever reads texts, and is a bad payload to whoever reads JSON", async () => {
    const texts: unknown[] = [];
    const payloads: unknown[] = [];
    const [read, parsed] = [await topicOf(raw("hello"), "hello"), await topicOf(raw("hello"), "hello")];
    const producer = client.producer();
    for (const topic of [read, parsed]) await producer.send(topic, raw("from a producer"));
    await producer.close();
    const worker = client.worker("readers", quiet);
    worker.handle(read, { encoding: "text" }, (text) => texts.push(text));
    worker.handle(parsed, (payload) => payloads.push(payload));
    await runUntilIdle(worker);
    expect(texts.sort()).toEqual(['"hello"', "from a producer", "hello"]);
    expect(payloads).toEqual(["hello"]);
    expect(await deadLetters(parsed)).toBe(2);
  });

  test("is a text, and a whole payload", async () => {
    expect(() => raw(5 as unknown as string)).toThrow(TypeError);
    await expect(new Client("http://127.0.0.1:2").send("orders", { part: raw("x") })).rejects.toBeInstanceOf(TypeError);
  });
});
