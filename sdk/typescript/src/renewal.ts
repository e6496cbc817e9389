import type { Ends, Listener } from "./ends.js";
import { LeaseLost, Refused } from "./errors.js";
import { mayPass, type Transport } from "./transport.js";
import { monotonicMs, timerMs } from "./time.js";

/** Keeps the lease of an effect while its function runs, and fires the function's signal when the lease is lost. */
export class Renewal implements Listener {
  #controller: AbortController | undefined;
  #lost: unknown;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Ends the call that is under way, if one is. */
  #calling: AbortController | undefined;
  #stopped = false;
  #until: number;

  constructor(
    private readonly transport: Transport,
    private readonly token: string,
    private readonly leaseMs: number,
    /** When the lease was asked for: it cannot be over before its time has passed since then. */
    askedAt: number,
    private readonly outer: Ends | undefined,
  ) {
    this.#until = askedAt + leaseMs;
    if (outer?.endedBy !== undefined) this.onEnd();
  }

  /** The function waits for something: its lease has to be kept from now on. */
  start(): void {
    if (this.#lost === undefined) this.outer?.listen(this);
    this.#later();
  }

  /** The function's signal. Made when it is first asked for. */
  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#lost !== undefined) this.#controller.abort(this.#lost);
    }
    return this.#controller.signal;
  }

  onEnd(): void {
    this.#lose(this.outer?.endedBy);
  }

  #lose(reason: unknown): void {
    this.#lost ??= reason;
    this.#controller?.abort(reason);
  }

  /** Until when the lease is sure to last, by this process's clock. */
  get until(): number {
    return this.#until;
  }

  /** Whether it is sure to last for another third of its time: a renewal in time leaves more of it than that. */
  isSecure(now: number): boolean {
    return now < this.#until - this.leaseMs / 3;
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#calling?.abort();
    this.outer?.ignore(this);
  }

  #later(): void {
    this.#timer = setTimeout(() => void this.#renew(), timerMs(this.leaseMs / 3));
  }

  /** Without an answer it is tried again in a third of the lease, also past its end: a late renewal brings it back. */
  async #renew(): Promise<void> {
    const asked = monotonicMs();
    const calling = new AbortController();
    this.#calling = calling;
    try {
      const body = { token: this.token, lease_ms: this.leaseMs };
      await this.transport.call("POST", "/v2/effects/renew", { body, patienceMs: this.leaseMs / 3, signal: calling.signal });
      this.#until = asked + this.leaseMs;
    } catch (error) {
      if (error instanceof Refused && !mayPass(error)) {
        this.#lose(new LeaseLost("the effect's lease is lost: somebody else may run it", { cause: error }));
        return;
      }
    }
    if (!this.#stopped) this.#later();
  }
}
