import { describe, expect, test } from "vitest";
import { HandlersStuck, type WorkerEvent } from "../src/index.js";
import { runUntilIdle, TestServer } from "../src/testing/index.js";
import { LEFT_BEHIND_MAX } from "../src/worker.js";
import { gate } from "./support/signals.js";

const quiet = { onEvent: () => undefined };

async function withTopics(counts: Record<string, number>): Promise<TestServer> {
  const server = await TestServer.start();
  const client = server.client();
  const producer = client.producer();
  for (const [topic, count] of Object.entries(counts)) {
    await client.admin.createTopic(topic, { retryPolicy: { backoffMs: 1, maxBackoffMs: 1, jitter: "none" } });
    for (let n = 0; n < count; n += 1) await producer.send(topic, n);
  }
  await producer.close();
  return server;
}

describe.concurrent("the handlers of a worker", () => {
  test("are counted over all topics, and all places are taken", async () => {
    const counts = { a: 30, b: 30, c: 30 };
    await using server = await withTopics(counts);
    const worker = server.client().worker("billing", { concurrency: 4, ...quiet });
    const seen = { a: 0, b: 0, c: 0 };
    let [running, most] = [0, 0];
    const full = gate();
    for (const topic of ["a", "b", "c"] as const) {
      worker.handle(topic, async () => {
        seen[topic] += 1;
        running += 1;
        most = Math.max(most, running);
        if (running === 4) full.open();
        // Nobody ends before all places have been taken once; then everybody gives the others a chance to be too many.
        await full.promise;
        for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
        running -= 1;
      });
    }
    await runUntilIdle(worker);
    expect(most).toBe(4);
    expect(seen).toEqual(counts);
  });

  test("are one at a time unless more are asked for", async () => {
    await using server = await withTopics({ a: 5, b: 5 });
    const worker = server.client().worker("billing", quiet);
    let [running, most] = [0, 0];
    const handler = async () => {
      running += 1;
      most = Math.max(most, running);
      for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
    };
    await runUntilIdle(worker.handle("a", handler).handle("b", handler));
    expect(most).toBe(1);
  });

  test("of a topic keep to a bound of its own, and others to theirs", async () => {
    await using server = await withTopics({ narrow: 10, wide: 10 });
    const worker = server.client().worker("billing", { concurrency: 4, ...quiet });
    const running = { narrow: 0, wide: 0 };
    const most = { narrow: 0, wide: 0 };
    const full = gate();
    const handler = (topic: "narrow" | "wide") => async () => {
      running[topic] += 1;
      most[topic] = Math.max(most[topic], running[topic]);
      if (running.wide === 3) full.open();
      await full.promise;
      for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
      running[topic] -= 1;
    };
    worker.handle("narrow", { concurrency: 1 }, handler("narrow")).handle("wide", handler("wide"));
    await runUntilIdle(worker);
    expect(most.narrow).toBe(1);
    expect(most.wide).toBeGreaterThanOrEqual(3);
  });

  test("take turns: a topic with much to do does not keep another from its own", async () => {
    await using server = await withTopics({ busy: 500, calm: 5 });
    const worker = server.client().worker("billing", { concurrency: 2, prefetch: 20, ...quiet });
    const order: string[] = [];
    for (const topic of ["busy", "calm"]) worker.handle(topic, () => void order.push(topic));
    await runUntilIdle(worker);
    expect(order.length).toBe(505);
    expect(order.lastIndexOf("calm")).toBeLessThan(250);
  });

  test("hold no more messages than there is room for", async ({ expect }) => {
    await using server = await withTopics({ a: 50, b: 50, c: 50 });
    const client = server.client();
    const worker = client.worker("billing", { concurrency: 3, prefetch: 6, ...quiet });
    const begun = gate();
    const end = gate();
    let running = 0;
    for (const topic of ["a", "b", "c"]) {
      worker.handle(topic, () => {
        running += 1;
        if (running === 3) begun.open();
        return end.promise;
      });
    }
    await worker.start();
    await begun.promise;
    const held = async () => {
      const groups = await Promise.all(["a", "b", "c"].map((topic) => client.admin.group(topic, "billing")));
      return groups.reduce((sum, { inFlight }) => sum + inFlight, 0);
    };
    await expect.poll(held, { timeout: 20_000 }).toBeGreaterThan(3);
    expect(await held()).toBeLessThanOrEqual(9);
    end.open();
    await worker.stop();
    expect(await held()).toBe(0);
  });
});

describe.concurrent("handlers that are left behind", () => {
  const options = { cancelGraceMs: 0, onEvent: () => undefined };

  test("end the worker when they are too many", async () => {
    const count = LEFT_BEHIND_MAX + 50;
    await using server = await withTopics({ stuck: count });
    const events: WorkerEvent[] = [];
    let calls = 0;
    const worker = server.client().worker("billing", { ...options, concurrency: 10, onEvent: (event) => events.push(event) });
    worker.handle("stuck", { timeoutMs: 1 }, () => {
      calls += 1;
      return new Promise(() => undefined);
    });
    const error = await worker.run({ signals: false }).catch((raised: unknown) => raised);
    expect(error).toBeInstanceOf(HandlersStuck);
    expect(error).toMatchObject({ count: LEFT_BEHIND_MAX + 1, message: expect.stringContaining("ctx.signal") });
    expect(calls).toBeGreaterThan(LEFT_BEHIND_MAX);
    expect(calls).toBeLessThanOrEqual(LEFT_BEHIND_MAX + 10);
    expect(events.filter(({ kind }) => kind === "handler_left_behind").length).toBe(calls);
    // No message is lost with them.
    expect(await server.client().admin.group("stuck", "billing")).toMatchObject({ lag: count, inFlight: 0 });
  });

  test("count only as long as they go on", async () => {
    const count = LEFT_BEHIND_MAX + 20;
    await using server = await withTopics({ slow: count });
    let kinds = 0;
    let last = gate();
    const onEvent = ({ kind }: WorkerEvent) => void (kinds += kind === "handler_left_behind" ? 1 : 0);
    const worker = server.client().worker("billing", { ...options, onEvent }).handle("slow", { timeoutMs: 1 }, async (_payload, { attempt }) => {
      // It ends when the next one begins, and that is only when it was left behind.
      last.open();
      last = gate();
      if (attempt === 1) await last.promise;
    });
    await runUntilIdle(worker);
    expect(kinds).toBeGreaterThanOrEqual(count);
  });
});
