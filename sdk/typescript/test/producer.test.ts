import { describe, expect, test } from "vitest";
import { Client, SendFailed, TopicUnknown, type Receipt } from "../src/index.js";
import { TestServer } from "../src/testing/index.js";
import { Proxy } from "./support/proxy.js";
import { gate } from "./support/signals.js";

async function values(client: Client, topic: string): Promise<unknown[]> {
  const all = [];
  for await (const message of client.admin.messages(topic)) all.push(JSON.parse(message.value!));
  return all;
}

describe.concurrent("a producer", () => {
  test("sends in order, many messages with one call, and flushes when it is closed", async () => {
    await using server = await TestServer.start();
    await using proxy = await Proxy.before(server.url);
    await server.client().admin.createTopic("events");
    const receipts: Receipt[] = [];
    {
      await using producer = new Client(proxy.url).producer();
      for (let n = 0; n < 2_500; n += 1) receipts.push(await producer.send("events", n));
    }
    expect((await Promise.all(receipts.map(({ stored }) => stored))).map(({ offset }) => offset)).toEqual(Array.from({ length: 2_500 }, (_, n) => n));
    expect(proxy.count(/messages/)).toBeLessThanOrEqual(5);
    expect(await values(server.client(), "events")).toEqual(Array.from({ length: 2_500 }, (_, n) => n));
  });

  test("repeats a batch whose answer was lost, and stores it once", async () => {
    await using server = await TestServer.start();
    await using proxy = await Proxy.before(server.url);
    await server.client().admin.createTopic("events");
    proxy.deed = ({ path }) => (/messages/.test(path) && proxy.count(/messages/) === 1 ? "lose_answer" : "pass");
    const producer = new Client(proxy.url).producer();
    for (let n = 0; n < 10; n += 1) await producer.send("events", n);
    await producer.flush();
    expect(proxy.count(/messages/)).toBe(2);
    expect(await values(server.client(), "events")).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });

  test("waits when its buffer is full", async ({ expect }) => {
    await using server = await TestServer.start();
    await using proxy = await Proxy.before(server.url);
    await server.client().admin.createTopic("events");
    const held = gate();
    let open = false;
    void held.promise.then(() => (open = true));
    proxy.deed = ({ path }) => (open || !/messages/.test(path) ? "pass" : { status: 503, body: JSON.stringify({ code: "UNAVAILABLE", status: 503, retryable: true, detail: "starting", retry_after_ms: 5 }) });
    const producer = new Client(proxy.url).producer({ buffer: 3 });
    for (let n = 0; n < 3; n += 1) await producer.send("events", n);
    let taken = false;
    const fourth = producer.send("events", 3).then(() => (taken = true));
    await expect.poll(() => proxy.count(/messages/), { timeout: 20_000 }).toBeGreaterThan(2);
    expect(taken).toBe(false);
    held.open();
    await fourth;
    await producer.close();
    expect(await values(server.client(), "events")).toEqual([0, 1, 2, 3]);
    await expect(producer.send("events", 4)).rejects.toThrow("closed");
  });

  test("fails the one message that is refused for good, and no other", async () => {
    await using server = await TestServer.start();
    const client = server.client();
    await client.admin.createTopic("events");
    const producer = client.producer();
    const receipts = [await producer.send("events", 1), await producer.send("events", 2, { priority: 99 }), await producer.send("events", 3)];
    const settled = await Promise.allSettled(receipts.map(({ stored }) => stored));
    expect(settled.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    const error = await producer.flush().catch((raised: unknown) => raised);
    expect(error).toBeInstanceOf(SendFailed);
    expect(error).toMatchObject({ count: 1 });
    await producer.flush();
    expect(await values(client, "events")).toEqual([1, 3]);
  });

  test("sends again what was refused for now", async () => {
    await using server = await TestServer.start();
    const client = server.client();
    await client.admin.createTopic("small", { partitionMessagesMax: 2 });
    const producer = client.producer();
    const receipts: Receipt[] = [];
    for (let n = 0; n < 4; n += 1) receipts.push(await producer.send("small", n));
    await receipts[1]!.stored;
    const worker = client.worker("reader", { onEvent: () => undefined }).handle("small", () => undefined);
    await worker.start();
    await producer.flush();
    await worker.stop();
    expect((await Promise.all(receipts.map(({ stored }) => stored))).map(({ offset }) => offset)).toEqual([0, 1, 2, 3]);
  });

  test("tells of a topic that does not exist", async () => {
    await using server = await TestServer.start();
    const producer = server.client().producer();
    const { stored } = await producer.send("nowhere", 1);
    await expect(stored).rejects.toBeInstanceOf(TopicUnknown);
    await expect(producer.close()).rejects.toBeInstanceOf(SendFailed);
  });
});
