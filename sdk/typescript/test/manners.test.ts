import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { Client, guarded, Unreachable, type ClientOptions, type EffectOptions, type SendOptions, type WorkerOptions } from "../src/index.js";
import { eventLine } from "../src/events.js";
import { runUntilIdle, TestServer } from "../src/testing/index.js";
import { closedUrl } from "./support/proxy.js";

// What a program may expect of an SDK that runs inside it: words in time, and nothing taken in silence.

const PACKAGE = fileURLToPath(new URL("..", import.meta.url));
const client = new Client(closedUrl);
const nothing = () => undefined;

describe("a server that is not there", () => {
  test("is said at once, once, and for how long it is waited for", async () => {
    const told: { words: string; at: number }[] = [];
    const began = performance.now();
    const waiting = new Client({ url: closedUrl, patienceMs: 1_500, onAway: (words) => told.push({ words, at: performance.now() }) });
    await expect(waiting.send("orders", 1)).rejects.toBeInstanceOf(Unreachable);
    const took = performance.now() - began;
    expect(told).toHaveLength(1);
    expect(told[0]!.at - began).toBeLessThan(took / 2);
    expect(told[0]!.words).toContain(closedUrl);
    expect(told[0]!.words).toContain("1.5 s");
    // Whoever asks again is told again.
    await expect(waiting.send("orders", 1)).rejects.toBeInstanceOf(Unreachable);
    expect(told).toHaveLength(2);
  });
});

describe("handlers are refused where they are written", () => {
  test.each([
    ["three parameters", (_a: unknown, _b: unknown, _c: unknown) => undefined],
    ["no function", 17],
    ["nothing", undefined],
  ])("with %s", (_, handler) => {
    expect(() => client.worker("billing").handle("orders", {}, handler as () => void)).toThrow(/the handler of orders/);
    expect(() => client.worker("billing").handleBatch("orders", { batch: 2 }, handler as () => void)).toThrow(/the handler of orders/);
  });
  test("but not with fewer parameters", () => {
    expect(() => client.worker("billing").handle("orders", nothing).handleBatch("mails", { batch: 2 }, nothing)).not.toThrow();
  });
  test("with the options behind it", () => {
    expect(() => client.worker("billing").handle("orders", nothing as object, { timeoutMs: 5 } as never)).toThrow(/the handler of orders/);
  });
});

describe("an option that nobody knows is an error at once", () => {
  test.each<[string, string, () => unknown]>([
    ["a client", "patience", () => new Client({ url: closedUrl, patience: 5 } as ClientOptions)],
    ["a worker", "concurency", () => client.worker("billing", { concurency: 4 } as WorkerOptions)],
    ["a handler", "timeout", () => client.worker("billing").handle("orders", { timeout: 5 } as object, nothing)],
    ["a batch handler", "size", () => client.worker("billing").handleBatch("orders", { batch: 2, size: 5 } as { batch: number }, nothing)],
    ["a producer", "bufer", () => client.producer({ bufer: 5 } as object)],
    ["a guarded function", "onLaps", () => guarded("mail", { onLaps: "retry" } as object, nothing)],
  ])("of %s", (_, option, make) => {
    expect(make).toThrow(TypeError);
    expect(make).toThrow(option);
  });
  test.each<[string, string, () => Promise<unknown>]>([
    ["a message", "idempotencykey", () => client.send("orders", 1, { idempotencykey: "k" } as SendOptions)],
    ["a retry policy", "attempts", () => client.send("orders", 1, { retryPolicy: { attempts: 5 } as object })],
    ["an effect", "maxattempts", () => client.effect("charge", { key: "k", maxattempts: 2 } as EffectOptions, nothing)],
    ["a run", "stepId", () => client.run("run-7", { stepId: "plan" } as object, nothing)],
    ["the run of a worker", "signal_", () => client.worker("billing").handle("orders", nothing).run({ signal_: 1 } as object)],
  ])("of %s", async (_, option, make) => {
    const made = make();
    await expect(made).rejects.toBeInstanceOf(TypeError);
    await expect(made).rejects.toThrow(option);
  });
});

test.each(["http://me:secret@127.0.0.1:2", "http://me@127.0.0.1:2", "https://:secret@broker"])("a user in the URL is refused: %s", (url) => {
  expect(() => new Client(url)).toThrow(/user/);
  expect(() => new Client(url)).not.toThrow(/secret/);
});

test("a second signal is the application's if it listens", { timeout: 60_000 }, async () => {
  await using server = await TestServer.start();
  await server.client().admin.createTopic("orders");
  await server.client().send("orders", 1);
  const program = `
    import { Client } from "driftq";
    let heard = 0;
    process.on("SIGTERM", () => {
      heard += 1;
      console.log("heard", heard);
      // Whoever ends the process before is not the application.
      if (heard === 2) setTimeout(() => process.exit(42), 200);
    });
    const worker = new Client("${server.url}").worker("billing", { drainTimeoutMs: 300_000 }).handle("orders", async () => {
      console.log("begun");
      await new Promise((resolve) => setTimeout(resolve, 60_000));
    });
    await worker.run();
  `;
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], { cwd: PACKAGE, stdio: ["ignore", "pipe", "inherit"] });
  const exit = new Promise<number | string | null>((resolve) => child.once("close", (code, signal) => resolve(code ?? signal)));
  let output = "";
  child.stdout.on("data", (part: Buffer) => {
    output += part.toString();
    if (output === "begun\n" || output === "begun\nheard 1\n") child.kill("SIGTERM");
  });
  expect(await exit).toBe(42);
  expect(output).toBe("begun\nheard 1\nheard 2\n");
});

test("a message that has used up its attempts is told of as a dead letter", async () => {
  await using server = await TestServer.start();
  const client = server.client();
  await client.admin.createTopic("orders", { retryPolicy: { backoffMs: 1, maxBackoffMs: 1, jitter: "none", maxAttempts: 2 } });
  await client.send("orders", 1);
  const told: [string, number][] = [];
  const lines: string[] = [];
  const worker = client.worker("billing", {
    onEvent: (event) => {
      lines.push(eventLine(event));
      if ("attempt" in event) told.push([event.kind, event.attempt]);
    },
  });
  worker.handle("orders", () => {
    throw new Error("no");
  });
  await runUntilIdle(worker);
  expect(told).toEqual([["handler_failed", 1], ["handler_failed", 2], ["dead_lettered", 2]]);
  expect(lines.filter((line) => /, it comes again:/.test(line))).toEqual([]);
  expect(lines.at(-1)).toContain("dead letter");
});
