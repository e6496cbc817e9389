// OpenTelemetry is installed, and no tracer is set up. A file of its own: what is set up holds for a whole process.
import { context, createContextKey, ROOT_CONTEXT } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { expect, test } from "vitest";
import { Worker, type Context } from "../src/index.js";
import { TestServer } from "../src/testing/index.js";

/** Handles one message of a topic with an effect and a follow-up; answers with the labels of that. */
async function handleOne(topic: string, look: (ctx: Context) => void): Promise<(string | undefined)[]> {
  await using server = await TestServer.start();
  const client = server.client();
  for (const name of [topic, `${topic}-out`]) await client.admin.createTopic(name);
  await client.send(topic, { n: 1 });
  const worker = new Worker(client, "g");
  worker.handle(topic, async (payload, ctx) => {
    look(ctx);
    await ctx.effect("mail", { key: "k" }, () => look(ctx));
    ctx.send(`${topic}-out`, payload);
    void worker.stop();
  });
  await worker.run({ signals: false });
  const traces = [];
  for await (const message of client.admin.messages(`${topic}-out`)) traces.push(message.labels["traceparent"]);
  return traces;
}

test("without a tracer, follow-ups carry a trace that nobody records", async () => {
  let seen: string | undefined;
  const traces = await handleOne("untraced", (ctx) => (seen = ctx.trace.traceparent));
  expect(traces).toEqual([seen]);
  expect(seen).toMatch(/-00$/);
});

test("with contexts and no tracer, handlers and effects have a context of their own", async () => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  const place = createContextKey("where the worker was started");
  const seen: unknown[] = [];
  const look = () => seen.push(context.active().getValue(place));
  await context.with(ROOT_CONTEXT.setValue(place, "outside"), () => handleOne("contexts", look));
  expect(seen).toEqual([undefined, undefined]);
});
