import { DriftQError } from "./errors.js";
import { delayMs } from "./limits.js";
import { reasonText } from "./texts.js";

// What a handler or the function of an effect throws to say how it ended. What they are made of is checked here, within
// the handler: an invalid time is the handler's error, and never the server's.

/** A reason may be an error, which is then the cause as well. */
export type Reason = string | Error;

function causeOf(reason: unknown, options: ErrorOptions | undefined): ErrorOptions | undefined {
  if (options && "cause" in options && options.cause !== undefined) return { cause: options.cause };
  return typeof reason === "object" && reason !== null ? { cause: reason } : undefined;
}

/** Thrown by a handler: the message comes again, after that time or as its retry policy says. In an effect: it did not happen. */
export class Retry extends DriftQError {
  readonly afterMs: number | undefined;
  readonly reason: string;

  static {
    this.prototype.name = "Retry";
  }

  constructor(reason: Reason = "retry", options: { afterMs?: number; cause?: unknown } = {}) {
    super(reasonText(reason), causeOf(reason, options));
    this.reason = reasonText(reason);
    this.afterMs = options.afterMs === undefined ? undefined : delayMs(options.afterMs, "afterMs");
  }
}

/** Thrown by a handler: the message becomes a dead letter. In an effect: it did not happen, and never will. */
export class Dead extends DriftQError {
  readonly reason: string;

  static {
    this.prototype.name = "Dead";
  }

  constructor(reason: Reason, options?: ErrorOptions) {
    super(reasonText(reason), causeOf(reason, options));
    this.reason = reasonText(reason);
  }
}

/** Thrown by a handler: the message comes again after that time, and the attempt does not count. */
export class Snooze extends DriftQError {
  static {
    this.prototype.name = "Snooze";
  }

  readonly forMs: number;

  constructor(options: { forMs: number }) {
    const forMs = delayMs(options.forMs, "forMs");
    super(`put off for ${forMs} ms`);
    this.forMs = forMs;
  }
}

/** Thrown by the function of an effect: it did not happen, and may be tried again. */
export class NotDone extends DriftQError {
  static {
    this.prototype.name = "NotDone";
  }

  constructor(reason: Reason = "it did not happen", options?: ErrorOptions) {
    super(reasonText(reason), causeOf(reason, options));
  }
}

/**
 * Thrown by the function of an effect: it failed before anything was sent. The effect's lease is given up, the attempt
 * does not count, and a caller that waits for the effect gets it at once.
 */
export class NotSent extends DriftQError {
  static {
    this.prototype.name = "NotSent";
  }

  constructor(reason: Reason = "nothing was sent", options?: ErrorOptions) {
    super(reasonText(reason), causeOf(reason, options));
  }
}

/** Thrown by the function of an effect: it did not happen, and never will. The caller gets `EffectFailed`. */
export class Final extends DriftQError {
  readonly reason: string;

  static {
    this.prototype.name = "Final";
  }

  constructor(reason: Reason, options?: ErrorOptions) {
    super(reasonText(reason), causeOf(reason, options));
    this.reason = reasonText(reason);
  }
}

/** What a reconcile function has found out. */
export type Finding<T> =
  | { readonly found: "succeeded"; readonly value: T }
  | { readonly found: "failed"; readonly reason: string }
  | { readonly found: "not_done" }
  | { readonly found: "unknown" };

/** The answers of a reconcile function. */
export const found = {
  /** It happened, and this is its result. */
  succeeded: <T>(value: T): Finding<T> => ({ found: "succeeded", value }),
  /** It did not happen, and is not to be tried again. */
  failed: (reason: string): Finding<never> => ({ found: "failed", reason }),
  /** It did not happen, and may run now. */
  notDone: (): Finding<never> => ({ found: "not_done" }),
  /** The reconcile function cannot tell yet. */
  unknown: (): Finding<never> => ({ found: "unknown" }),
} as const;
