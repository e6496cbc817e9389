// A worker that may be killed at any moment: every order is charged once all the same.
// The books are a file with a line for every charge; they can be asked whether a charge is there.
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { Client, found } from "driftq";

const books = process.env.BOOKS ?? "books.txt";
const topic = process.env.TOPIC ?? "charges";
const group = process.env.GROUP ?? "billing";
const leaseMs = Number(process.env.LEASE_MS ?? 3_000);

function charged(key) {
  return existsSync(books) && readFileSync(books, "utf8").split("\n").some((line) => line.split(" ")[0] === key);
}

const worker = new Client().worker(group, { concurrency: 4, leaseMs });

worker.handle(topic, async ({ key }, ctx) => {
  const reconcile = ({ key: asked }) => (charged(asked) ? found.succeeded(asked) : found.notDone());
  await ctx.effect("charge", { key, onLapse: "hold", leaseMs, reconcile }, async () => {
    await pause(Math.random() * 5);
    appendFileSync(books, `${key} ${process.pid}\n`);
    await pause(Math.random() * 5);
    return key;
  });
  ctx.send("receipts", { key });
});

await worker.run();
