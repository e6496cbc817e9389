import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { Client, TopicUnknown, type WorkerEvent } from "../src/index.js";
import { TestServer } from "../src/testing/index.js";
import { closedUrl, Proxy, Stranger } from "./support/proxy.js";
import { gate } from "./support/signals.js";

const PACKAGE = fileURLToPath(new URL("..", import.meta.url));
/** Longer than any test may take: whoever waits for it is found out. */
const FOREVER_MS = 600_000;
const patient = { startTimeoutMs: FOREVER_MS, onEvent: () => undefined };

/** A worker as a program of its own; ends with how it ended and what it printed. */
async function signalled(url: string): Promise<{ exit: number | string | null; output: string }> {
  const program = `
    import { Client } from "driftq";
    const worker = new Client({ url: ${JSON.stringify(url)}, connectTimeoutMs: ${FOREVER_MS} }).worker("group", { startTimeoutMs: ${FOREVER_MS} });
    worker.handle("orders", () => undefined);
    const run = worker.run();
    console.log("begun");
    await run;
    console.log("ended");
  `;
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], { cwd: PACKAGE, stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  const exit = new Promise<number | string | null>((resolve) => child.once("close", (code, signal) => resolve(code ?? signal)));
  await new Promise<void>((resolve) => child.stdout.on("data", (part: Buffer) => ((output += part), resolve())));
  child.kill("SIGTERM");
  return { exit: await exit, output };
}

describe.concurrent("a worker that has not started yet", () => {
  test("ends with a signal while it waits for a server", async () => {
    expect(await signalled(closedUrl)).toEqual({ exit: 0, output: "begun\nended\n" });
  });

  test("ends with a signal while somebody does not answer it", async () => {
    await using stranger = await Stranger.tcp("");
    expect(await signalled(stranger.url)).toEqual({ exit: 0, output: "begun\nended\n" });
  });

  test("ends when it is stopped, or its signal fires", async () => {
    const worker = new Client(closedUrl).worker("billing", patient).handle("orders", () => undefined);
    const run = worker.run({ signals: false });
    await worker.stop();
    await run;
    const controller = new AbortController();
    const other = new Client(closedUrl).worker("billing", patient).handle("orders", () => undefined).run({ signals: false, signal: controller.signal });
    controller.abort();
    await other;
  });

  test("remembers that it was stopped", async () => {
    const worker = new Client(closedUrl).worker("billing", patient).handle("orders", () => undefined);
    await worker.stop();
    await worker.run({ signals: false });
  });

  test("does not take the answer from others who wait for the same server", async () => {
    await using server = await TestServer.start();
    await using proxy = await Proxy.before(server.url);
    const asked = gate();
    const answer = gate();
    proxy.deed = ({ path }) => {
      if (/healthz/.test(path) && proxy.count(/healthz/) === 1) {
        asked.open();
        return answer.promise.then(() => "pass");
      }
      return "pass";
    };
    const client = new Client(proxy.url);
    await server.client().admin.createTopic("orders");
    const worker = client.worker("billing", patient).handle("orders", () => undefined);
    const run = worker.run({ signals: false });
    const sent = client.send("orders", 1);
    await asked.promise;
    await worker.stop();
    await run;
    answer.open();
    await expect(sent).resolves.toMatchObject({ offset: 0 });
    expect(proxy.count(/healthz/)).toBe(1);
  });
});

describe.concurrent("what the server does not hear at the end", () => {
  test.each([
    ["an ack", /leases\/ack/, () => undefined],
    ["a nack", /leases\/nack/, () => { throw new Error("failed"); }],
    ["a commit", /commit/, (send: () => void) => send()],
  ])("of a drain is told before the worker has stopped: %s", async (_name, unheard, act) => {
    await using server = await TestServer.start();
    await using proxy = await Proxy.before(server.url);
    await server.client().admin.createTopic("orders");
    await server.client().admin.createTopic("receipts");
    await server.client().send("orders", 1);
    proxy.deed = ({ path }) => (unheard.test(path) ? "hang" : "pass");
    const events: WorkerEvent[] = [];
    const options = { drainTimeoutMs: FOREVER_MS, onEvent: (event: WorkerEvent) => events.push(event) };
    const worker = new Client(proxy.url).worker("billing", options).handle("orders", (_payload, context) => {
      void worker.stop();
      act(() => context.send("receipts", 1));
    });
    await worker.run({ signals: false });
    const lost = events.filter((event) => event.kind === "settlement_lost");
    expect(lost).toMatchObject([{ message: { topic: "orders", offset: 0 }, attempt: 1, error: { message: expect.stringContaining("did not hear of it") } }]);
  });
});

describe.concurrent("a topic that does not exist", () => {
  test("is named by a worker of several that does not start", async () => {
    await using server = await TestServer.start();
    await server.client().admin.createTopic("orders");
    const worker = server.client().worker("billing").handle("orders", () => undefined).handle("refunds", () => undefined);
    const error = await worker.run({ signals: false }).catch((raised: unknown) => raised);
    expect(error).toBeInstanceOf(TopicUnknown);
    expect(error).toMatchObject({ code: "TOPIC_UNKNOWN", status: 404, detail: "there is no topic refunds", message: expect.stringContaining("Create it first") });
  });

  test("any more is named by a worker of several, after what runs has ended", async () => {
    await using server = await TestServer.start();
    const client = server.client();
    for (const topic of ["orders", "refunds"]) await client.admin.createTopic(topic);
    await client.send("orders", 1);
    const begun = gate();
    const end = gate();
    let ended = false;
    const worker = client.worker("billing", { onEvent: () => undefined }).handle("refunds", () => undefined);
    worker.handle("orders", async () => {
      begun.open();
      await end.promise;
      ended = true;
    });
    const run = worker.run({ signals: false });
    await begun.promise;
    await client.admin.deleteTopic("refunds");
    end.open();
    const error = await run.catch((raised: unknown) => raised);
    expect(error).toBeInstanceOf(TopicUnknown);
    expect(String(error)).toContain("refunds");
    expect(ended).toBe(true);
    expect(await client.admin.group("orders", "billing")).toMatchObject({ lag: 0 });
  });
});
