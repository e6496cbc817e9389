// A worker whose spans go where its application wants them: here, a line of JSON for each on standard output.
import { setTimeout as pause } from "node:timers/promises";
import { context, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { BasicTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { Client, Retry } from "driftq";

const ns = ([seconds, rest]) => seconds * 1e9 + rest;
const lines = {
  export(spans, done) {
    for (const span of spans) {
      const { traceId, spanId } = span.spanContext();
      const [begin, end, parent] = [ns(span.startTime), ns(span.endTime), span.parentSpanContext?.spanId];
      console.log(JSON.stringify({ name: span.name, begin, end, trace: traceId, id: spanId, parent }));
    }
    done({ code: 0 });
  },
  shutdown: async () => {},
};
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(lines)] }));

const worker = new Client().worker("packing");

worker.handle("parcels", async (order, ctx) => {
  if (ctx.attempt === 1) throw new Retry("the printer is warming up", { afterMs: 150 });
  await ctx.effect("label", async () => {
    await pause(40);
    return "printed";
  });
  ctx.send("mails", order);
});

await worker.run();
