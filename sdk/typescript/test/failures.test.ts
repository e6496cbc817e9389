import { describe, expect, test } from "vitest";
import { Client, type ClientOptions, ConnectionLost, NotDriftQ, Overloaded, TopicUnknown, Unreachable, type Produced } from "../src/index.js";
import { runUntilIdle, TestServer } from "../src/testing/index.js";
import { closedUrl, Proxy, Stranger } from "./support/proxy.js";

const impatient = { patienceMs: 300, connectTimeoutMs: 500, answerTimeoutMs: 1_000 };
/** Both ways to reach a server fail alike. */
const ways: [string, Pick<ClientOptions, "fetch">][] = [
  ["by fetch", { fetch }],
  ["by Node's HTTP client", {}],
];
const overloaded = JSON.stringify({ code: "OVERLOADED", status: 429, detail: "too much", help: "wait", retryable: true, retry_after_ms: 20 });

describe.concurrent("where there is no server", () => {
  test.each([["nonsense"], ["ftp://127.0.0.1"], [""]])("%j is no URL", (url) => {
    expect(() => new Client({ url })).toThrow(Unreachable);
  });

  test.each(ways)("a call %s says how to start one", async (_way, way) => {
    const url = closedUrl;
    const error = await new Client({ url, ...impatient, ...way }).send("orders", 1).catch((raised: unknown) => raised);
    expect(error).toBeInstanceOf(Unreachable);
    expect(String(error)).toContain(url);
    expect(String(error)).toContain("driftq serve");
  });

  test("a worker does not start", async () => {
    const worker = new Client({ url: closedUrl }).worker("billing", { startTimeoutMs: 300 }).handle("orders", () => undefined);
    await expect(worker.run()).rejects.toBeInstanceOf(Unreachable);
    await worker.stop();
  });

  test("a worker whose topic does not exist does not start", async () => {
    await using server = await TestServer.start();
    const worker = server.client().worker("billing").handle("orders", () => undefined);
    await expect(worker.start()).rejects.toBeInstanceOf(TopicUnknown);
  });

  test("a worker waits a while for a server that starts after it", async () => {
    await using server = await TestServer.start({ onDisk: true });
    await server.client().admin.createTopic("orders");
    await server.client().send("orders", 1);
    await server.kill();
    const handled: unknown[] = [];
    const worker = server.client().worker("billing", { startTimeoutMs: 30_000 }).handle("orders", (payload) => handled.push(payload));
    const idle = worker.start();
    await server.restart();
    await idle;
    await runUntilIdle(worker);
    expect(handled).toEqual([1]);
  });
});

describe.concurrent.each(ways)("what is no DriftQ server, asked %s,", (_way, way) => {
  test.each<[string, () => Promise<Stranger>]>([
    ["a web page", () => Stranger.http(200, "<html>welcome</html>")],
    ["a web page that is not found", () => Stranger.http(404, "<html>not found</html>")],
    ["another JSON service", () => Stranger.http(200, '{"hello":"world"}')],
    ["a list", () => Stranger.http(200, "[]")],
    ["null", () => Stranger.http(200, "null")],
    ["a JSON error of another kind", () => Stranger.http(400, '{"error":"bad"}')],
    ["a redirect", () => Stranger.http(302, "", { location: "http://127.0.0.1:1/" })],
    ["a mail server", () => Stranger.tcp("220 mail.example ESMTP\r\n")],
  ])("%s", async (_name, start) => {
    await using stranger = await start();
    const error = await new Client({ url: stranger.url, ...impatient, ...way }).send("orders", 1).catch((raised: unknown) => raised);
    expect(error).toBeInstanceOf(NotDriftQ);
    expect(String(error)).toContain(stranger.url);
  });

  test("a gateway whose server is away is asked again, then given up", async () => {
    await using stranger = await Stranger.http(502, "bad gateway");
    await expect(new Client({ url: stranger.url, ...impatient, ...way }).send("orders", 1)).rejects.toBeInstanceOf(NotDriftQ);
  });

  test.each([
    ["says nothing", "", false],
    ["hangs up", "", true],
    ["stops in the middle of its answer", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{", false],
    ["hangs up in the middle of its answer", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{", true],
    ["changes to another protocol", "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: chat\r\n\r\n", false],
  ])("something that takes connections and %s", async (_name, banner, hangsUp) => {
    await using stranger = await Stranger.tcp(banner, hangsUp);
    await expect(new Client({ url: stranger.url, ...impatient, ...way }).send("orders", 1)).rejects.toBeInstanceOf(ConnectionLost);
  });
});

describe.concurrent.each(ways)("a server that answers badly, asked %s:", (_way, way) => {
  test("429 is repeated after the hint", async () => {
    await using server = await TestServer.start();
    await using proxy = await Proxy.before(server.url);
    await server.client().admin.createTopic("orders");
    proxy.deed = ({ path }) => (/messages/.test(path) && proxy.count(/messages/) <= 2 ? { status: 429, body: overloaded } : "pass");
    await expect(new Client({ url: proxy.url, ...way }).send("orders", 1)).resolves.toMatchObject({ offset: 0 });
    expect(proxy.count(/messages/)).toBe(3);
  });

  test("429 without end is raised when patience is over", async () => {
    await using stranger = await Stranger.http(429, overloaded);
    const error = await new Client({ url: stranger.url, ...impatient, ...way }).send("orders", 1).catch((raised: unknown) => raised);
    expect(error).toBeInstanceOf(Overloaded);
    expect(error).toMatchObject({ retryAfterMs: 20, status: 429 });
  });

  test("no answer in time is an error with a name, and the caller's own signal ends a call at once", async () => {
    await using server = await TestServer.start();
    await using proxy = await Proxy.before(server.url);
    proxy.deed = ({ path }) => (/healthz/.test(path) ? "pass" : "hang");
    const client = new Client({ url: proxy.url, ...impatient, ...way });
    await expect(client.call("GET", "/v2/topics")).rejects.toBeInstanceOf(ConnectionLost);
    const reason = new Error("enough");
    const patient = new Client({ url: proxy.url, ...way });
    await expect(patient.call("GET", "/v2/topics", { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    // A call that is under way takes its connection with it.
    const caller = new AbortController();
    const cut = proxy.nextCut(/groups/);
    proxy.deed = ({ path }) => {
      if (/groups/.test(path)) caller.abort(reason);
      return /healthz/.test(path) ? "pass" : "hang";
    };
    await expect(patient.call("GET", "/v2/topics/orders/groups", { signal: caller.signal })).rejects.toBe(reason);
    await cut;
  });

  test("an answer may take longer than an idle connection is kept", async () => {
    await using server = await TestServer.start();
    const client = server.client(way);
    await client.admin.createTopic("orders");
    const body = { owner: "one", max: 1, lease_ms: 1_000, wait_ms: 4_500 };
    const answer = await client.call("POST", "/v2/topics/orders/groups/billing/lease", { body, waitMs: body.wait_ms, patienceMs: 0 });
    expect(answer).toMatchObject({ messages: [] });
  });

  test("answers that get lost lose nothing and double nothing", async () => {
    await using server = await TestServer.start();
    await using proxy = await Proxy.before(server.url);
    const lost = new Set<string>();
    // The first answer to every call is lost; its repeat has the same body.
    proxy.deed = ({ method, path, body }) => {
      const call = `${method} ${path} ${body}`;
      if (method === "GET" || lost.has(call)) return "pass";
      lost.add(call);
      return "lose_answer";
    };
    await server.client().admin.createTopic("orders");
    await server.client().admin.createTopic("receipts");
    const client = new Client({ url: proxy.url, ...way });
    const places: Produced[] = [];
    for (let order = 0; order < 3; order += 1) places.push(await client.send("orders", { order }));
    expect(places.map(({ offset }) => offset)).toEqual([0, 1, 2]);

    let charges = 0;
    const attempts: number[] = [];
    const worker = client.worker("billing", { concurrency: 3, onEvent: () => undefined }).handle<{ order: number }>("orders", async ({ order }, context) => {
      attempts.push(context.attempt);
      if (order === 0) return;
      await context.effect("charge", { key: `order-${order}` }, () => (charges += 1));
      context.send("receipts", { order });
    });
    await runUntilIdle(worker);
    expect(await client.effect("refund", { key: "order-0" }, () => "done")).toBe("done");
    expect(attempts).toEqual([1, 1, 1]);
    expect(charges).toBe(2);
    const receipts = [];
    for await (const message of server.client().admin.messages("receipts")) receipts.push(message.value);
    expect(receipts.sort()).toEqual(['{"order":1}', '{"order":2}']);
    for (const path of ["/lease", "/effects/begin", "/effects/finish", "/leases/ack", "/commit", "/messages"]) {
      expect([...lost].some((call) => call.includes(path)), path).toBe(true);
    }
  });

  test("a call that follows an answer goes by the same connection", async () => {
    await using server = await TestServer.start();
    await using proxy = await Proxy.before(server.url);
    const client = new Client({ url: proxy.url, ...way });
    for (let calls = 0; calls < 20; calls += 1) await client.call("POST", "/v2/effects/begin", { body: { scope: "s", key: `k-${calls}`, owner: "one" } });
    expect(proxy.connections).toBe(1);
  });
});
