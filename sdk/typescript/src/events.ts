import type { Message } from "./message.js";
import { describe } from "./texts.js";

/** What a worker reports besides doing its work. */
export type WorkerEvent =
  | { readonly kind: "handler_failed"; readonly message: Message; readonly attempt: number; readonly error: unknown; readonly then: string }
  | { readonly kind: "dead_lettered"; readonly message: Message; readonly attempt: number; readonly error: unknown }
  | { readonly kind: "delivery_ended"; readonly message: Message; readonly attempt: number; readonly error: unknown }
  | { readonly kind: "handler_left_behind"; readonly message: Message; readonly attempt: number; readonly error: unknown }
  | { readonly kind: "settlement_refused"; readonly message: Message; readonly attempt: number; readonly error: unknown }
  | { readonly kind: "settlement_lost"; readonly message: Message; readonly attempt: number; readonly error: unknown }
  | { readonly kind: "server_away"; readonly error: unknown }
  | { readonly kind: "server_back" };

export type WorkerEventListener = (event: WorkerEvent) => void;

/** A line on standard error for each: an operator must be able to see that a worker fails. */
export function printEvent(event: WorkerEvent): void {
  console.error(`driftq: ${eventLine(event)}`);
}

export function eventLine(event: WorkerEvent): string {
  switch (event.kind) {
    case "server_away":
      return `the server is away, waiting for it: ${describe(event.error)}`;
    case "server_back":
      return "the server is back";
    case "handler_failed":
      return `${place(event.message)} attempt ${event.attempt} failed, ${event.then}: ${describe(event.error)}`;
    case "dead_lettered":
      return `${place(event.message)} attempt ${event.attempt} was the last one, it is a dead letter now: ${describe(event.error)}`;
    case "delivery_ended":
      return `${place(event.message)} attempt ${event.attempt} was ended: ${describe(event.error)}`;
    case "handler_left_behind":
      return `${place(event.message)} attempt ${event.attempt}: the handler does not heed its signal and was left behind`;
    case "settlement_refused":
      return `${place(event.message)} attempt ${event.attempt} was nacked without more, as the server refused what was to be said: ${describe(event.error)}`;
    case "settlement_lost":
      return `${place(event.message)} attempt ${event.attempt} could not be settled, it comes again: ${describe(event.error)}`;
  }
}

function place(message: Message): string {
  return `${message.topic}/${message.partition}/${message.offset}`;
}
