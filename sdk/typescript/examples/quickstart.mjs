// Needs a server: driftq serve --ephemeral
import { Client } from "driftq";

const client = new Client();
await client.admin.createTopic("orders");
await client.admin.createTopic("receipts");
await client.send("orders", { order: "order-1", cents: 500 }, { runId: "run-7", stepId: "charge" });

const worker = client.worker("billing", { concurrency: 4 });

worker.handle("orders", async ({ order, cents }, ctx) => {
  const charge = await ctx.effect("charge", { key: order, args: { order, cents } }, async (signal, effect) => {
    console.log(`charging ${order}, attempt ${ctx.attempt}`);
    return { id: `ch_${effect.key}`, cents };
  });
  if (ctx.attempt === 1) throw new Error("the network broke after the charge");
  ctx.send("receipts", { order, charge: charge.id });
  console.log(`charged once: ${charge.id}`);
  worker.stop();
});

await worker.run();
