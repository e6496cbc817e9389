import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { byDefault } from "../src/exchange.js";
import { Client, type Send } from "../src/index.js";
import { sleep } from "../src/time.js";
import { Cluster } from "./support/cluster.js";
import { closedUrl } from "./support/proxy.js";

// A client that knows the servers of a real cluster.

let cluster: Cluster;
let reason: string | undefined;
beforeAll(async () => {
  const started = await Cluster.start();
  if (typeof started === "string") console.warn(`no tests with a cluster: ${(reason = started)}`);
  else cluster = started;
});
beforeEach(({ skip }) => skip(reason !== undefined, reason));
afterAll(() => cluster?.stop());

/** The client's way, and the servers that were sent anything by it. */
function watched(): { send: Send; asked: Set<string> } {
  const known = byDefault();
  const asked = new Set<string>();
  return { send: (...call) => (asked.add(new URL(call[1]).origin), known(...call)), asked };
}

test("one try finds the serving server, also where nobody listens at the first URL", async () => {
  const { url } = await cluster.serving();
  const others = cluster.urls.filter((other) => other !== url);
  const client = new Client({ url: [closedUrl, ...others, url].join(", "), patienceMs: 0 });
  await client.admin.createTopic("found");
  expect(await client.send("found", 1)).toMatchObject({ offset: 0 });
  expect(client.transport.current).toBe(url);
});

test("a client that does not know the serving server sends it nothing, and has its calls passed on", async () => {
  const { url } = await cluster.serving();
  const others = cluster.urls.filter((other) => other !== url);
  const { send, asked } = watched();
  const client = new Client({ url: others.join(), send, patienceMs: 0 });
  await client.admin.createTopic("passed-on");
  for (let order = 0; order < 3; order += 1) expect(await client.send("passed-on", order)).toMatchObject({ offset: order });
  expect([...asked]).toEqual([others[0]]);
});

test("nothing fails and nothing is lost when the serving server is killed", async () => {
  const client = new Client({ url: cluster.urls.join(), onAway: () => undefined });
  for (const topic of ["orders", "receipts", "kept"]) await client.admin.createTopic(topic);
  const sent: string[] = [];
  let going = true;
  const produce = async (who: number) => {
    for (let n = 0; going; n += 1) {
      await client.send("orders", `${who}-${n}`);
      sent.push(`${who}-${n}`);
    }
  };
  const handled = new Set<string>();
  const worker = client.worker("billing", { concurrency: 4, leaseMs: 5_000, onEvent: () => undefined });
  worker.handle<string>("orders", (order, ctx) => {
    handled.add(order);
    ctx.send("receipts", order);
  });
  const run = worker.run({ signals: false });
  const producers = Promise.all(Array.from({ length: 4 }, (_, who) => produce(who)));
  // A failure ends the test at once.
  const failure = Promise.all([run, producers]).then(() => new Promise<never>(() => undefined));
  const until = (done: () => boolean | Promise<boolean>) => Promise.race([failure, expect.poll(done, { timeout: 20_000 }).toBe(true)]);

  await until(() => handled.size > 50);
  const killed = await cluster.serving();
  expect(client.transport.current).toBe(killed.url);
  await killed.kill();
  // All clients of this process share their connections, and it is to learn that those are gone.
  await sleep(20);
  // The others still name the server that is gone: one of them is asked to keep the call until another serves.
  const urls = [killed.url, ...cluster.urls.filter((url) => url !== killed.url)];
  await new Client({ url: urls.join(), patienceMs: 0 }).send("kept", 1);
  const before = { sent: sent.length, handled: handled.size };
  await until(() => sent.length > before.sent + 50 && handled.size > before.handled + 50);
  going = false;
  await producers;
  await until(async () => handled.size === sent.length && (await client.admin.group("orders", "billing")).lag === 0);
  await worker.stop();
  await run;

  const receipts: string[] = [];
  for await (const message of client.admin.messages("receipts")) receipts.push(JSON.parse(message.value!));
  expect(receipts.sort()).toEqual([...sent].sort());
  const serving = await cluster.serving();
  expect(serving).not.toBe(killed);
  expect(client.transport.current).toBe(serving.url);
});
