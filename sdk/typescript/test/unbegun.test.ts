import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { Client } from "../src/index.js";
import { TestServer } from "../src/testing/index.js";
import { Proxy } from "./support/proxy.js";
import { gate } from "./support/signals.js";

// What a worker has borrowed ahead of time and not begun loses no attempt if the worker dies.

const PACKAGE = fileURLToPath(new URL("..", import.meta.url));
const prompt = { retryPolicy: { backoffMs: 1, maxBackoffMs: 1, jitter: "none" } } as const;

interface Lease {
  token: string;
  started?: boolean;
}

function beats(proxy: Proxy): Lease[][] {
  const calls = proxy.seen.filter(({ path }) => path === "/v2/leases/extend");
  return calls.map(({ body }) => (JSON.parse(body) as { leases: Lease[] }).leases);
}

async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const ends = performance.now() + 30_000;
  while (!(await holds())) {
    if (performance.now() > ends) throw new Error(`not within 30 s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe.concurrent("what waits in a worker", () => {
  test("loses no attempt when the worker is killed", async () => {
    await using server = await TestServer.start();
    await using proxy = await Proxy.before(server.url);
    const client = server.client();
    await client.admin.createTopic("orders", prompt);
    for (const order of ["begun", "waits"]) await client.send("orders", order);
    const program = `
      import { Client } from "driftq";
      const worker = new Client("${proxy.url}").worker("billing", { prefetch: 1, leaseMs: 900 });
      await worker.handle("orders", () => new Promise((resolve) => setTimeout(resolve, 600_000))).run();
    `;
    const child = spawn(process.execPath, ["--input-type=module", "-e", program], { cwd: PACKAGE, stdio: "inherit" });
    try {
      await until("a heartbeat for both", () => beats(proxy).some((beat) => beat.length === 2));
    } finally {
      child.kill("SIGKILL");
    }
    const said = beats(proxy).find((beat) => beat.length === 2)!;
    expect(said.map(({ started }) => started).sort()).toEqual([false, undefined]);
    const attempts: Record<string, number> = {};
    await until("both come again", async () => {
      const body = { owner: "next", max: 2, lease_ms: 60_000, wait_ms: 1_000 };
      const { messages } = await client.call<{ messages: { value: string; lease: { attempt: number } }[] }>("POST", "/v2/topics/orders/groups/billing/lease", { body });
      for (const { value, lease } of messages) attempts[JSON.parse(value) as string] = lease.attempt;
      return Object.keys(attempts).length === 2;
    });
    expect(attempts).toEqual({ begun: 2, waits: 1 });
  });

  test("is told of when it is begun, before the next heartbeat", async () => {
    await using server = await TestServer.start();
    await using proxy = await Proxy.before(server.url);
    const client = server.client();
    await client.admin.createTopic("orders", prompt);
    for (let order = 0; order < 3; order += 1) await client.send("orders", order);
    const goesOn = gate();
    const begun: string[] = [];
    // A heartbeat every two seconds, for all that is held: what tells of one message alone is none.
    const worker = new Client(proxy.url).worker("billing", { prefetch: 2, leaseMs: 6_000 }).handle("orders", async (payload, context) => {
      begun.push(context.leaseToken);
      await goesOn.promise;
      if (payload === 1) await new Promise((resolve) => setTimeout(resolve, 1_500));
    });
    const run = worker.run({ signals: false });
    await until("a heartbeat for all", () => beats(proxy).some((beat) => beat.length === 3));
    goesOn.open();
    const alone = (beat: Lease[]) => beat.length === 1 && beat[0]!.token === begun[1] && beat[0]!.started === undefined;
    await until("it is told of, alone", () => beats(proxy).some(alone));
    await worker.stop();
    await run;
  });
});
