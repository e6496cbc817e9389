import { Client, found, guarded, type EffectRecord } from "driftq";

interface Order {
  order: string;
  cents: number;
}

const books = new Map<string, string>();
const client = new Client();
const worker = client.worker("billing", { concurrency: 4 });

/** Stands for a schema: anything with `parse` will do, or a function. */
function orderOf(input: unknown): Order {
  const { order, cents } = input as Partial<Order>;
  if (typeof order !== "string" || typeof cents !== "number") throw new Error("an order has a name and cents");
  return { order, cents };
}

const mail = guarded("mail", { onLapse: "retry" }, async (to: string, text: string) => `sent to ${to}: ${text}`);

worker.handle("orders", { schema: orderOf, timeoutMs: 30_000 }, async ({ order, cents }, ctx) => {
  const reconcile = (record: EffectRecord) => (books.has(record.key) ? found.succeeded(books.get(record.key)!) : found.notDone());
  const charge = await ctx.effect("charge", { key: order, args: { order, cents }, reconcile }, async (signal, effect) => {
    signal.throwIfAborted();
    books.set(effect.key, `ch_${books.size + 1}`);
    return books.get(effect.key)!;
  });
  await mail("ann@example.com", `charged ${cents} cents`);
  ctx.send("receipts", { order, charge }, { key: order });
  console.log(`${order} is charged: ${charge.toUpperCase()}`);
  void worker.stop();
});

await client.admin.createTopic("orders");
await client.admin.createTopic("receipts");
await client.send("orders", { order: "order-1", cents: 500 });
await worker.run();
