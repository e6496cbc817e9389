import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { assertEffects, TestServer } from "../src/testing/index.js";

const PACKAGE = fileURLToPath(new URL("..", import.meta.url));

function worker(server: TestServer, books: string): ChildProcess {
  const env = { ...process.env, DRIFTQ_SERVER: server.url, BOOKS: books, LEASE_MS: "500" };
  return spawn(process.execPath, ["examples/crash-worker.mjs"], { cwd: PACKAGE, env, stdio: "ignore" });
}

function ended(child: ChildProcess): Promise<number | string | null> {
  return new Promise((resolve) => child.once("exit", (code, signal) => resolve(code ?? signal)));
}

function lines(books: string): string[] {
  return existsSync(books) ? readFileSync(books, "utf8").trimEnd().split("\n") : [];
}

test("workers that are killed at any moment charge every order once", async () => {
  await using server = await TestServer.start({ onDisk: true });
  const directory = mkdtempSync(join(tmpdir(), "driftq-books-"));
  const books = join(directory, "books.txt");
  const client = server.client();
  const orders = Array.from({ length: 120 }, (_, n) => `order-${n}`);
  for (const topic of ["charges", "receipts"]) await client.admin.createTopic(topic);
  const producer = client.producer();
  for (const key of orders) await producer.send("charges", { key });
  await producer.close();

  let child = worker(server, books);
  let exit = ended(child);
  for (let kill = 1; kill <= 3; kill += 1) {
    await expect.poll(() => lines(books).length, { timeout: 20_000, interval: 5 }).toBeGreaterThanOrEqual(kill * 25);
    child.kill("SIGKILL");
    await exit;
    if (kill === 2) await server.restart();
    child = worker(server, books);
    exit = ended(child);
  }
  await expect.poll(async () => (await client.admin.group("charges", "billing")).lag, { timeout: 30_000, interval: 50 }).toBe(0);
  child.kill("SIGTERM");
  expect(await exit).toBe(0);

  expect(lines(books).map((line) => line.split(" ")[0]).sort()).toEqual([...orders].sort());
  await assertEffects(server, { scope: "charge", count: orders.length });
  const receipts: string[] = [];
  for await (const message of client.admin.messages("receipts")) receipts.push(JSON.parse(message.value!).key);
  expect(receipts.sort()).toEqual([...orders].sort());
  rmSync(directory, { recursive: true });
});

test("a second signal ends a worker at once", async () => {
  await using server = await TestServer.start();
  await server.client().admin.createTopic("stuck");
  await server.client().send("stuck", 1);
  const program = `
    import { Client } from "driftq";
    const worker = new Client().worker("group").handle("stuck", () => new Promise(() => console.log("begun")));
    process.once("SIGTERM", () => console.log("heard"));
    await worker.run();
  `;
  const env = { ...process.env, DRIFTQ_SERVER: server.url };
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], { cwd: PACKAGE, env, stdio: ["ignore", "pipe", "inherit"] });
  const exit = ended(child);
  const said = () => new Promise((resolve) => child.stdout.once("data", resolve));
  await said();
  const heard = said();
  child.kill("SIGTERM");
  // Two signals that wait to be heard are one.
  await heard;
  child.kill("SIGTERM");
  expect(await exit).toBe("SIGTERM");
});
