import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { TestServer, runUntilIdle } from "../src/testing/index.js";
import { Client, Unauthenticated } from "../src/index.js";
import { Proxy } from "./support/proxy.js";
import { front, mismatch, Play, scenarios } from "./support/scenario.js";
import { identity, keyFlags, tlsFlags } from "./support/secured.js";

const all = scenarios();

test("there are scenarios", () => expect(all.length).toBeGreaterThanOrEqual(20));

const folder = mkdtempSync(join(tmpdir(), "driftq-keys-"));
const { root, flags: asksForKeys } = keyFlags(folder);
afterAll(() => rmSync(folder, { recursive: true }));

/** What a worker and whoever looks after it do, without the right to make keys. */
const ACTIONS = ["produce", "consume", "effects", "outputs", "read", "read_payload", "manage"];

/** What is shown to a server of scenarios: nothing, or a key of its own. */
async function shownTo(server: TestServer, isSecured: boolean): Promise<{ key?: string }> {
  if (!isSecured) return {};
  expect(server.url).toMatch(/^https:/);
  const made = await server.client({ key: root }).call<{ secret: string }>("POST", "/v2/keys", { body: { actions: ACTIONS } });
  return { key: made.secret };
}

describe.concurrent.each([
  ["scenario", false],
  ["scenario with TLS and a key", true],
] as const)("%s", (_title, isSecured) => {
  test.each(all.map((scenario) => [scenario.name, scenario] as const))("%s", async (_name, scenario) => {
    await using server = await TestServer.start({ flags: isSecured ? [...asksForKeys, ...tlsFlags()] : [] });
    const shown = await shownTo(server, isSecured);
    const client = server.client(shown);
    for (const [topic, settings] of Object.entries(scenario.topics)) await client.call("PUT", `/v2/topics/${topic}`, { body: settings });
    for (const { topic, message } of scenario.produce) await client.call("POST", `/v2/topics/${topic}/messages`, { body: message });

    await using proxy = await Proxy.before(server.url, isSecured ? identity() : undefined);
    front(proxy, scenario.front ?? []);
    const own = new Client({ url: scenario.front ? proxy.url : server.url, ...shown });
    const play = new Play(scenario, client, own);
    const { topic, group, lease_ms, heartbeat, concurrency, timeout_ms, required } = scenario.worker;
    const worker = own.worker(group, { leaseMs: lease_ms, heartbeat: heartbeat ?? true, concurrency: concurrency ?? 1, onEvent: () => undefined });
    const schema = (input: unknown) => {
      for (const name of required ?? []) if (!Object.hasOwn(input as object, name)) throw new Error(`${name} is missing`);
      return input;
    };
    worker.handle(topic, { schema, ...(timeout_ms === undefined ? {} : { timeoutMs: timeout_ms }) }, play.handler);
    await runUntilIdle(worker);

    expect(play.complaints).toEqual([]);
    expect(play.attempts).toEqual(scenario.expect.attempts);
    expect(play.executions).toEqual(scenario.expect.executions);
    if (scenario.expect.reconciled) expect(play.reconciled).toEqual(scenario.expect.reconciled);
    for (const { post, body_has: has = "", at_least, at_most } of scenario.expect.requests ?? []) {
      const count = proxy.seen.filter(({ method, path, body }) => method === "POST" && path === post && body.includes(has)).length;
      expect(count, post).toBeGreaterThanOrEqual(at_least);
      expect(count, post).toBeLessThanOrEqual(at_most);
    }
    for (const { get, has, status } of scenario.expect.server) {
      const answer = await fetch(server.url + get, { headers: shown.key === undefined ? {} : { authorization: `Bearer ${shown.key}` } });
      expect(answer.status).toBe(status ?? 200);
      expect(mismatch(await answer.json(), has, get)).toBeUndefined();
    }
  });
});

test("without a key, or with one that is no key, nothing is answered", async () => {
  await using server = await TestServer.start({ flags: asksForKeys });
  await expect(server.client().call("PUT", "/v2/topics/orders", { body: {} })).rejects.toBeInstanceOf(Unauthenticated);
  await server.client({ key: root }).call("PUT", "/v2/topics/orders", { body: {} });
  for (const key of ["hunter2", "dq_1_\nhunter2"]) {
    expect(() => server.client({ key })).toThrow(/is not dq_/);
    expect(() => server.client({ key })).not.toThrow(/hunter2/);
  }
});
