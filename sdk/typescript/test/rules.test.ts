import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Client, currentEffect, EffectBusy, EffectExhausted, EffectUncertain, found, guarded, KeyReused, LeaseLost, NotSent } from "../src/index.js";
import { decodeMessage } from "../src/message.js";
import { anchorOf } from "../src/keys.js";
import { runUntilIdle, TestServer } from "../src/testing/index.js";
import type { WireItem } from "../src/wire.js";
import { Proxy, type Deed, type Seen } from "./support/proxy.js";
import { gate } from "./support/signals.js";

// The rules of docs/sdk.md that need a server which answers in a certain way.

let server: TestServer;
let client: Client;
beforeAll(async () => {
  server = await TestServer.start();
  client = server.client();
});
afterAll(() => server.stop());

const problem = (code: string, status: number, more: object = {}): Deed => ({
  status,
  body: JSON.stringify({ code, status, retryable: false, detail: "said by the test", ...more }),
});
const answer = (body: object): Deed => ({ status: 200, body: JSON.stringify(body), headers: { "content-type": "application/json" } });
const paths = (seen: readonly Seen[]) => seen.map(({ path }) => path);

describe.concurrent("an effect that was overtaken", () => {
  test("outside of a message is uncertain, and nobody but people resolves it", async () => {
    await using proxy = await Proxy.before(server.url);
    proxy.deed = ({ path }) => (/finish/.test(path) ? problem("STALE_LEASE", 409) : "pass");
    const overtaken = new Client(proxy.url).effect("overtaken", { key: "k" }, () => "dropped");
    const error = await overtaken.catch((raised: unknown) => raised);
    expect(error).toBeInstanceOf(EffectUncertain);
    expect((error as Error).message).toContain("overtaken");
    expect(proxy.count(/resolve/)).toBe(0);
  });

  test("in a message loses its lease, and what it returned is dropped", async () => {
    await client.admin.createTopic("overtaken", { retryPolicy: { backoffMs: 1, maxBackoffMs: 1, jitter: "none" } });
    await client.send("overtaken", {});
    await using proxy = await Proxy.before(server.url);
    const raised: unknown[] = [];
    const results: unknown[] = [];
    const second = gate();
    const worker = new Client(proxy.url).worker("billing", { concurrency: 2, leaseMs: 300, heartbeat: false, onEvent: () => undefined });
    worker.handle("overtaken", async (_payload, ctx) => {
      // The first attempt goes on until the second one has it, which comes when the message's lease is over.
      const charge = () => (ctx.attempt === 1 ? second.promise.then(() => "first") : (second.open(), "second"));
      const effect = ctx.effect("overtaken-charge", { key: "k", onLapse: "retry" }, charge);
      results.push(await effect.catch((error: unknown) => (raised.push(error), Promise.reject(error))));
    });
    await runUntilIdle(worker);
    expect(raised).toEqual([expect.any(LeaseLost)]);
    expect(results).toEqual(["second"]);
    expect(proxy.count(/resolve/)).toBe(0);
  });
});

describe.concurrent("a finish", () => {
  test("is repeated until it is heard", async () => {
    await using proxy = await Proxy.before(server.url);
    const unavailable = problem("UNAVAILABLE", 503, { retryable: true, retry_after_ms: 5 });
    proxy.deed = ({ path }) => (/finish/.test(path) && proxy.count(/finish/) < 5 ? unavailable : "pass");
    // The patience of the client is over long before.
    expect(await new Client({ url: proxy.url, patienceMs: 1 }).effect("repeated", { key: "k" }, () => "done")).toBe("done");
    expect(proxy.count(/finish/)).toBe(5);
    expect((await client.admin.effect("repeated", "k")).state).toBe("succeeded");
  });
});

describe.concurrent("a reconcile function", () => {
  const unknown = { decision: "unknown", epoch: 1, attempt: 1, since: "2026-01-01T00:00:00Z" };
  const record = { tenant_id: "", scope: "s", key: "k", state: "unknown", epoch: 1, attempt: 1, on_lapse: "hold", created_at: "", begun_at: "" };

  test("is asked three times, and then it is left to people", async () => {
    await using proxy = await Proxy.before(server.url);
    proxy.deed = ({ path }) => {
      if (/begin/.test(path)) return answer(unknown);
      if (/get/.test(path)) return answer(record);
      return /resolve/.test(path) ? answer({ result: "committed", epoch: 2, attempt: 1 }) : "pass";
    };
    let asked = 0;
    const reconcile = () => ((asked += 1), found.notDone());
    const raised = await new Client(proxy.url).effect("s", { key: "k", reconcile }, () => "never").catch((error: unknown) => error);
    expect(raised).toBeInstanceOf(EffectUncertain);
    expect(asked).toBe(3);
  });

  test("lets what did not happen run again within its attempts, and never beyond", async () => {
    let runs = 0;
    const options = { key: "k", leaseMs: 1_000, maxAttempts: 2, reconcile: () => found.notDone() };
    const lost = () => {
      runs += 1;
      return Promise.reject(new Error("time-out"));
    };
    for (let call = 0; call < 2; call += 1) await expect(client.effect("capped", options, lost)).rejects.toThrow("time-out");
    await expect(client.effect("capped", options, lost)).rejects.toBeInstanceOf(EffectExhausted);
    expect(runs).toBe(2);
    expect((await client.admin.effect("capped", "k")).attempt).toBe(2);
  });
});

describe.concurrent("an effect that another holder is at", () => {
  test("is asked for again after a pause, and not for longer than the wait", async () => {
    await using proxy = await Proxy.before(server.url);
    proxy.deed = ({ path }) => (/begin/.test(path) ? answer({ decision: "in_progress", retry_after_ms: 29_000, epoch: 1, attempt: 1 }) : "pass");
    const began = performance.now();
    const raised = await new Client(proxy.url).effect("busy", { key: "k", waitMs: 1_200 }, () => "never").catch((error: unknown) => error);
    const tookMs = performance.now() - began;
    expect(raised).toBeInstanceOf(EffectBusy);
    expect(raised).toMatchObject({ retryAfterMs: 29_000, scope: "busy", key: "k" });
    // One without a wait, one that waits at the server, and one after each pause of half a second at the least.
    expect(proxy.count(/begin/)).toBeLessThanOrEqual(5);
    expect(tookMs).toBeGreaterThan(1_100);
    expect(tookMs).toBeLessThan(5_000);
  });

  test("is waited for here if too many wait at the server", async () => {
    await using proxy = await Proxy.before(server.url);
    const inProgress = { decision: "in_progress", retry_after_ms: 1, epoch: 1, attempt: 1 };
    proxy.deed = ({ path, body }) => {
      if (!/begin/.test(path)) return "pass";
      if (body.includes('"wait_ms"')) return problem("LIMIT_REACHED", 409);
      return proxy.count(/begin/) < 4 ? answer(inProgress) : "pass";
    };
    expect(await new Client(proxy.url).effect("crowded", { key: "k" }, () => "done")).toBe("done");
  });

  test("and is granted after a long wait has a lease that counts from then on", async () => {
    await using proxy = await Proxy.before(server.url);
    const leaseMs = 1_500;
    const inProgress = { decision: "in_progress", retry_after_ms: 50, epoch: 1, attempt: 1 };
    const began = performance.now();
    proxy.deed = ({ path }) => {
      if (/begin/.test(path)) return performance.now() - began > leaseMs ? "pass" : answer(inProgress);
      // Repeated while the lease lives: a lease that counts from the first question would be over.
      return /finish/.test(path) && proxy.count(/finish/) === 1 ? "lose_request" : "pass";
    };
    expect(await new Client(proxy.url).effect("granted-late", { key: "k", leaseMs }, () => "done")).toBe("done");
    expect(proxy.count(/finish/)).toBe(2);
  });

  test("sends its message away without counting the attempt, until the effect is free", async ({ expect }) => {
    await client.admin.createTopic("waiting");
    await client.send("waiting", {}, { tenantId: "acme" });
    await using proxy = await Proxy.before(server.url);
    proxy.deed = ({ path, body }) => {
      if (/begin/.test(path)) return answer({ decision: "in_progress", retry_after_ms: 4_321, epoch: 1, attempt: 1 });
      return /leases\/release/.test(path) && body.includes("effect") ? answer({ results: [{ status: "ok" }] }) : "pass";
    };
    const worker = new Client(proxy.url).worker("billing", { onEvent: () => undefined });
    worker.handle("waiting", (_payload, ctx) => ctx.effect("busy", { key: "k", waitMs: 0 }, () => "never"));
    await worker.start();
    await expect.poll(() => proxy.count(/leases\/release/), { timeout: 10_000 }).toBeGreaterThan(0);
    await worker.stop();
    expect(proxy.count(/nack/)).toBe(0);
    const release = proxy.seen.find(({ path }) => /leases\/release/.test(path))!;
    const token = expect.any(String);
    expect(JSON.parse(release.body)).toEqual({ leases: [{ token, delay_ms: 4_321, effect: { tenant_id: "acme", scope: "busy", key: "k" } }] });
  });
});

test("what was not sent gives the lease of the effect up", async () => {
  await using proxy = await Proxy.before(server.url);
  let token: string | undefined;
  proxy.deed = ({ path, body }) => {
    if (!/effects\/release/.test(path)) return "pass";
    ({ token } = JSON.parse(body) as { token: string });
    return answer({ result: "released" });
  };
  const unsent = new NotSent("no connection to the provider");
  const effect = new Client(proxy.url).effect("unsent", { key: "k" }, () => Promise.reject(unsent));
  await expect(effect).rejects.toBe(unsent);
  expect(token).toEqual(expect.any(String));
  expect(proxy.count(/finish/)).toBe(0);
});

test("what was not sent is free for the next one at once, and counts no attempt", async () => {
  await expect(client.effect("free", { key: "k" }, () => Promise.reject(new NotSent("no connection")))).rejects.toBeInstanceOf(NotSent);
  expect(await client.effect("free", { key: "k", waitMs: 0 }, (_signal, effect) => effect.attempt)).toBe(1);
});

test("a message whose effect is uncertain waits for a person, and counts no attempt", async () => {
  await client.admin.createTopic("held", { retryPolicy: { maxAttempts: 1 } });
  await expect(client.effect("held", { key: "k", leaseMs: 50 }, () => Promise.reject(new Error("time-out")))).rejects.toThrow("time-out");
  await expect.poll(() => client.admin.effect("held", "k").then(({ state }) => state), { timeout: 10_000 }).toBe("unknown");
  await client.send("held", {});
  const attempts: number[] = [];
  const results: unknown[] = [];
  const worker = client.worker("billing", { onEvent: () => undefined }).handle("held", async (_payload, ctx) => {
    attempts.push(ctx.attempt);
    results.push(await ctx.effect("held", { key: "k" }, () => "twice"));
  });
  const done = runUntilIdle(worker);
  await expect.poll(() => attempts.length, { timeout: 10_000 }).toBe(1);
  const waiting = () => client.admin.group("held", "billing").then((group) => (group as { inFlight?: number }).inFlight);
  await expect.poll(waiting, { timeout: 10_000 }).toBe(0);
  await client.admin.resolve({ scope: "held", key: "k", status: "succeeded", result: "once", by: "ann", why: "looked" });
  await done;
  expect([attempts, results]).toEqual([[1, 1], ["once"]]);
});

test("a guarded function is told its key", async () => {
  const told: unknown[] = [];
  const pay = guarded("told", {}, async (order: string) => {
    const effect = currentEffect();
    told.push(effect?.key, effect?.attempt, effect?.signal.aborted);
    return order;
  });
  await client.run("told-run", {}, () => pay("order-1"));
  expect(told).toEqual([expect.stringMatching(/^auto-[0-9a-f]{64}$/), 1, false]);
  expect((await client.admin.effect("told", told[0] as string)).state).toBe("succeeded");
  expect(currentEffect()).toBeUndefined();
});

test("the function of an effect belongs to its run, and what it runs to the effect", async () => {
  const keys: (string | undefined)[] = [];
  const inner = guarded("inner", { key: () => "in" }, () => keys.push(currentEffect()?.key));
  const outer = guarded("outer", { key: () => "out" }, async () => {
    await inner();
    keys.push(currentEffect()?.key);
    await client.run("another-run", {}, async () => keys.push(currentEffect()?.key));
  });
  await client.run("nested-run", {}, outer);
  expect(keys).toEqual(["in", "out", "out"]);
});

describe("a message", () => {
  const item: WireItem = { topic: "later", partition: 1, offset: 9, priority: 0, produced_at: "", value: "1" };
  const origin = { topic: "orders", incarnation: 7, partition: 3, offset: 17 };

  test("is known by where it was born, wherever it is now", () => {
    expect(anchorOf(decodeMessage({ ...item, origin }))).toEqual(["message", "orders", 7, 3, 17]);
    const named = decodeMessage({ ...item, origin, envelope: { idempotency_key: "key-1" } });
    expect(anchorOf(named)).toEqual(["message", "orders", 7, "key-1"]);
  });

  test("of a server that does not tell is known by where it is", () => {
    expect(anchorOf(decodeMessage(item))).toEqual(["message", "later", 0, 1, 9]);
  });
});

describe.concurrent("one key with another payload", () => {
  test("is an error, and with the same one a duplicate", async () => {
    await client.admin.createTopic("keyed");
    const send = (payload: unknown) => client.send("keyed", payload, { idempotencyKey: "key-1" });
    expect((await send({ cents: 1 })).duplicate).toBe(false);
    expect((await send({ cents: 1 })).duplicate).toBe(true);
    await expect(send({ cents: 2 })).rejects.toBeInstanceOf(KeyReused);
    const bytes = (text: string) => client.send("keyed", new TextEncoder().encode(text), { idempotencyKey: "key-2" });
    await bytes("one");
    await expect(bytes("two")).rejects.toBeInstanceOf(KeyReused);
  });

  test("is an error also from a producer, and the payload is hashed only if the caller chose the key", async () => {
    await client.admin.createTopic("keyed-producer");
    await using proxy = await Proxy.before(server.url);
    const producer = new Client(proxy.url).producer();
    const receipts = [];
    for (const payload of [1, 2]) receipts.push(await producer.send("keyed-producer", payload, { idempotencyKey: "key-1" }));
    await producer.send("keyed-producer", 3);
    await expect(producer.close()).rejects.toThrow("1 message(s) were not stored");
    await expect(receipts[1]!.stored).rejects.toBeInstanceOf(KeyReused);
    const sent = proxy.seen.filter(({ path }) => /messages/.test(path)).flatMap(({ body }) => JSON.parse(body) as { value: string; envelope: Record<string, string> }[]);
    expect(sent.map(({ envelope }) => envelope["request_hash"]?.slice(0, 14))).toEqual(["sha256:6b86b27", "sha256:d4735e3", undefined]);
    expect(paths(proxy.seen)).not.toContain("/v2/commit");
  });
});
