import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { context, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor, type ReadableSpan } from "@opentelemetry/sdk-trace-base";
import { beforeAll, expect, test } from "vitest";
import { Dead, Worker } from "../src/index.js";
import { TestServer } from "../src/testing/index.js";

const exporter = new InMemorySpanExporter();

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }));
});

function named(name: string): ReadableSpan {
  const found = exporter.getFinishedSpans().filter((span) => span.name === name);
  expect(found.map((span) => span.name)).toEqual([name]);
  return found[0]!;
}

test("a handler is linked to its producer, and an effect is part of it", async () => {
  await using server = await TestServer.start();
  const client = server.client();
  for (const topic of ["spans-in", "spans-out"]) await client.admin.createTopic(topic);
  const producer = await trace.getTracer("test").startActiveSpan("checkout", async (span) => {
    await client.send("spans-in", { n: 1 });
    span.end();
    return span.spanContext();
  });
  const worker = new Worker(client, "g", { concurrency: 1 });
  worker.handle("spans-in", async (payload, ctx) => {
    await ctx.effect("mail", { key: "k" }, async () => 1);
    ctx.send("spans-out", payload);
    void worker.stop();
  });
  await worker.run();
  const handler = named("process spans-in");
  const effect = named("effect mail");
  expect(handler.kind).toBe(SpanKind.CONSUMER);
  expect(handler.parentSpanContext).toBeUndefined();
  expect(handler.links.map((link) => [link.context.traceId, link.context.spanId])).toEqual([[producer.traceId, producer.spanId]]);
  expect(effect.parentSpanContext?.spanId).toBe(handler.spanContext().spanId);
  const { traceId, spanId } = handler.spanContext();
  const inherited = [];
  for await (const message of client.admin.messages("spans-out")) inherited.push(message.labels["traceparent"]);
  expect(inherited).toEqual([`00-${traceId}-${spanId}-01`]);
});

test("an error is the span's, too", async () => {
  await using server = await TestServer.start();
  const client = server.client();
  await client.admin.createTopic("spans-bad");
  await client.send("spans-bad", 1);
  const worker = new Worker(client, "g", { concurrency: 1 });
  worker.handle("spans-bad", () => {
    void worker.stop();
    throw new Dead("no use");
  });
  await worker.run();
  const handler = named("process spans-bad");
  expect(handler.status.code).toBe(SpanStatusCode.ERROR);
  expect(handler.links).toEqual([]);
});

test("without OpenTelemetry nothing is missing", async () => {
  const hooks = `export function resolve(name, at, next) {
    if (name.startsWith("@opentelemetry/")) throw new Error("not installed");
    return next(name, at);
  }`;
  const program = `
    import { register } from "node:module";
    register(${JSON.stringify(`data:text/javascript,${encodeURIComponent(hooks)}`)});
    const { Client } = await import(${JSON.stringify(new URL("../dist/index.js", import.meta.url).href)});
    console.log(typeof Client);
  `;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", program]);
  expect(stdout).toBe("function\n");
});
