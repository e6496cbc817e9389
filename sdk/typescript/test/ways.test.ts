import { afterEach, describe, expect, test, vi } from "vitest";
import { AsyncLocalStorage } from "node:async_hooks";
import { Client, type ClientOptions } from "../src/index.js";
import { byDefault } from "../src/exchange.js";
import { runUntilIdle, TestServer } from "../src/testing/index.js";
import { Proxy } from "./support/proxy.js";

// How a server is reached: by Node's HTTP client unless something else is given.

const ways: [string, Pick<ClientOptions, "fetch">][] = [
  ["fetch", { fetch }],
  ["Node's HTTP client", {}],
];

afterEach(() => vi.unstubAllGlobals());

test("a client that is given nothing goes by Node's HTTP client, and one that is given a fetch by that", async () => {
  await using server = await TestServer.start();
  const own = fetch;
  vi.stubGlobal("fetch", () => Promise.reject(new Error("the global fetch is not to be asked")));
  expect(await new Client(server.url).call("GET", "/v2/healthz")).toMatchObject({ status: "ok" });
  const asked: string[] = [];
  const given: typeof fetch = (target, init) => (asked.push(String(target)), own(target, init));
  await new Client({ url: server.url, fetch: given }).call("GET", "/v2/topics");
  expect(asked).toEqual([`${server.url}/v2/healthz`, `${server.url}/v2/topics`]);
});

test("a runtime that is not Node goes by fetch", async () => {
  vi.stubGlobal("Deno", {});
  const asked: string[] = [];
  vi.stubGlobal("fetch", (target: string) => (asked.push(target), Promise.resolve(new Response("{}"))));
  expect(await byDefault()("GET", "http://elsewhere/", undefined).answer).toMatchObject({ status: 200, text: "{}" });
  expect(asked).toEqual(["http://elsewhere/"]);
});

test("a call that is given up before its way is loaded is never sent", async () => {
  await using server = await TestServer.start();
  await using proxy = await Proxy.before(server.url);
  const send = byDefault();
  const exchange = send("GET", `${proxy.url}/v2/healthz`, undefined);
  exchange.cut();
  await expect(exchange.answer).rejects.toThrow("given up");
  expect((await send("GET", `${proxy.url}/v2/status`, undefined).answer).status).toBe(200);
  expect(proxy.seen.map(({ path }) => path)).toEqual(["/v2/status"]);
});

async function messagesOf(client: Client): Promise<number> {
  return (await client.call<{ messages: number }>("GET", "/v2/topics/orders")).messages;
}

describe.concurrent.each(ways)("by %s,", (_name, way) => {
  test("connections that a restart of the server has closed are not a caller's concern", async ({ expect }) => {
    await using server = await TestServer.start({ onDisk: true });
    const client = new Client({ url: server.url, onAway: () => undefined, ...way });
    await client.admin.createTopic("orders");
    // Several at once, so that several connections are kept.
    await Promise.all(Array.from({ length: 8 }, (_, order) => client.send("orders", { order })));
    await server.restart();
    const sent = await Promise.all(Array.from({ length: 8 }, (_, order) => client.send("orders", { order })));
    expect(sent.map(({ duplicate }) => duplicate)).toEqual(Array.from({ length: 8 }, () => false));
    expect(await messagesOf(client)).toBe(16);
  });

  test("a long poll that is given up lets go of its connection at once", async ({ expect }) => {
    await using server = await TestServer.start();
    await using proxy = await Proxy.before(server.url);
    const client = new Client({ url: proxy.url, ...way });
    await client.admin.createTopic("orders");
    const cut = proxy.nextCut(/lease/);
    const caller = new AbortController();
    const reason = new Error("enough");
    const body = { owner: "one", max: 1, lease_ms: 1_000, wait_ms: 20_000 };
    const poll = client.call("POST", "/v2/topics/orders/groups/billing/lease", { body, waitMs: 20_000, signal: caller.signal });
    const ended = expect(poll).rejects.toBe(reason);
    await expect.poll(() => proxy.count(/lease/), { timeout: 10_000 }).toBe(1);
    caller.abort(reason);
    await ended;
    await cut;
    expect(await messagesOf(client)).toBe(0);
  });

  test("an answer that is cut off is asked for again, and the connection is not used any more", async ({ expect }) => {
    await using server = await TestServer.start();
    await using proxy = await Proxy.before(server.url);
    const client = new Client({ url: proxy.url, onAway: () => undefined, ...way });
    await client.admin.createTopic("orders");
    const before = proxy.connections;
    proxy.deed = ({ path }) => (/messages/.test(path) && proxy.count(/messages/) === 1 ? "lose_answer" : "pass");
    expect(await client.send("orders", 1)).toMatchObject({ offset: 0 });
    expect(proxy.count(/messages/)).toBe(2);
    expect(proxy.connections).toBeGreaterThan(before);
    expect(await messagesOf(client)).toBe(1);
  });
});

test("what a handler keeps in an async storage is not seen by the handlers of other messages", async () => {
  await using server = await TestServer.start();
  const client = server.client();
  await client.admin.createTopic("orders");
  for (let order = 0; order < 60; order += 1) await client.send("orders", { order });
  const storage = new AsyncLocalStorage<number>();
  const found: unknown[] = [];
  const seen: unknown[] = [];
  const worker = client.worker("billing", { concurrency: 3 }).handle<{ order: number }>("orders", ({ order }, ctx) => {
    found.push(storage.getStore());
    return storage.run(order, async () => {
      await ctx.effect("charge", { key: `order-${order}` }, () => {
        seen.push([order, storage.getStore()]);
        return "done";
      });
      seen.push([order, storage.getStore()]);
    });
  });
  await runUntilIdle(worker);
  expect(found).toEqual(Array.from({ length: 60 }, () => undefined));
  expect(seen).toHaveLength(120);
  expect(seen.every((pair) => (pair as number[])[0] === (pair as number[])[1])).toBe(true);
});
