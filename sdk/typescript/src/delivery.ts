import { Listeners, type Ends, type Listener } from "./ends.js";
import { Cancelled, DeadlinePassed, LeaseLost, TimedOut } from "./errors.js";
import type { DeliveryEnded } from "./errors.js";
import { beatMs } from "./heartbeat.js";
import { decodeMessage, type Message } from "./message.js";
import { monotonicMs, timerMs } from "./time.js";
import type { WireItem } from "./wire.js";

/** An object and not a function, which would keep what is around it alive for longer than it is of use. */
export interface Patience {
  over(): void;
}

/** One message on loan to this worker: its lease, its signal, and what has become of it. */
export class Delivery implements Ends {
  readonly message: Message;
  readonly token: string;
  readonly attempt: number;
  /** The span of this delivery at the server, if that traces the message. */
  readonly traceparent: string | undefined;
  /** When the lease is over, by this process's clock. */
  until: number;
  /** Whether a handler has begun with it. */
  begun = false;
  /** Whether the server was told that none has. */
  toldWaiting = false;
  /** Nothing more is to be said about it: it was committed, or is on its way to be settled. */
  settled = false;
  /** What ended it before its handler did. */
  ended: DeliveryEnded | undefined;
  /** Whether it was the stop of the worker that ended it. */
  stopped = false;
  /** Told when the time that the handler has after the signal is over. */
  patience: Patience | undefined;
  #controller: AbortController | undefined;
  readonly #listeners = new Listeners();
  #timers: ReturnType<typeof setTimeout>[] | undefined;

  constructor(
    item: WireItem,
    private readonly leaseMs: number,
    private readonly cancelGraceMs: number,
  ) {
    this.message = decodeMessage(item);
    this.token = item.lease?.token ?? "";
    this.attempt = item.lease?.attempt ?? 0;
    this.traceparent = item.lease?.traceparent ?? undefined;
    this.until = monotonicMs() + leaseMs;
  }

  /** Whether heartbeats have to keep it. What is lost stays lost: an extension might bring the lease back. */
  get held(): boolean {
    return !this.settled && !(this.ended instanceof LeaseLost);
  }

  /** Whether its lease is certain to go on for a while: a heartbeat in time leaves more of it than that. */
  isSecure(now: number): boolean {
    return !this.settled && !this.ended && now < this.until - beatMs(this.leaseMs);
  }

  /** Made when it is asked for: most handlers never do. */
  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.ended) this.#controller.abort(this.ended);
    }
    return this.#controller.signal;
  }

  get endedBy(): DeliveryEnded | undefined {
    return this.ended;
  }

  listen(listener: Listener): void {
    this.#listeners.listen(listener);
  }

  ignore(listener: Listener): void {
    this.#listeners.ignore(listener);
  }

  /** The clocks of a handler begin to run. */
  start(timeoutMs: number | undefined): void {
    if (timeoutMs !== undefined) this.#after(timeoutMs, () => this.end(new TimedOut(`the handler took longer than its ${timeoutMs} ms`)));
    if (this.message.deadline) this.#untilDeadline(this.message.deadline);
  }

  /** A deadline that is further away than a timer reaches is checked again when the timer fires. */
  #untilDeadline(deadline: Date): void {
    const left = deadline.getTime() - Date.now();
    if (left <= 0) this.end(new DeadlinePassed(`the deadline ${deadline.toISOString()} has passed`));
    else this.#after(left, () => this.#untilDeadline(deadline));
  }

  /** The first reason stays; only a lost lease replaces it, because then there is nothing left to say. */
  end(reason: DeliveryEnded): void {
    if (this.settled) return;
    if (this.ended && !(reason instanceof LeaseLost)) return;
    // The grace period begins once, with the first reason.
    if (!this.ended) this.#after(this.cancelGraceMs, () => this.patience?.over());
    this.ended = reason;
    this.#controller?.abort(reason);
    this.#listeners.tell();
  }

  /** Ends it because the worker stops, unless something else has. */
  endByStop(): void {
    if (this.ended || this.settled) return;
    this.stopped = true;
    this.end(new Cancelled("the worker stops, and its time to drain is over"));
  }

  /** The handler has ended, or was left behind. */
  stop(): void {
    for (const timer of this.#timers ?? []) clearTimeout(timer);
    this.#timers = undefined;
    this.patience = undefined;
  }

  #after(ms: number, then: () => void): void {
    (this.#timers ??= []).push(setTimeout(then, timerMs(ms)));
  }
}
