import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Client, type Context, type Message } from "../src/index.js";
import { assertEffects, runUntilIdle, TestServer } from "../src/testing/index.js";
import { Proxy, type Deed, type Seen } from "./support/proxy.js";

// The end of an effect goes with the ack of its message, and what many handlers say goes in one call.

let server: TestServer;
let client: Client;
beforeAll(async () => {
  server = await TestServer.start();
  client = server.client();
});
afterAll(() => server.stop());

const QUICK = { retryPolicy: { backoffMs: 1, maxBackoffMs: 1, jitter: "none" as const } };
const problem = (code: string, status: number, part: string): Deed => ({
  status,
  body: JSON.stringify({ code, status, retryable: false, detail: "said by the test", part }),
});

/** Runs a worker before the proxy until the topic is done; the calls about effects and leases, in order. */
async function calls(proxy: Proxy, topic: string, handler: (order: number, context: Context) => unknown, concurrency = 1): Promise<Seen[]> {
  const worker = new Client(proxy.url).worker("billing", { concurrency, onEvent: () => undefined });
  worker.handle<{ order: number }>(topic, ({ order }, context) => handler(order, context));
  await runUntilIdle(worker);
  return proxy.seen.filter(({ path }) => /^\/v2\/(commit|effects|leases\/(ack|nack|release))/.test(path));
}

async function fill(topic: string, count = 1): Promise<void> {
  await client.admin.createTopic(topic, QUICK);
  for (let order = 0; order < count; order += 1) await client.send(topic, { order });
}

async function messages(topic: string): Promise<Message[]> {
  const found: Message[] = [];
  for await (const message of client.admin.messages(topic)) found.push(message);
  return found;
}

const paths = (seen: readonly Seen[]) => seen.map(({ path }) => path.replace("/v2/", ""));

describe.concurrent("what many handlers say at once", () => {
  test("goes in one call each: their begins, and the commits that have the ends of their effects", async () => {
    await fill("many", 50);
    await client.admin.createTopic("many-receipts");
    await using proxy = await Proxy.before(server.url);
    const seen = await calls(proxy, "many", async (order, ctx) => {
      const charge = await ctx.effect("many", { key: `order-${order}` }, () => ({ order }));
      ctx.send("many-receipts", charge);
    }, 50);
    expect(new Set(paths(seen))).toEqual(new Set(["effects/begin", "commit"]));
    // One call for all that were there at once; they may have come in a few pieces.
    expect(seen.length).toBeLessThanOrEqual(12);
    await assertEffects(server, { scope: "many", count: 50 });
    const receipts = await messages("many-receipts");
    expect(receipts.map(({ value }) => value).sort()).toEqual(Array.from({ length: 50 }, (_, order) => JSON.stringify({ order })).sort());
  });

  test("is refused one by one", async () => {
    await fill("mixed", 6);
    await client.admin.createTopic("mixed-receipts");
    await using proxy = await Proxy.before(server.url);
    const attempts: Record<number, number> = {};
    let charges = 0;
    await calls(proxy, "mixed", async (order, ctx) => {
      attempts[order] = ctx.attempt;
      await ctx.effect("mixed", { key: `order-${order}` }, () => (charges += 1));
      // The first attempt of one of them is refused; its effect has happened all the same.
      ctx.send(order === 3 && ctx.attempt === 1 ? "mixed-nowhere" : "mixed-receipts", { order });
    }, 6);
    expect(attempts).toEqual({ 0: 1, 1: 1, 2: 1, 3: 2, 4: 1, 5: 1 });
    expect(charges).toBe(6);
    await assertEffects(server, { scope: "mixed", count: 6 });
    expect(await messages("mixed-receipts")).toHaveLength(6);
  });
});

describe.concurrent("the end of an effect", () => {
  test("rides in the commit that acks its message", async () => {
    await fill("rides");
    await using proxy = await Proxy.before(server.url);
    const seen = await calls(proxy, "rides", (_order, ctx) => ctx.effect("rides", { key: "k" }, () => "done"));
    expect(paths(seen)).toEqual(["effects/begin", "commit"]);
    expect(JSON.parse(seen[1]!.body)).toMatchObject({ ack: [expect.any(String)], effects: [{ status: "succeeded", body: '"done"' }] });
    await assertEffects(server, { scope: "rides", count: 1 });
  });

  test("goes at once if the handler goes on, and before the ack", async () => {
    await fill("goes-on");
    await using proxy = await Proxy.before(server.url);
    const seen = await calls(proxy, "goes-on", async (_order, ctx) => {
      await ctx.effect("goes-on", { key: "k" }, () => "done");
      while ((await client.admin.effect("goes-on", "k")).state !== "succeeded");
    });
    expect(paths(seen).slice(0, 2)).toEqual(["effects/begin", "effects/finish"]);
    // The ack has nothing to go with any more, unless the answer to the finish is still on its way.
    expect(["leases/ack", "commit"]).toContain(paths(seen)[2]);
    expect(seen[2]!.body).not.toContain("done");
  });

  test("is heard before the ack, however long that takes", async ({ expect }) => {
    await fill("slow");
    await using proxy = await Proxy.before(server.url);
    let answer = () => undefined as void;
    const asked = new Promise<void>((resolve) => {
      proxy.deed = ({ path }) => {
        if (!/finish/.test(path)) return "pass";
        resolve();
        return new Promise((pass) => (answer = () => pass("pass")));
      };
    });
    let ended = false;
    const running = calls(proxy, "slow", async (_order, ctx) => {
      await ctx.effect("slow", { key: "k" }, () => "done");
      await asked;
      ended = true;
    });
    await expect.poll(() => ended, { timeout: 10_000 }).toBe(true);
    // A call there and back, in which an ack would have gone out.
    await client.admin.effect("slow", "k");
    expect(proxy.count(/leases|commit/)).toBe(0);
    answer();
    expect(paths(await running)).toEqual(["effects/begin", "effects/finish", "commit"]);
  });

  test("is heard before the message can come again", async () => {
    await fill("thrown");
    await using proxy = await Proxy.before(server.url);
    let charges = 0;
    const seen = await calls(proxy, "thrown", async (_order, ctx) => {
      await ctx.effect("thrown", { key: "k" }, () => (charges += 1));
      if (ctx.attempt === 1) throw new Error("after the charge");
    });
    expect(paths(seen)).toEqual(["effects/begin", "effects/finish", "leases/nack", "effects/begin", "leases/ack"]);
    expect(charges).toBe(1);
  });

  test("is known to the same handler when it asks again", async () => {
    await fill("twice");
    await using proxy = await Proxy.before(server.url);
    const results: number[] = [];
    let charges = 0;
    const seen = await calls(proxy, "twice", async (_order, ctx) => {
      for (let call = 0; call < 2; call += 1) results.push(await ctx.effect("twice", { key: "k" }, () => (charges += 1)));
    });
    expect(results).toEqual([1, 1]);
    expect(paths(seen)).toEqual(["effects/begin", "effects/finish", "effects/begin", "leases/ack"]);
  });

  test("rides with the others of its message", async () => {
    await fill("several");
    await using proxy = await Proxy.before(server.url);
    const seen = await calls(proxy, "several", async (_order, ctx) => {
      await Promise.all(["a", "b"].map((key) => ctx.effect("several", { key }, () => key)));
    });
    expect(paths(seen)).toEqual(["effects/begin", "commit"]);
    expect(JSON.parse(seen[1]!.body).effects).toHaveLength(2);
    await assertEffects(server, { scope: "several", count: 2 });
  });

  test("is stored before the handler goes on, if that is asked for or there is much of it", async () => {
    await fill("durable", 2);
    await using proxy = await Proxy.before(server.url);
    const states: string[] = [];
    await calls(proxy, "durable", async (order, ctx) => {
      const large = order === 1;
      await ctx.effect("durable", { key: `order-${order}`, durable: !large }, () => (large ? "x".repeat(70_000) : "done"));
      states.push((await client.admin.effect("durable", `order-${order}`)).state);
    });
    expect(states).toEqual(["succeeded", "succeeded"]);
  });

  test("does not wait for room for a follow-up", async () => {
    await fill("no-room");
    await client.admin.createTopic("no-room-receipts");
    await using proxy = await Proxy.before(server.url);
    const full = { code: "OVERLOADED", status: 429, retryable: true, retry_after_ms: 5, detail: "no room" };
    // There is room as soon as the server knows that the effect has ended.
    proxy.deed = ({ path }) => (/commit/.test(path) && proxy.count(/finish/) === 0 ? { status: 429, body: JSON.stringify(full) } : "pass");
    await calls(proxy, "no-room", async (_order, ctx) => {
      ctx.send("no-room-receipts", await ctx.effect("no-room", { key: "k" }, () => "done"));
    });
    expect(proxy.count(/finish/)).toBe(1);
    expect(await messages("no-room-receipts")).toHaveLength(1);
    await assertEffects(server, { scope: "no-room", count: 1 });
  });

  test("that is too large for the commit goes alone, and the message is acked", async () => {
    await fill("large");
    await using proxy = await Proxy.before(server.url);
    proxy.deed = ({ path, body }) => (/commit/.test(path) && body.includes('"effects"') ? problem("RESULT_TOO_LARGE", 413, "effects[0]") : "pass");
    const attempts: number[] = [];
    const seen = await calls(proxy, "large", async (_order, ctx) => {
      attempts.push(ctx.attempt);
      await ctx.effect("large", { key: "k" }, () => "done");
    });
    expect(paths(seen)).toEqual(["effects/begin", "commit", "effects/finish", "commit"]);
    expect(attempts).toEqual([1]);
  });

  test("that was overtaken drops what the handler returned", async () => {
    await fill("overtaken");
    await client.admin.createTopic("overtaken-receipts");
    await using proxy = await Proxy.before(server.url);
    proxy.deed = ({ path, body }) => {
      if (/commit/.test(path) && body.includes("first")) return problem("STALE_LEASE", 409, "effects[0]");
      return /finish/.test(path) && body.includes("first") ? problem("STALE_LEASE", 409, "") : "pass";
    };
    const seen = await calls(proxy, "overtaken", async (_order, ctx) => {
      if (ctx.attempt > 1) return;
      ctx.send("overtaken-receipts", await ctx.effect("overtaken", { key: "k" }, () => "first"));
    });
    expect(paths(seen).slice(0, 4)).toEqual(["effects/begin", "commit", "effects/finish", "leases/nack"]);
    expect(proxy.count(/resolve/)).toBe(0);
    expect(await messages("overtaken-receipts")).toHaveLength(0);
  });

  test("goes with a commit that the handler makes itself", async () => {
    await fill("own-commit");
    await using proxy = await Proxy.before(server.url);
    const seen = await calls(proxy, "own-commit", async (_order, ctx) => {
      await ctx.effect("own-commit", { key: "k" }, () => "done");
      expect((await ctx.commit()).result).toBe("committed");
      expect((await client.admin.effect("own-commit", "k")).state).toBe("succeeded");
      // After the ack, there is nothing that it could ride in.
      await ctx.effect("own-commit", { key: "late" }, () => "done").catch(() => undefined);
    });
    expect(paths(seen).slice(0, 2)).toEqual(["effects/begin", "commit"]);
  });
});
