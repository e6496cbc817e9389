import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Client, EffectBusy, EffectFailed, EffectUncertain, Final, found, guarded, KeyReused, NoContext, NotDone, ResultNotKept } from "../src/index.js";
import { assertEffects, runUntilIdle, TestServer } from "../src/testing/index.js";
import { Proxy } from "./support/proxy.js";
import { fired, gate } from "./support/signals.js";

let server: TestServer;
let client: Client;
beforeAll(async () => {
  server = await TestServer.start();
  client = server.client();
});
afterAll(() => server.stop());

describe.concurrent("an effect without a message", () => {
  test("runs once, and is replayed", async () => {
    let runs = 0;
    const run = () => client.effect("once", { key: "k" }, (_signal, effect) => ({ run: (runs += 1), key: effect.key }));
    expect(await run()).toEqual({ run: 1, key: "k" });
    expect(await run()).toEqual({ run: 1, key: "k" });
    expect(runs).toBe(1);
    await assertEffects(server, { scope: "once", count: 1 });
    await expect(assertEffects(server, { scope: "once", count: 2 })).rejects.toThrow("instead of 2");
  });

  test("needs a key, or a run", async () => {
    await expect(client.effect("nameless", () => 1)).rejects.toBeInstanceOf(NoContext);
  });

  test("is waited for while somebody else runs it", async () => {
    const begun = gate();
    const end = gate<string>();
    const first = client.effect("waited", { key: "k" }, () => {
      begun.open();
      return end.promise;
    });
    await begun.promise;
    const second = client.effect("waited", { key: "k" }, () => "second");
    await expect(client.effect("waited", { key: "k", waitMs: 1 }, () => "third")).rejects.toBeInstanceOf(EffectBusy);
    end.open("first");
    expect(await Promise.all([first, second])).toEqual(["first", "first"]);
  });

  test("ends its wait when the caller does", async () => {
    const end = gate<string>();
    const begun = gate();
    const first = client.effect("impatient", { key: "k" }, () => (begun.open(), end.promise));
    await begun.promise;
    const caller = new AbortController();
    const second = client.effect("impatient", { key: "k", signal: caller.signal }, () => "second");
    const reason = new Error("enough");
    caller.abort(reason);
    await expect(second).rejects.toBe(reason);
    end.open("first");
    await first;
  });

  test("is renewed while it runs", async () => {
    const renewed = gate();
    await using proxy = await Proxy.before(server.url);
    proxy.deed = () => {
      if (proxy.count(/renew/) >= 4) renewed.open();
      return "pass";
    };
    // Four renewals take longer than the lease: without them the effect would be unknown to the second one. The lease is
    // long enough for a busy machine to be in time with each of them.
    const first = new Client(proxy.url).effect("renewed", { key: "k", leaseMs: 3_000 }, () => renewed.promise.then(() => "done"));
    await renewed.promise;
    expect(await client.effect("renewed", { key: "k" }, () => "twice")).toBe("done");
    await first;
  });

  test("is told when somebody else has resolved it", async ({ expect }) => {
    const begun = gate();
    await using proxy = await Proxy.before(server.url);
    let resolved = false;
    // A renewal that came through before that would bring the lease back.
    proxy.deed = ({ path }) => (/renew/.test(path) && !resolved ? "hang" : "pass");
    const first = new Client({ url: proxy.url, answerTimeoutMs: 400 }).effect("taken", { key: "k", leaseMs: 300 }, async (signal) => {
      begun.open();
      throw await fired(signal);
    });
    first.catch(() => undefined);
    await begun.promise;
    const resolve = () => client.admin.resolve({ scope: "taken", key: "k", status: "failed_final", by: "ann", why: "looked" }).then(() => true, () => false);
    await expect.poll(resolve, { interval: 20, timeout: 10_000 }).toBe(true);
    resolved = true;
    await expect(first).rejects.toThrow("lease is lost");
  });

  test("that fails is not run again if it failed for good", async () => {
    const run = () => client.effect("final", { key: "k" }, () => Promise.reject(new Final("stolen")));
    await expect(run()).rejects.toMatchObject({ reason: "stolen", replayed: false });
    const replay = await client.effect("final", { key: "k" }, () => "never").catch((error: unknown) => error);
    expect(replay).toBeInstanceOf(EffectFailed);
    expect(replay).toMatchObject({ reason: "stolen", replayed: true });
  });

  test("that did not happen is run again", async () => {
    await expect(client.effect("later", { key: "k" }, () => Promise.reject(new NotDone("closed")))).rejects.toBeInstanceOf(NotDone);
    expect(await client.effect("later", { key: "k" }, () => "open")).toBe("open");
  });

  test("with a result too large to keep has happened", async () => {
    for (const [key, size] of [["large", 300_000], ["huge", 8_000_000]] as const) {
      expect((await client.effect("large", { key }, () => "x".repeat(size))).length).toBe(size);
      await expect(client.effect("large", { key }, () => "again")).rejects.toBeInstanceOf(ResultNotKept);
    }
  });

  test("with other arguments under the same key is an error", async () => {
    await client.effect("args", { key: "k", args: { cents: 1 } }, () => 1);
    await expect(client.effect("args", { key: "k", args: { cents: 2 } }, () => 2)).rejects.toBeInstanceOf(KeyReused);
  });

  test("whose finish is never heard is uncertain, and reconciled by the next one", async () => {
    await using proxy = await Proxy.before(server.url);
    proxy.deed = ({ path }) => (/finish|renew/.test(path) ? { status: 503, body: JSON.stringify({ code: "UNAVAILABLE", status: 503, retryable: true, detail: "stopping" }) } : "pass");
    const unheard = new Client(proxy.url).effect("unheard", { key: "k", leaseMs: 200 }, () => "happened");
    await expect(unheard).rejects.toBeInstanceOf(EffectUncertain);
    const records: string[] = [];
    const reconcile = (record: { key: string; state: string }) => {
      records.push(`${record.key} ${record.state}`);
      return found.succeeded("happened");
    };
    expect(await client.effect<string>("unheard", { key: "k", reconcile }, () => "twice")).toBe("happened");
    expect(records).toEqual(["k unknown"]);
  });

  test("reconciled as failed is failed for everybody", async () => {
    await expect(client.effect("judged", { key: "k", leaseMs: 50 }, () => Promise.reject(new Error("time-out")))).rejects.toThrow("time-out");
    await expect(client.effect("judged", { key: "k", reconcile: () => found.failed("refunded") }, () => 1)).rejects.toMatchObject({ reason: "refunded" });
    await expect(client.effect("judged", { key: "k" }, () => 1)).rejects.toBeInstanceOf(EffectFailed);
  });
});

describe.concurrent("a guarded function", () => {
  test("is an error outside of a handler and of a run", async () => {
    let runs = 0;
    const charge = guarded("outside", {}, () => (runs += 1));
    await expect(charge()).rejects.toBeInstanceOf(NoContext);
    expect(runs).toBe(0);
  });

  test("runs once for the same arguments within a run and step", async () => {
    const calls: string[] = [];
    const search = guarded("search", { onLapse: "retry" }, async (query: { text: string; limit: number }) => {
      calls.push(query.text);
      return calls.length;
    });
    const plan = (step: string) =>
      client.run("run-1", { step }, async () => [await search({ text: "a", limit: 1 }), await search({ limit: 1, text: "a" }), await search({ text: "b", limit: 1 })]);
    expect(await plan("plan")).toEqual([1, 1, 2]);
    expect(await plan("plan")).toEqual([1, 1, 2]);
    expect(await plan("other")).toEqual([3, 3, 4]);
    const run = await client.call<{ steps: { step_id: string; effects: unknown[] }[] }>("GET", "/v2/runs/run-1");
    expect(run.steps.map(({ step_id, effects }) => [step_id, effects.length]).sort()).toEqual([["other", 2], ["plan", 2]]);
  });

  test("can have a key of its own, and the run's context belongs to its own calls only", async () => {
    const pay = guarded("pay", { key: (order: string) => order }, async (order: string) => `paid ${order}`);
    const [one, two] = await Promise.all([client.run("run-2", {}, () => pay("order-1")), client.run("run-3", {}, () => pay("order-2"))]);
    expect([one, two]).toEqual(["paid order-1", "paid order-2"]);
    expect((await client.admin.effect("pay", "order-2")).runId).toBe("run-3");
  });

  test("belongs to the message in a handler, and runs once over attempts", async () => {
    await client.admin.createTopic("jobs", { retryPolicy: { backoffMs: 1, maxBackoffMs: 1, jitter: "none" } });
    await client.send("jobs", { to: "ann" });
    let mails = 0;
    const mail = guarded("mail", {}, async (_to: string) => (mails += 1));
    const worker = client.worker("mailer", { onEvent: () => undefined }).handle<{ to: string }>("jobs", async ({ to }, { attempt }) => {
      await mail(to);
      if (attempt < 3) throw new Error("again");
    });
    await runUntilIdle(worker);
    expect(mails).toBe(1);
    const [effect] = await assertEffects(server, { scope: "mail", count: 1 });
    expect(effect?.message).toMatchObject({ topic: "jobs", offset: 0 });
  });

  test("may be made within the handler, and belongs to the message also if the worker runs within a run", async () => {
    await client.admin.createTopic("late");
    await client.send("late", { to: "ann" });
    const attempts: number[] = [];
    const worker = client.worker("mailer").handle<{ to: string }>("late", async ({ to }, { attempt }) => {
      attempts.push(attempt);
      await client.call("GET", "/v2/topics/late");
      await guarded("late-mail", {}, async (one: string) => one)(to);
    });
    await client.run("run-4", {}, () => runUntilIdle(worker));
    expect(attempts).toEqual([1]);
    const [effect] = await assertEffects(server, { scope: "late-mail", count: 1 });
    expect(effect?.message).toMatchObject({ topic: "late", offset: 0 });
    expect(effect?.runId).toBeUndefined();
  });

  test("in a batch handler belongs to the message that is named, and to none without", async () => {
    await client.admin.createTopic("batches", { retryPolicy: { backoffMs: 1, maxBackoffMs: 1, jitter: "none" } });
    for (let order = 0; order < 3; order += 1) await client.send("batches", { order });
    const errors: (string | undefined)[] = [];
    const paid: number[] = [];
    const pay = guarded("batch-pay", {}, async (order: number) => paid.push(order));
    const worker = client.worker("billing", { onEvent: () => undefined }).handleBatch<{ order: number }>("batches", { batch: 3 }, async (items) => {
      for (const { payload, context, fail } of items) {
        if (context.attempt > 1) errors.push(context.lastError);
        if (payload.order === 2 && context.attempt === 1) await pay(2).catch(fail);
        else await context.run(() => pay(payload.order));
      }
    });
    await runUntilIdle(worker);
    expect(paid.sort()).toEqual([0, 1, 2]);
    expect(errors).toEqual([expect.stringMatching(/^NoContext: batch-pay is guarded/)]);
    const effects = await assertEffects(server, { scope: "batch-pay", count: 3 });
    expect(effects.map(({ message }) => message?.offset).sort()).toEqual([0, 1, 2]);
  });
});

test("an effect without a result gives the same to a replay", async () => {
  let runs = 0;
  const nothing = () => client.effect("nothing", { key: "k" }, () => void (runs += 1));
  const none = () => client.effect("none", { key: "k" }, () => ((runs += 1), null));
  expect([await nothing(), await nothing(), await none(), await none()]).toEqual([undefined, undefined, null, null]);
  expect(runs).toBe(2);
});
