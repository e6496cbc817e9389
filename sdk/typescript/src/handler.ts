import type { Context } from "./context.js";
import { names } from "./limits.js";
import type { Encoding, Schema } from "./payload.js";

export interface HandlerOptions<P> {
  /** What the payload has to be; without it, it is whatever JSON came. */
  schema?: Schema<P>;
  /** What the payload is before the schema sees it; JSON unless said otherwise. */
  encoding?: Encoding;
  /** A payload that does not parse is a dead letter, unless it is to be retried. */
  badPayload?: "dead" | "retry";
  /** Handlers of this topic that run at once, within the concurrency of the worker, which is also the default. */
  concurrency?: number;
  /** The longest that a handler may take. */
  timeoutMs?: number;
}

export interface BatchOptions<P> extends HandlerOptions<P> {
  /** The most messages of one call. */
  batch: number;
}

export const HANDLER_OPTIONS = names<HandlerOptions<unknown>>({ schema: true, encoding: true, badPayload: true, concurrency: true, timeoutMs: true });
export const BATCH_OPTIONS = names<BatchOptions<unknown>>({ schema: true, encoding: true, badPayload: true, concurrency: true, timeoutMs: true, batch: true });

export type Handler<P> = (payload: P, context: Context) => unknown;

/** One message of a batch. */
export interface BatchItem<P> {
  readonly payload: P;
  readonly context: Context;
  /** Sets an outcome for this message alone: it is settled as if a handler of its own had thrown this error. */
  fail(error: unknown): void;
}

export type BatchHandler<P> = (items: readonly BatchItem<P>[]) => unknown;

/** A topic and what is done with its messages. */
export interface Route {
  readonly topic: string;
  readonly options: HandlerOptions<unknown>;
  readonly concurrency: number;
  /** 1 unless it is a batch handler. */
  readonly batch: number;
  readonly handle: Handler<unknown> | undefined;
  readonly handleBatch: BatchHandler<unknown> | undefined;
}
