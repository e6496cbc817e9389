import { jsonOf, type Message, type SendOptions } from "./message.js";
import { randomHex } from "./platform.js";

/** The label that carries the trace, in the words of W3C Trace Context. */
export const TRACE_LABEL = "traceparent";

export interface Trace {
  readonly traceId: string;
  /** The sender's span, if the message brought one. */
  readonly parentSpanId: string | undefined;
  /** The handler's own span. */
  readonly spanId: string;
  readonly flags: string;
  /** The header to send to a service that is called from here. */
  readonly traceparent: string;
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/;

/** The parts of a `traceparent`; undefined if it is not a valid one. */
export function readTraceparent(text: string): { traceId: string; spanId: string; flags: string } | undefined {
  const parts = TRACEPARENT.exec(text);
  if (!parts || parts[1] === "ff" || /^0+$/.test(parts[2]!) || /^0+$/.test(parts[3]!)) return undefined;
  return { traceId: parts[2]!, spanId: parts[3]!, flags: parts[4]! };
}

/** Continues the trace that the message brought, or begins one. Spans of one that begins here are not wanted: no OpenTelemetry says so. */
export function traceOf(traceparent: string | undefined, random: (bytes: number) => string = randomHex): Trace {
  const given = traceparent === undefined ? undefined : readTraceparent(traceparent);
  const spanId = random(8);
  if (!given) {
    const traceId = random(16);
    return { traceId, parentSpanId: undefined, spanId, flags: "00", traceparent: `00-${traceId}-${spanId}-00` };
  }
  const { traceId, spanId: parentSpanId, flags } = given;
  return { traceId, parentSpanId, spanId, flags, traceparent: `00-${traceId}-${spanId}-${flags}` };
}

/** What a follow-up inherits from the message that caused it, unless it was given its own. */
export function followUpOptions(cause: Message, trace: Trace, topic: string, given: SendOptions): SendOptions {
  const options: SendOptions = { ...given };
  options.runId ??= cause.runId;
  options.tenantId ??= cause.tenantId;
  options.parentStepId ??= cause.stepId;
  options.stepId ??= topic;
  options.labels = { [TRACE_LABEL]: trace.traceparent, ...given.labels };
  return options;
}

/** The message of a follow-up without options, as JSON: most are so, and a worker writes one or more per message. */
export function plainFollowUp(cause: Message, trace: Trace, topic: string, payload: unknown): string {
  let inherited = "";
  if (cause.runId !== undefined) inherited += `"run_id":${JSON.stringify(cause.runId)},`;
  if (cause.tenantId !== undefined) inherited += `"tenant_id":${JSON.stringify(cause.tenantId)},`;
  if (cause.stepId !== undefined) inherited += `"parent_step_id":${JSON.stringify(cause.stepId)},`;
  const labels = `{"${TRACE_LABEL}":"${trace.traceparent}"}`;
  return `{"value":${JSON.stringify(jsonOf(payload))},"envelope":{${inherited}"step_id":${JSON.stringify(topic)},"labels":${labels}}}`;
}
