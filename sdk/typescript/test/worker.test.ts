import { describe, expect, test } from "vitest";
import { Cancelled, Client, DeadlinePassed, LeaseLost, Retry, TimedOut, type WorkerEvent } from "../src/index.js";
import { assertEffects, runUntilIdle, TestServer } from "../src/testing/index.js";
import { Proxy } from "./support/proxy.js";
import { fired, gate } from "./support/signals.js";

const quiet = { onEvent: () => undefined };

async function withOrders(count: number, options: { onDisk?: boolean } = {}): Promise<TestServer> {
  const server = await TestServer.start(options);
  const client = server.client();
  await client.admin.createTopic("orders", { retryPolicy: { backoffMs: 1, maxBackoffMs: 1, jitter: "none" } });
  for (let order = 0; order < count; order += 1) await client.send("orders", { order });
  return server;
}

describe.concurrent("a server that is killed and started again", () => {
  test("while a handler runs: it goes on, the effect ran once, nothing is lost", async () => {
    await using server = await withOrders(1, { onDisk: true });
    const client = server.client();
    const charged = gate();
    const back = gate();
    const seen: number[] = [];
    let charges = 0;
    const worker = client.worker("billing", { leaseMs: 10_000, concurrency: 2, ...quiet }).handle("orders", async (_payload, context) => {
      seen.push(context.attempt);
      await context.effect("charge", { key: "order-0" }, () => (charges += 1));
      charged.open();
      await back.promise;
    });
    const run = runUntilIdle(worker);
    await charged.promise;
    await server.restart();
    back.open();
    await run;
    // Leases outlive the server: nobody else was asked.
    expect(seen).toEqual([1]);
    expect(charges).toBe(1);
    await assertEffects(server, { scope: "charge", count: 1 });
  });

  test("while an effect runs: its finish is heard afterwards", async () => {
    await using server = await withOrders(1, { onDisk: true });
    const begun = gate();
    const back = gate();
    let charges = 0;
    const results: unknown[] = [];
    const worker = server.client().worker("billing", { leaseMs: 10_000, concurrency: 2, ...quiet }).handle("orders", async (_payload, context) => {
      const result = await context.effect("charge", { key: "order-0" }, async () => {
        begun.open();
        await back.promise;
        return (charges += 1);
      });
      results.push(result);
    });
    const run = runUntilIdle(worker);
    await begun.promise;
    await server.restart();
    back.open();
    await run;
    expect(charges).toBe(1);
    expect(results).toEqual([1]);
    await assertEffects(server, { scope: "charge", count: 1 });
  });

  test("while the worker waits: it is waited for, and said so once", async ({ expect }) => {
    await using server = await withOrders(0, { onDisk: true });
    const events: WorkerEvent[] = [];
    const away = gate();
    const onEvent = (event: WorkerEvent) => {
      events.push(event);
      if (event.kind === "server_away") away.open();
    };
    const handled = gate<unknown>();
    const worker = server.client().worker("billing", { onEvent }).handle("orders", (payload) => handled.open(payload));
    await worker.start();
    await server.client().send("orders", "first");
    await handled.promise;
    await server.kill();
    await away.promise;
    await server.restart();
    const second = server.client().worker("audit", quiet).handle("orders", () => undefined);
    await server.client().send("orders", "second");
    await runUntilIdle(second);
    await expect.poll(async () => (await server.client().admin.group("orders", "billing")).lag, { timeout: 20_000 }).toBe(0);
    await worker.stop();
    expect(events.filter(({ kind }) => kind === "server_away").length).toBe(1);
    expect(events.filter(({ kind }) => kind === "server_back").length).toBe(1);
  });
});

describe.concurrent("a delivery that ends before its handler", () => {
  test("because the server cannot be reached past the lease: it is lost for good, also when the server is back", async () => {
    await using server = await withOrders(1);
    await using proxy = await Proxy.before(server.url);
    const told = gate<Error>();
    const again = gate();
    const options = { leaseMs: 600, concurrency: 2, cancelGraceMs: 30_000, ...quiet };
    const worker = new Client(proxy.url).worker("billing", options).handle("orders", async (_payload, { signal, attempt }) => {
      if (attempt > 1) return again.open();
      proxy.deed = ({ path }) => (/extend/.test(path) ? "hang" : "pass");
      told.open(await fired(signal));
      proxy.deed = () => "pass";
      // It goes on all the same. Were the lease extended again, nobody else would ever get the message.
      await again.promise;
    });
    await runUntilIdle(worker);
    expect(await told.promise).toBeInstanceOf(LeaseLost);
  });

  test("because its deadline passes: a dead letter", async () => {
    await using server = await withOrders(0);
    const client = server.client();
    await client.send("orders", 1, { deadline: new Date(Date.now() + 2_500) });
    let reason: unknown;
    await runUntilIdle(client.worker("billing", quiet).handle("orders", async (_payload, { signal }) => (reason = await fired(signal))));
    expect(reason).toBeInstanceOf(DeadlinePassed);
    const letters = [];
    for await (const letter of client.admin.deadLetters("orders")) letters.push(letter);
    expect(letters.length).toBe(1);
  });

  test("and a handler that does not heed it is left behind", async () => {
    await using server = await withOrders(1);
    const kinds: string[] = [];
    const attempts: number[] = [];
    const release = gate();
    const options = { cancelGraceMs: 50, onEvent: ({ kind }: WorkerEvent) => kinds.push(kind) };
    const worker = server.client().worker("billing", options).handle("orders", { timeoutMs: 50 }, async (_payload, context) => {
      attempts.push(context.attempt);
      if (context.attempt > 1) return;
      await release.promise;
      throw new Error("nobody listens any more");
    });
    await runUntilIdle(worker);
    release.open();
    expect(attempts).toEqual([1, 2]);
    expect(kinds).toContain("handler_left_behind");
  });

  test("by its time-out, whose reason is the signal's", async () => {
    await using server = await withOrders(1);
    let reason: unknown;
    const worker = server.client().worker("billing", quiet).handle("orders", { timeoutMs: 30 }, async (_payload, { signal, attempt }) => {
      if (attempt === 1) reason = await fired(signal);
    });
    await runUntilIdle(worker);
    expect(reason).toBeInstanceOf(TimedOut);
  });
});

describe.concurrent("a worker that stops", () => {
  test("lets handlers end, and gives back what it did not begin without using up an attempt", async () => {
    await using server = await withOrders(8);
    const client = server.client();
    const begun = gate();
    const end = gate();
    const first: number[] = [];
    const worker = client.worker("billing", { concurrency: 2, prefetch: 6, ...quiet }).handle<{ order: number }>("orders", async ({ order }) => {
      first.push(order);
      if (first.length === 2) begun.open();
      await end.promise;
    });
    await worker.start();
    await begun.promise;
    const stopped = worker.stop();
    end.open();
    await stopped;
    expect(first.length).toBe(2);
    expect(await client.admin.group("orders", "billing")).toMatchObject({ lag: 6, inFlight: 0 });

    const second: number[] = [];
    await runUntilIdle(client.worker("billing", quiet).handle("orders", (_payload, { attempt }) => second.push(attempt)));
    expect(second).toEqual([1, 1, 1, 1, 1, 1]);
  });

  test("cancels what takes too long, and gives it back", async () => {
    await using server = await withOrders(1);
    const client = server.client();
    const begun = gate();
    let reason: unknown;
    const worker = client.worker("billing", { drainTimeoutMs: 50, ...quiet }).handle("orders", async (_payload, { signal }) => {
      begun.open();
      reason = await fired(signal);
      throw reason;
    });
    await worker.start();
    await begun.promise;
    await worker.stop();
    expect(reason).toBeInstanceOf(Cancelled);
    expect(await client.admin.group("orders", "billing")).toMatchObject({ lag: 1, inFlight: 0 });
    const attempts: number[] = [];
    await runUntilIdle(client.worker("billing", quiet).handle("orders", (_payload, { attempt }) => attempts.push(attempt)));
    expect(attempts).toEqual([1]);
  });

  test("while its poll is being answered gives back what it was lent", async () => {
    await using server = await withOrders(3);
    await using proxy = await Proxy.before(server.url);
    const answered = gate();
    proxy.onSwallowed = () => answered.open();
    // The server has lent the messages, and the worker never hears of them.
    proxy.deed = ({ path }) => (/lease$/.test(path) && proxy.count(/lease$/) === 1 ? "swallow" : "pass");
    const worker = new Client(proxy.url).worker("billing", { concurrency: 3, ...quiet }).handle("orders", () => undefined);
    await worker.start();
    await answered.promise;
    expect(await server.client().admin.group("orders", "billing")).toMatchObject({ inFlight: 3 });
    await worker.stop();
    expect(await server.client().admin.group("orders", "billing")).toMatchObject({ inFlight: 0, lag: 3 });
    const attempts: number[] = [];
    await runUntilIdle(server.client().worker("billing", quiet).handle("orders", (_payload, { attempt }) => attempts.push(attempt)));
    expect(attempts).toEqual([1, 1, 1]);
  });

  test("does so with a poll under way, and can be disposed of", async () => {
    await using server = await withOrders(0);
    const client = server.client();
    {
      await using worker = client.worker("billing", quiet).handle("orders", () => undefined);
      await worker.start();
    }
    expect(await client.admin.group("orders", "billing")).toMatchObject({ inFlight: 0 });
  });

  test("because its topic was deleted rejects with that", async () => {
    await using server = await withOrders(0);
    const client = server.client();
    const worker = client.worker("billing", quiet).handle("orders", () => undefined);
    await worker.start();
    // Asked for before the deletion, whose own answer may come later than the end of the worker.
    const rejected = expect(worker.run({ signals: false })).rejects.toMatchObject({ code: "TOPIC_UNKNOWN" });
    await client.admin.deleteTopic("orders");
    await rejected;
  });
});

describe.concurrent("a batch handler", () => {
  test("settles all, one by one where it says so, and all with its error", async () => {
    await using server = await withOrders(5);
    const client = server.client();
    await client.admin.createTopic("receipts");
    const calls: number[][] = [];
    const worker = client.worker("billing", quiet).handleBatch<{ order: number }>("orders", { batch: 10 }, (items) => {
      calls.push(items.map(({ payload }) => payload.order).sort());
      if (calls.length === 1) throw new Error("all of them");
      for (const { payload, context, fail } of items) {
        if (payload.order === 2 && context.attempt === 2) fail(new Retry("only this one"));
        else context.send("receipts", payload);
      }
    });
    await runUntilIdle(worker);
    expect(calls[0]).toEqual([0, 1, 2, 3, 4]);
    const receipts = [];
    for await (const message of client.admin.messages("receipts")) receipts.push(JSON.parse(message.value!).order);
    expect(receipts.sort()).toEqual([0, 1, 2, 3, 4]);
    expect(calls.flat().length).toBe(11);
  });
});

describe.concurrent("payloads", () => {
  test("bytes, text and schemas", async () => {
    await using server = await TestServer.start();
    const client = server.client();
    for (const topic of ["bytes", "text", "parsed"]) await client.admin.createTopic(topic);
    const bytes = new Uint8Array([0, 255, 128]);
    await client.send("bytes", bytes);
    await client.send("text", "hello");
    await client.send("parsed", { cents: "500" });
    const seen: unknown[] = [];
    const worker = client.worker("all", quiet);
    worker.handle<Uint8Array>("bytes", { encoding: "bytes" }, (payload) => seen.push([...payload]));
    worker.handle<string>("text", { encoding: "text" }, (payload) => seen.push(payload));
    const schema = { parse: async (input: unknown) => ({ cents: Number((input as { cents: string }).cents) }) };
    worker.handle("parsed", { schema }, (payload) => seen.push(payload.cents + 1));
    await runUntilIdle(worker);
    expect(seen).toEqual(expect.arrayContaining([[0, 255, 128], '"hello"', 501]));
  });

  test("one that does not parse can be retried instead", async () => {
    await using server = await withOrders(1);
    let calls = 0;
    const schema = () => {
      calls += 1;
      if (calls < 3) throw new Error("not yet");
    };
    await runUntilIdle(server.client().worker("billing", quiet).handle("orders", { schema, badPayload: "retry" }, () => undefined));
    expect(calls).toBe(3);
  });
});

test("a token that is stale settles nothing, and is told as an event", async () => {
  await using server = await withOrders(1);
  const events: WorkerEvent[] = [];
  const again = gate();
  const options = { leaseMs: 200, heartbeat: false, concurrency: 2, onEvent: (event: WorkerEvent) => events.push(event) };
  const worker = server.client().worker("billing", options).handle("orders", async (_payload, { attempt }) => {
    if (attempt === 1) await again.promise;
    else again.open();
  });
  await runUntilIdle(worker);
  await expect.poll(() => events.map(({ kind }) => kind), { timeout: 20_000 }).toContain("settlement_lost");
});
