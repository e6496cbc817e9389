import { describe, expect, test } from "vitest";
import { Client, type ClientOptions, ConnectionLost, NotDriftQ, Refused, type Send, Unavailable, Unreachable } from "../src/index.js";
import { byDefault } from "../src/exchange.js";
import { Course, Redirected, Servers } from "../src/servers.js";
import { TestServer } from "../src/testing/index.js";
import { closedUrl, type Deed, Proxy } from "./support/proxy.js";

// A client that is given several servers.

const A = "http://a:1";
const B = "http://b:2";
const C = "http://c:3";
const ways: [string, Pick<ClientOptions, "fetch">][] = [
  ["fetch", { fetch }],
  ["Node's HTTP client", {}],
];
const away = { code: "UNAVAILABLE", status: 503, detail: "nobody serves", help: "wait", retryable: true, retry_after_ms: 20 };
const unreachable = (url: string) => new Unreachable(url, "ECONNREFUSED", { cause: Object.assign(new Error("refused"), { code: "ECONNREFUSED" }) });

describe("a list of servers", () => {
  test.each([
    ["http://a:1", "http://a:1"],
    ["http://a:1,http://b:2", "http://a:1,http://b:2"],
    [" http://a:1/ , HTTP://B:2/behind/ ", "http://a:1,http://b:2/behind"],
    ["http://a:80,http://a,http://b,http://A/", "http://a,http://b"],
  ])("%j", (text, urls) => {
    expect(new Servers(text).urls).toBe(urls);
  });

  test("one that is given twice is one", () => {
    expect(new Servers("http://a,http://a:80/").several).toBe(false);
    expect(new Servers("http://a,http://a:80/").prefersRedirect).toBe(false);
    expect(new Servers("http://a,http://b").prefersRedirect).toBe(true);
  });

  test.each(["", ",", "http://a,", ",http://a", "http://a,,http://b", "http://a,b", "http://a,ftp://b"])("%j is none", (url) => {
    expect(() => new Client({ url })).toThrow(Unreachable);
  });

  test("has 16 at the most", () => {
    const urls = Array.from({ length: 17 }, (_, n) => `http://a:${n + 1}`);
    expect(() => new Client({ url: urls.join() })).toThrow(/17 servers/);
    expect(new Client({ url: urls.slice(1).join() }).url).toBe(urls.slice(1).join());
    expect(new Servers([...urls.slice(1), urls[1]].join()).count).toBe(16);
  });

  test.each(["http://a,http://me:secret@b", "http://a,http://me:sec,secret@b"])("%j: a password is not repeated", (url) => {
    expect(() => new Client({ url })).toThrow(Unreachable);
    expect(() => new Client({ url })).not.toThrow(/sec/);
  });
});

describe("where a call goes next", () => {
  const all = () => new Servers([A, B, C].join());
  const begin = (servers: Servers) => new Course(servers, servers.server);
  const to = (url: string) => new Redirected(`${url}/v2/topics?limit=1`);

  test("to the server that is said to serve, and so do all later calls", () => {
    const servers = all();
    const course = begin(servers);
    expect(course.after(to(C))).toBeUndefined();
    expect(course.server.url).toBe(C);
    expect(servers.server.url).toBe(C);
    expect(course.prefersRedirect).toBe(true);
  });

  test.each([
    ["http://a/v2/topics", "http://a"],
    ["http://A:80/v2/topics", "http://a"],
    ["http://a/one/v2/topics", "http://a/one"],
    ["http://a/oneself/v2/topics", "http://a"],
    ["https://a/v2/topics", "https://a"],
    ["http://b:2/two/v2/topics", "http://b:2/two"],
    ["/v2/topics", "http://a"],
    ["http://b:2/v2/topics", undefined],
    ["http://b/two/v2/topics", undefined],
    ["https://b:2/two/v2/topics", undefined],
    ["http://a.example/v2/topics", undefined],
    ["http://a@elsewhere/v2/topics", undefined],
    ["ftp://a/v2/topics", undefined],
    ["http://", undefined],
  ])("the location %s leads to %s", (location, url) => {
    const servers = new Servers("http://a,http://a/one,https://a,http://b:2/two");
    expect(servers.at(location, servers.server)?.url).toBe(url);
  });

  test("to the same server, which passes it on, if the one that serves was not named; nobody is asked for a redirect again", () => {
    const servers = all();
    for (const location of ["http://d:4/v2/topics", undefined]) {
      const course = begin(servers);
      expect(course.after(new Redirected(location))).toBeUndefined();
      expect([course.server.url, course.prefersRedirect]).toEqual([A, false]);
    }
    expect([servers.server.url, servers.prefersRedirect]).toEqual([A, false]);
  });

  test("no further than there are servers, when they point at each other", () => {
    const servers = all();
    const course = begin(servers);
    for (const url of [B, C, A]) expect(course.after(to(url))).toBeUndefined();
    expect(course.after(to(B))).toBeInstanceOf(ConnectionLost);
    expect(servers.server.url).toBe(B);
  });

  test("to each server once, if none can be reached", () => {
    const servers = all();
    const course = begin(servers);
    for (const url of [A, B]) expect(course.after(unreachable(url))).toBeUndefined();
    expect([course.server.url, servers.server.url]).toEqual([C, C]);
    const error = course.after(unreachable(C));
    expect(error).toBeInstanceOf(Unreachable);
    expect(String(error)).toContain(`no server at ${A},${B},${C} (ECONNREFUSED)`);
  });

  test("to one that keeps it, if the one that is said to serve is gone", () => {
    const servers = all();
    const course = begin(servers);
    course.after(to(B));
    expect(course.after(unreachable(B))).toBeUndefined();
    expect([course.server.url, course.prefersRedirect]).toEqual([C, false]);
    expect(servers.prefersRedirect).toBe(true);
  });

  test.each([
    ["a connection that broke", new ConnectionLost(A, "ECONNRESET")],
    ["503", new Refused(away)],
    ["a gateway whose server is away", new NotDriftQ(A, "it answered 503 without a reason", true)],
  ])("after %s, nowhere; later calls go to the next one, and many that fail at once skip none", (_name, error) => {
    const servers = all();
    const late = begin(servers);
    for (const course of [begin(servers), begin(servers), begin(servers)]) {
      expect(course.after(error)).toBe(error);
    }
    expect(servers.server.url).toBe(B);
    begin(servers).after(error);
    late.after(error);
    expect(servers.server.url).toBe(C);
    begin(servers).after(error);
    expect(servers.server.url).toBe(A);
  });

  test("after a refusal, nowhere", () => {
    const servers = all();
    const error = new Refused({ ...away, status: 409, code: "STALE_LEASE" });
    expect(begin(servers).after(error)).toBe(error);
    expect(servers.server.url).toBe(A);
  });

  test("a redirect that comes late does not undo what other calls have found out", () => {
    const servers = all();
    const [early, late] = [begin(servers), begin(servers)];
    early.after(to(B));
    early.after(unreachable(B));
    expect(late.after(to(B))).toBeUndefined();
    expect([late.server.url, servers.server.url]).toEqual([B, C]);
  });

  test("a server that becomes the current one is greeted again", () => {
    const servers = all();
    const course = begin(servers);
    const first = servers.server;
    first.greeted = true;
    course.after(to(B));
    course.server.greeted = true;
    course.after(to(B));
    expect(course.server.greeted).toBe(true);
    course.after(to(A));
    expect([course.server, first.greeted]).toEqual([first, false]);
  });
});

/** Three ways to one server, which stand for the servers of a cluster. */
async function fronts(server: TestServer): Promise<[Proxy, Proxy, Proxy] & AsyncDisposable> {
  const before = () => Proxy.before(server.url);
  const proxies: [Proxy, Proxy, Proxy] = [await before(), await before(), await before()];
  const dispose = async () => void (await Promise.all(proxies.map((proxy) => proxy[Symbol.asyncDispose]())));
  return Object.assign(proxies, { [Symbol.asyncDispose]: dispose });
}

const urlsOf = (proxies: readonly Proxy[]) => proxies.map(({ url }) => url).join(" , ");
const redirect = (url: string, path: string): Deed => ({ status: 307, body: "", headers: { location: url + path, "preference-applied": "redirect" } });
const isOwn = (path: string) => path === "/v2/healthz";

describe.concurrent.each(ways)("several servers, asked by %s:", (_name, way) => {
  test("every request says what it prefers, and none to a single server", async ({ expect }) => {
    await using server = await TestServer.start();
    await using proxies = await fronts(server);
    const [first, second] = proxies;
    await new Client({ url: urlsOf(proxies), key: "dq_a_b", ...way }).call("GET", "/v2/topics");
    await new Client({ url: `${second.url},${second.url}`, key: "dq_a_b", ...way }).call("GET", "/v2/topics");
    expect(first.seen.map(({ path, headers }) => [path, headers["prefer"]])).toEqual([["/v2/healthz", "redirect"], ["/v2/topics", "redirect"]]);
    expect(second.seen.map(({ path, headers }) => [path, headers["prefer"]])).toEqual([["/v2/healthz", undefined], ["/v2/topics", undefined]]);
    expect([...first.seen, ...second.seen].every(({ headers }) => headers.authorization === "Bearer dq_a_b")).toBe(true);
  });

  test("a redirect to one of them is followed at once, and the others are not asked any more", async ({ expect }) => {
    await using server = await TestServer.start();
    await using proxies = await fronts(server);
    const [first, second, third] = proxies;
    first.deed = ({ path }) => (isOwn(path) ? "pass" : redirect(third.url, path));
    await server.client().admin.createTopic("orders");
    const words: string[] = [];
    const client = new Client({ url: urlsOf(proxies), patienceMs: 0, onAway: (said) => words.push(said), ...way });
    for (let order = 0; order < 3; order += 1) expect(await client.send("orders", { order })).toMatchObject({ offset: order });
    expect([first, second, third].map((proxy) => proxy.count(/messages/))).toEqual([1, 0, 3]);
    expect(third.count(/healthz/)).toBe(1);
    expect(third.seen[1]!.body).toBe(first.seen[1]!.body);
    expect(client.transport.current).toBe(third.url);
    expect(words).toEqual([]);
  });

  test("servers that point at each other are away", async ({ expect }) => {
    await using server = await TestServer.start();
    await using proxies = await fronts(server);
    const [first, second] = proxies;
    first.deed = ({ path }) => (isOwn(path) ? "pass" : redirect(second.url, path));
    second.deed = ({ path }) => (isOwn(path) ? "pass" : redirect(first.url, path));
    const client = new Client({ url: urlsOf([first, second]), onAway: () => undefined, ...way });
    await expect(client.call("GET", "/v2/topics", { patienceMs: 0 })).rejects.toBeInstanceOf(ConnectionLost);
    expect(first.count(/topics/) + second.count(/topics/)).toBe(3);
    // It is repeated, as any call to a server that is away.
    const call = client.call("GET", "/v2/topics");
    await expect.poll(() => first.count(/topics/) + second.count(/topics/)).toBeGreaterThanOrEqual(6);
    second.deed = () => "pass";
    await call;
  });

  test("a redirect to a server that was not named is not followed, and not asked for again", async ({ expect }) => {
    await using server = await TestServer.start();
    await using proxies = await fronts(server);
    const [first, second, stranger] = proxies;
    first.deed = ({ path, headers }) => (headers["prefer"] && !isOwn(path) ? redirect(stranger.url, path) : "pass");
    const client = new Client({ url: urlsOf([first, second]), key: "dq_a_b", patienceMs: 0, ...way });
    await client.call("GET", "/v2/topics");
    await client.call("GET", "/v2/topics?limit=1");
    expect(stranger.seen).toEqual([]);
    expect(stranger.connections).toBe(0);
    expect(second.seen).toEqual([]);
    expect(first.seen.map(({ path, headers }) => [path, headers["prefer"]])).toEqual([
      ["/v2/healthz", "redirect"],
      ["/v2/topics", "redirect"],
      ["/v2/topics", undefined],
      ["/v2/topics?limit=1", undefined],
    ]);
  });

  test("servers where nobody listens cost a call nothing but the way; if nobody listens anywhere, all are told", async ({ expect }) => {
    await using server = await TestServer.start();
    await using proxy = await Proxy.before(server.url);
    const client = new Client({ url: `${closedUrl},http://127.0.0.1:3,${proxy.url}`, patienceMs: 0, ...way });
    await client.call("GET", "/v2/topics");
    await client.call("GET", "/v2/topics");
    expect(proxy.seen.map(({ path }) => path)).toEqual(["/v2/healthz", "/v2/topics", "/v2/topics"]);
    const words: string[] = [];
    const error = await new Client({ url: `${closedUrl}, http://127.0.0.1:3`, patienceMs: 300, onAway: (said) => words.push(said), ...way })
      .call("GET", "/v2/topics")
      .catch((raised: unknown) => raised);
    expect(error).toBeInstanceOf(Unreachable);
    expect(String(error)).toContain(`${closedUrl},http://127.0.0.1:3`);
    expect(words).toEqual([expect.stringContaining(`the cluster at ${closedUrl},http://127.0.0.1:3 is away`)]);
  });

  test.each<[string, Deed]>([
    ["lose answers", "lose_answer"],
    ["answer 503", { status: 503, body: JSON.stringify(away) }],
  ])("calls that %s go to the next server, all of them, and skip none", async (_deed, deed) => {
    await using server = await TestServer.start();
    await using proxies = await fronts(server);
    const [first, second, third] = proxies;
    await server.client().admin.createTopic("orders");
    first.deed = ({ path }) => (isOwn(path) ? "pass" : deed);
    const client = new Client({ url: urlsOf(proxies), onAway: () => undefined, ...way });
    const sent = await Promise.all(Array.from({ length: 8 }, (_, order) => client.send("orders", { order })));
    expect(new Set(sent.map(({ offset }) => offset)).size).toBe(8);
    expect([first, second, third].map((proxy) => proxy.count(/messages/))).toEqual([8, 8, 0]);
    expect([second.count(/healthz/), client.transport.current]).toEqual([1, second.url]);
    // Not repeated where the caller wants one try; the next call goes on all the same.
    second.deed = first.deed;
    const type = deed === "lose_answer" ? ConnectionLost : Unavailable;
    await expect(client.call("POST", "/v2/topics/orders/messages", { body: { value: "9" }, patienceMs: 0 })).rejects.toBeInstanceOf(type);
    expect(client.transport.current).toBe(third.url);
  });

  test("a call that its caller ends says nothing about the server", async ({ expect }) => {
    await using server = await TestServer.start();
    await using proxies = await fronts(server);
    const [first, second] = proxies;
    const caller = new AbortController();
    const reason = new Error("enough");
    first.deed = ({ path }) => (isOwn(path) ? "pass" : (caller.abort(reason), "hang"));
    const client = new Client({ url: urlsOf(proxies), ...way });
    await expect(client.call("GET", "/v2/topics", { signal: caller.signal })).rejects.toBe(reason);
    expect(client.transport.current).toBe(first.url);
    expect(second.seen).toEqual([]);
  });
});

test("a redirect that the runtime keeps to itself is one to a server that was not named", async () => {
  const asked: (string | null)[] = [];
  const opaque: typeof fetch = (_target, init) => {
    asked.push(new Headers(init?.headers).get("prefer"));
    return Promise.resolve(init?.redirect === "manual" ? Response.error() : new Response('{"status":"ok"}'));
  };
  await new Client({ url: `${A},${B}`, fetch: opaque, patienceMs: 0 }).call("GET", "/v2/topics");
  expect(asked).toEqual(["redirect", null, null]);
});

test("a way of the caller's own that knows no redirects leaves passing on to the servers; with one server it is asked as ever", async () => {
  await using server = await TestServer.start();
  await using proxies = await fronts(server);
  const calls: unknown[][] = [];
  const known = byDefault();
  const own = (...call: [...Parameters<Send>]) => (calls.push(call), known(call[0], call[1], call[2], call[3]));
  await new Client({ url: urlsOf(proxies), send: own }).call("GET", "/v2/topics");
  expect(proxies[0].seen.map(({ headers }) => headers["prefer"])).toEqual([undefined, undefined]);
  expect(calls.map((call) => call.length)).toEqual([5, 5]);
  await new Client({ url: server.url, send: own }).call("GET", "/v2/topics");
  expect(calls.slice(2).map((call) => call.length)).toEqual([4, 4]);
});
