/** The base of everything that this package throws on its own account. */
export class DriftQError extends Error {
  static {
    this.prototype.name = "DriftQError";
  }
}

/** A refusal as the server writes it. */
export interface Problem {
  code: string;
  status: number;
  detail: string;
  help?: string;
  retryable: boolean;
  retry_after_ms?: number | null;
  part?: string | null;
  reason?: string | null;
  entity?: string | null;
  version?: number | null;
}

/** The server said no. Its subclasses, one for each code, are in `refusals`. */
export class Refused extends DriftQError {
  readonly code: string;
  readonly status: number;
  readonly detail: string;
  readonly help: string;
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;
  /** The part of a commit that was at fault, like `ack[0]`. */
  readonly part: string | undefined;
  /** Which limit was reached, where the code is about several. */
  readonly reason: string | undefined;
  /** The entity that has another version than was expected, with `PreconditionFailed`. */
  readonly entity: string | undefined;
  /** The version that it has. */
  readonly version: number | undefined;
  /** Names the call in the server's log. */
  readonly requestId: string | undefined;

  static {
    this.prototype.name = "Refused";
  }

  constructor(problem: Problem, requestId?: string) {
    super(problem.help ? `${problem.code}: ${problem.detail}. ${problem.help}` : `${problem.code}: ${problem.detail}`);
    this.code = problem.code;
    this.status = problem.status;
    this.detail = problem.detail;
    this.help = problem.help ?? "";
    this.retryable = problem.retryable;
    this.retryAfterMs = problem.retry_after_ms ?? undefined;
    this.part = problem.part ?? undefined;
    this.reason = problem.reason ?? undefined;
    this.entity = problem.entity ?? undefined;
    this.version = problem.version ?? undefined;
    this.requestId = requestId;
  }
}

/** Nothing listens at that address. */
export class Unreachable extends DriftQError {
  static {
    this.prototype.name = "Unreachable";
  }

  constructor(
    readonly url: string,
    why: string,
    options?: ErrorOptions,
  ) {
    super(
      `no server at ${url} (${why}). Start one with "driftq serve", or name another one by its URL or in DRIFTQ_SERVER`,
      options,
    );
  }
}

/** The connection broke, or no answer came in time, and patience is over. */
export class ConnectionLost extends DriftQError {
  static {
    this.prototype.name = "ConnectionLost";
  }

  constructor(
    readonly url: string,
    why: string,
    options?: ErrorOptions,
  ) {
    super(`no answer from ${url} (${why}). The call may have been carried out; it is safe to repeat`, options);
  }
}

/** What answers there is no DriftQ server. */
export class NotDriftQ extends DriftQError {
  static {
    this.prototype.name = "NotDriftQ";
  }

  constructor(
    readonly url: string,
    why: string,
    /** Whether it may be a gateway whose server is away for now. */
    readonly gateway: boolean = false,
    options?: ErrorOptions,
  ) {
    super(`what answers at ${url} is no DriftQ server (${why}). Check the URL and what stands in between`, options);
  }
}

/** The server that answers there has no certificate that is trusted here. */
export class Untrusted extends DriftQError {
  static {
    this.prototype.name = "Untrusted";
  }

  constructor(
    readonly url: string,
    /** As Node names it, such as `CERT_HAS_EXPIRED`. */
    readonly code: string,
    next: string,
    options?: ErrorOptions,
  ) {
    super(`the certificate of ${url} is not trusted (${code}); nothing was sent. ${next}`, options);
  }
}

/** An effect by its name. */
export interface EffectName {
  readonly tenantId?: string | undefined;
  readonly scope: string;
  readonly key: string;
}

export interface EffectErrorOptions extends ErrorOptions {
  tenantId?: string | undefined;
}

/** The base of what can come of an effect besides its result. */
export class EffectError extends DriftQError implements EffectName {
  readonly tenantId: string | undefined;

  static {
    this.prototype.name = "EffectError";
  }

  constructor(
    readonly scope: string,
    readonly key: string,
    what: string,
    options?: EffectErrorOptions,
  ) {
    super(`effect ${scope}/${key} ${what}`, options);
    this.tenantId = options?.tenantId;
  }
}

/** Another holder is carrying it out. */
export class EffectBusy extends EffectError {
  static {
    this.prototype.name = "EffectBusy";
  }

  constructor(
    scope: string,
    key: string,
    /** When to look again, as the server says. */
    readonly retryAfterMs: number | undefined,
    options?: EffectErrorOptions,
  ) {
    super(scope, key, "is being carried out by another holder. Try again later; its result will be replayed", options);
  }
}

/** It may have happened: find out. */
export class EffectUncertain extends EffectError {
  static {
    this.prototype.name = "EffectUncertain";
  }

  constructor(scope: string, key: string, why: string, options?: EffectErrorOptions) {
    const next = 'Find out, and resolve it: "driftq effect resolve", or give a reconcile function';
    super(scope, key, `may have happened (${why}). ${next}`, options);
  }
}

/** It failed for good, now or in a replay. */
export class EffectFailed extends EffectError {
  static {
    this.prototype.name = "EffectFailed";
  }

  constructor(
    scope: string,
    key: string,
    readonly reason: string,
    /** Whether an earlier attempt had failed, and this is what was kept of it. */
    readonly replayed: boolean,
    options?: EffectErrorOptions,
  ) {
    super(scope, key, `failed for good: ${reason}`, options);
  }
}

/** No attempts are left. */
export class EffectExhausted extends EffectError {
  static {
    this.prototype.name = "EffectExhausted";
  }

  constructor(
    scope: string,
    key: string,
    readonly lastError: string,
    options?: EffectErrorOptions,
  ) {
    const next = "Find out why, and resolve it as failed_retryable for one more";
    super(scope, key, `has used up its attempts; the last one said: ${lastError}. ${next}`, options);
  }
}

/** It happened, and its result was not kept. */
export class ResultNotKept extends EffectError {
  static {
    this.prototype.name = "ResultNotKept";
  }

  constructor(scope: string, key: string, options?: EffectErrorOptions) {
    super(scope, key, "happened, but its result was too large to be stored, or no JSON. Return a reference to it next time", options);
  }
}

/** AWS's STS gave no credentials for a credential of an attempt. */
export class StsError extends DriftQError {
  static {
    this.prototype.name = "StsError";
  }

  constructor(
    message: string,
    /** Whether the same question may succeed later. */
    readonly retryable: boolean,
  ) {
    super(message);
  }
}

/** STS said no: `code` and `detail` are STS's own, such as `AccessDenied` or `InvalidIdentityToken`. */
export class StsRefused extends StsError {
  static {
    this.prototype.name = "StsRefused";
  }

  constructor(
    readonly code: string,
    readonly detail: string,
    readonly status: number,
    /** STS's name for the call. */
    readonly requestId: string | undefined,
    retryable: boolean,
  ) {
    super(`STS refused: ${code}: ${detail}`, retryable);
  }
}

/** There is no answer, or none of STS's: nothing listens there, it did not answer in time, or something else did. */
export class StsUnanswered extends StsError {
  static {
    this.prototype.name = "StsUnanswered";
  }
}

/** A guarded function was called outside of a handler and of a run. */
export class NoContext extends DriftQError {
  static {
    this.prototype.name = "NoContext";
  }
}

/** The base of what ends a delivery before its handler does: the reasons of a handler's signal. */
export class DeliveryEnded extends DriftQError {
  static {
    this.prototype.name = "DeliveryEnded";
  }
}

/** The lease is lost: another worker has the message, or will have it. */
export class LeaseLost extends DeliveryEnded {
  static {
    this.prototype.name = "LeaseLost";
  }
}

/** A client or an operator cancelled the message, or the worker stops and its time to drain is over. */
export class Cancelled extends DeliveryEnded {
  static {
    this.prototype.name = "Cancelled";
  }
}

/** The message's deadline has passed. */
export class DeadlinePassed extends DeliveryEnded {
  static {
    this.prototype.name = "DeadlinePassed";
  }
}

/** The handler outran its own time-out. */
export class TimedOut extends DeliveryEnded {
  static {
    this.prototype.name = "TimedOut";
  }
}

/** So many handlers went on after their signal had fired that the worker gave up. */
export class HandlersStuck extends DriftQError {
  static {
    this.prototype.name = "HandlersStuck";
  }

  constructor(readonly count: number) {
    super(
      `${count} handlers did not end although their signals had fired, and were left behind; the worker has stopped. ` +
        "Pass ctx.signal on to whatever the handlers wait for, and restart the process to be rid of them",
    );
  }
}
