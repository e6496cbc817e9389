import { DriftQError } from "./errors.js";
import type { Message } from "./message.js";
import { isA, reasonText } from "./texts.js";

/**
 * Turns the content of a message into what the handler takes, or throws. Anything with `parse` will do, such as a zod
 * schema.
 */
export type Schema<P> = { parse(input: unknown): P | Promise<P> } | ((input: unknown) => P | Promise<P>);

/** What the payload is before the schema sees it. */
export const ENCODINGS = ["json", "text", "bytes"] as const;
export type Encoding = (typeof ENCODINGS)[number];

/** The payload is not what the handler takes. */
export class BadPayload extends DriftQError {
  static {
    this.prototype.name = "BadPayload";
  }
}

export function readPayload<P>(message: Message, encoding: Encoding, schema: Schema<P> | undefined): P | Promise<P> {
  try {
    const input = read(message, encoding);
    if (!schema) return input as P;
    const payload = typeof schema === "function" ? schema(input) : schema.parse(input);
    return payload instanceof Promise ? payload.catch((error: unknown) => Promise.reject(badPayload(error))) : payload;
  } catch (error) {
    throw badPayload(error);
  }
}

function read(message: Message, encoding: Encoding): unknown {
  switch (encoding) {
    case "bytes":
      return message.bytes ?? new TextEncoder().encode(message.value ?? "");
    case "text":
      return textOf(message);
    case "json":
      return JSON.parse(textOf(message));
  }
}

function textOf(message: Message): string {
  return message.value ?? new TextDecoder("utf-8", { fatal: true }).decode(message.bytes);
}

function badPayload(error: unknown): BadPayload {
  if (isA(error, BadPayload)) return error;
  return new BadPayload(`the payload does not parse: ${reasonText(error)}`, { cause: error });
}
