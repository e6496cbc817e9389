import { afterAll, beforeAll, expect, test } from "vitest";
import { Client, PreconditionFailed, Retry, Worker } from "../src/index.js";
import { runUntilIdle, TestServer } from "../src/testing/index.js";

let server: TestServer;
let client: Client;
beforeAll(async () => {
  server = await TestServer.start();
  client = server.client();
});
afterAll(() => server.stop());

async function call(path: string, body?: object): Promise<{ version: number }> {
  const init = body && { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  return (await (await fetch(new URL(path, server.url), init || {})).json()) as { version: number };
}

test("an effect is begun only at a version", async () => {
  const ship = () => client.effect("ship", { key: "order-1", expect: { "order-1": 0 } }, () => "shipped");
  expect(await ship()).toBe("shipped");
  const cancel = client.effect("cancel", { key: "order-1", expect: { "order-1": 0 } }, () => "cancelled");
  await expect(cancel).rejects.toMatchObject({ name: "PreconditionFailed", entity: "order-1", version: 1, retryable: false });
  // A replay compares nothing.
  expect(await ship()).toBe("shipped");
  expect((await call("/v2/entities/order-1")).version).toBe(1);
});

test("a commit is done only at a version", async () => {
  await client.admin.createTopic("preconditions");
  await client.send("preconditions", "order-2", { tenantId: "acme" });
  const refusals: PreconditionFailed[] = [];
  const worker = new Worker(client, "g").handle("preconditions", async (order: string, ctx) => {
    ctx.expect(order, refusals[0]?.version ?? 0);
    expect(() => ctx.expect(order, 5)).toThrow("already");
    if (ctx.attempt === 1) await call("/v2/commit", { expect: [{ entity: order, version: 0 }], tenant_id: "acme" });
    try {
      await ctx.commit();
    } catch (error) {
      if (!(error instanceof PreconditionFailed)) throw error;
      refusals.push(error);
      throw new Retry("somebody was there before", { afterMs: 0 });
    }
  });
  await runUntilIdle(worker);
  expect(refusals.map(({ entity, version }) => [entity, version])).toEqual([["order-2", 1]]);
  expect((await call("/v2/entities/order-2?tenant_id=acme")).version).toBe(2);
});

test("a run shows which versions its work has read", async () => {
  await client.admin.createTopic("readers");
  await client.send("readers", "prices", { runId: "nightly", tenantId: "acme" });
  await runUntilIdle(new Worker(client, "g").handle("readers", (dataset: string, ctx) => ctx.readVersion(dataset, "v7")));
  const run = (await call("/v2/runs/nightly?tenant_id=acme")) as unknown as { steps: { messages: { reads: object[] }[] }[] };
  const reads = run.steps.flatMap((step) => step.messages.map((message) => message.reads));
  expect(reads).toEqual([[{ dataset: "prices", version: "v7" }]]);
});
