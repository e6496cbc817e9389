import { DriftQError } from "./errors.js";

// What a handler or the function of an effect throws to say how it ended.

/** Thrown by a handler: the message comes again, after that time or as its retry policy says. In an effect: it did not happen. */
export class Retry extends DriftQError {
  readonly afterMs: number | undefined;
  readonly reason: string;

  static {
    this.prototype.name = "Retry";
  }

  constructor(reason = "retry", options: { afterMs?: number; cause?: unknown } = {}) {
    super(reason, { cause: options.cause });
    this.reason = reason;
    this.afterMs = options.afterMs;
  }
}

/** Thrown by a handler: the message becomes a dead letter. In an effect: it did not happen, and never will. */
export class Dead extends DriftQError {
  readonly reason: string;

  static {
    this.prototype.name = "Dead";
  }

  constructor(reason: string, options?: ErrorOptions) {
    super(reason, options);
    this.reason = reason;
  }
}

/** Thrown by a handler: the message comes again after that time, and the attempt does not count. */
export class Snooze extends DriftQError {
  static {
    this.prototype.name = "Snooze";
  }

  readonly forMs: number;

  constructor(options: { forMs: number }) {
    super(`put off for ${options.forMs} ms`);
    this.forMs = options.forMs;
  }
}

/** Thrown by the function of an effect: it did not happen, and may be tried again. */
export class NotDone extends DriftQError {
  static {
    this.prototype.name = "NotDone";
  }

  constructor(reason = "it did not happen", options?: ErrorOptions) {
    super(reason, options);
  }
}

/** Thrown by the function of an effect: it did not happen, and never will. The caller gets `EffectFailed`. */
export class Final extends DriftQError {
  readonly reason: string;

  static {
    this.prototype.name = "Final";
  }

  constructor(reason: string, options?: ErrorOptions) {
    super(reason, options);
    this.reason = reason;
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
  /** Nobody can tell yet. */
  unknown: (): Finding<never> => ({ found: "unknown" }),
} as const;
