import { LeaseLost, Refused } from "./errors.js";
import { mayPass, type Transport } from "./transport.js";
import { monotonicMs, timerMs } from "./time.js";

/** Keeps the lease of an effect while its function runs, and fires its signal when that is over. */
export class Renewal {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  readonly #end: () => void;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Ends the call that is under way, if one is. */
  #calling: AbortController | undefined;
  #stopped = false;
  #until: number;

  constructor(
    private readonly transport: Transport,
    private readonly token: string,
    private readonly leaseMs: number,
    outer: AbortSignal | undefined,
  ) {
    this.#until = monotonicMs() + leaseMs;
    this.#outer = outer;
    this.#end = () => this.#controller.abort(outer?.reason);
    if (outer?.aborted) this.#end();
    else outer?.addEventListener("abort", this.#end, { once: true });
    this.#later();
  }

  /** Of the function. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** When the lease is over, by our own clock. */
  get until(): number {
    return this.#until;
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#calling?.abort();
    this.#outer?.removeEventListener("abort", this.#end);
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
        this.#controller.abort(new LeaseLost("the effect's lease is lost: somebody else may run it", { cause: error }));
        return;
      }
    }
    if (!this.#stopped) this.#later();
  }
}
