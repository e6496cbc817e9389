import type { Link, Span, SpanContext, SpanOptions } from "@opentelemetry/api";
import type { Context } from "./context.js";
import type { Delivery } from "./delivery.js";
import { readTraceparent, TRACE_LABEL, type Trace } from "./lineage.js";
import { isThenable } from "./texts.js";
import type { WireMessage } from "./wire.js";

/**
 * Spans of handlers and effects, where the application has OpenTelemetry set up; nothing where it has not. The package is
 * used if it can be found. A handler's span has a link to the span of the producer, and is not its child: it is a child of
 * the span of the delivery, if the server traces the message.
 */
const api = await import("@opentelemetry/api").catch(() => undefined);

/** Seen again only where the application keeps track of contexts. */
const PROBE = api?.ROOT_CONTEXT.setValue(api.createContextKey("driftq"), true);

/**
 * The package, if somebody could see what is told to it: a package that was only found, as a part of another one, and
 * never set up, takes as much time for each span as one that was.
 */
function setUp(): typeof api {
  if (!api) return undefined;
  const provider = api.trace.getTracerProvider();
  const isEmpty = provider instanceof api.ProxyTracerProvider && provider.getDelegateTracer("driftq") === undefined;
  return isEmpty && api.context.with(PROBE!, active) !== PROBE ? undefined : api;
}

function active(): unknown {
  return api!.context.active();
}

/** A message that is produced carries the current span, unless it has a trace already. */
export function withTrace(message: WireMessage): WireMessage {
  const current = api?.trace.getActiveSpan()?.spanContext();
  if (!api || !current || !api.isSpanContextValid(current) || message.envelope?.labels?.[TRACE_LABEL] !== undefined) return message;
  return { ...message, envelope: { ...message.envelope, labels: { ...message.envelope?.labels, [TRACE_LABEL]: textOf(current) } } };
}

/** Where the handler stands, if its span is recorded. */
export function currentTrace(parentSpanId: string | undefined): Trace | undefined {
  const span = api?.trace.getActiveSpan();
  if (!span?.isRecording()) return undefined;
  const own = span.spanContext();
  const flags = own.traceFlags.toString(16).padStart(2, "0");
  return { traceId: own.traceId, parentSpanId, spanId: own.spanId, flags, traceparent: textOf(own) };
}

/** Calls a handler for these deliveries within a span of its own. */
export function handling<R>(deliveries: readonly Delivery[], contexts: readonly Context[], run: () => R): R {
  const first = deliveries[0];
  const api = first && setUp();
  if (!api) return run();
  const { topic, partition, offset } = first.message;
  const attributes: Record<string, string | number> = {
    "messaging.system": "driftq",
    "messaging.operation.name": "process",
    "messaging.operation.type": "process",
    "messaging.destination.name": topic,
  };
  // A context of its own: what is current where the worker was started is not what caused this.
  let around = api.ROOT_CONTEXT;
  if (deliveries.length === 1) {
    attributes["messaging.destination.partition.id"] = String(partition);
    attributes["messaging.message.id"] = `${partition}/${offset}`;
    attributes["driftq.attempt"] = first.attempt;
    const parent = remote(first.traceparent);
    if (parent) around = api.trace.setSpanContext(around, parent);
  } else {
    attributes["messaging.batch.message_count"] = deliveries.length;
  }
  const links: Link[] = [];
  for (const { message } of deliveries) {
    const producer = remote(message.labels[TRACE_LABEL]);
    if (producer) links.push({ context: producer });
  }
  const options = { kind: api.SpanKind.CONSUMER, attributes, links };
  return spanned(`process ${topic}`, options, around, () => {
    // What follows from these messages is part of this span.
    for (const context of contexts) void context.trace;
    return run();
  });
}

/** Calls the function of an effect within a span of its own. */
export function carryingOut<R>(scope: string, attempt: number, run: () => R): R {
  const api = setUp();
  if (!api) return run();
  const attributes = { "driftq.effect.scope": scope, "driftq.attempt": attempt };
  return spanned(`effect ${scope}`, { attributes }, api.context.active(), run);
}

function spanned<R>(name: string, options: SpanOptions, around: NonNullable<typeof api>["ROOT_CONTEXT"], run: () => R): R {
  const { trace, context } = api!;
  const span = trace.getTracer("driftq").startSpan(name, options, around);
  let returned: R;
  try {
    returned = context.with(trace.setSpan(around, span), run);
  } catch (error) {
    fail(span, error);
    throw error;
  }
  if (!isThenable(returned)) {
    span.end();
    return returned;
  }
  // Beside the promise that is given back: what it becomes is the caller's to handle.
  Promise.resolve(returned).then(
    () => span.end(),
    (error: unknown) => fail(span, error),
  );
  return returned;
}

function fail(span: Span, error: unknown): void {
  const name = error instanceof Error ? error.name : typeof error;
  span.setAttribute("error.type", name);
  span.setStatus({ code: api!.SpanStatusCode.ERROR, message: name });
  span.end();
}

function textOf({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`;
}

/** The span that a `traceparent` names. */
function remote(text: string | undefined): SpanContext | undefined {
  const found = text === undefined ? undefined : readTraceparent(text);
  if (!found) return undefined;
  return { traceId: found.traceId, spanId: found.spanId, traceFlags: parseInt(found.flags, 16) & 1, isRemote: true };
}
