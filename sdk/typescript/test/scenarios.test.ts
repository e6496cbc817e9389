import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { TestServer, runUntilIdle } from "../src/testing/index.js";
import { Client, Unauthenticated } from "../src/index.js";
import { Proxy } from "./support/proxy.js";
import { front, mismatch, Play, scenarios } from "./support/scenario.js";

const all = scenarios();

test("there are scenarios", () => expect(all.length).toBeGreaterThanOrEqual(20));

/** The root key of servers that ask for keys, and the file that they read it from. */
const ROOT = `dq_root_${"5a".repeat(32)}`;
const folder = mkdtempSync(join(tmpdir(), "driftq-keys-"));
const file = join(folder, "root");
writeFileSync(file, ROOT);
afterAll(() => rmSync(folder, { recursive: true }));

describe.concurrent.each([
  ["scenario", {}, []],
  ["scenario with a key", { key: ROOT }, ["--keys", "required", "--root-key-file", file]],
] as const)("%s", (_title, shown, flags) => {
  test.each(all.map((scenario) => [scenario.name, scenario] as const))("%s", async (_name, scenario) => {
    await using server = await TestServer.start({ flags });
    const client = server.client(shown);
    for (const [topic, settings] of Object.entries(scenario.topics)) await client.call("PUT", `/v2/topics/${topic}`, { body: settings });
    for (const { topic, message } of scenario.produce) await client.call("POST", `/v2/topics/${topic}/messages`, { body: message });

    await using proxy = await Proxy.before(server.url);
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
      const answer = await fetch(server.url + get, { headers: "key" in shown ? { authorization: `Bearer ${shown.key}` } : {} });
      expect(answer.status).toBe(status ?? 200);
      expect(mismatch(await answer.json(), has, get)).toBeUndefined();
    }
  });
});

test("without a key, or with one that is no key, nothing is answered", async () => {
  await using server = await TestServer.start({ flags: ["--keys", "required", "--root-key-file", file] });
  await expect(server.client().call("PUT", "/v2/topics/orders", { body: {} })).rejects.toBeInstanceOf(Unauthenticated);
  await server.client({ key: ROOT }).call("PUT", "/v2/topics/orders", { body: {} });
  for (const key of ["hunter2", "dq_1_\nhunter2"]) {
    expect(() => server.client({ key })).toThrow(/is not dq_/);
    expect(() => server.client({ key })).not.toThrow(/hunter2/);
  }
});
