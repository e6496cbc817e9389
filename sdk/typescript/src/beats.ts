import type { Delivery } from "./delivery.js";
import { Cancelled, LeaseLost, Refused } from "./errors.js";
import { beatMs, beatPatienceMs, chunks, lapsed } from "./heartbeat.js";
import { settleOnce, SETTLE_MAX } from "./settler.js";
import { monotonicMs, sleep } from "./time.js";
import type { Transport } from "./transport.js";

/**
 * The heartbeats of a worker: one call extends everything that it holds, and says with which messages no handler has
 * begun.
 */
export class Beats {
  /** Begun since the server was told that they were not. */
  #begun: Delivery[] = [];
  #telling = false;
  #beating = false;

  constructor(
    private readonly transport: Transport,
    private readonly leaseMs: number,
    private readonly signal: AbortSignal,
  ) {}

  /** Beats until the signal fires. */
  async run(held: () => Delivery[]): Promise<void> {
    const everyMs = beatMs(this.leaseMs);
    for (let failed = false; ; ) {
      try {
        await sleep(failed ? everyMs / 4 : everyMs, this.signal);
        this.#beating = true;
        // This heartbeat says what has begun.
        this.#begun = [];
        await Promise.all(chunks(held(), SETTLE_MAX).map((part) => this.#extend(part)));
        failed = false;
      } catch {
        if (this.signal.aborted) return;
        failed = true;
      } finally {
        this.#beating = false;
      }
      void this.#tell();
    }
  }

  /**
   * A handler begins with a message that the server believes is waiting: if the worker died with it, no attempt would
   * be counted. Only what waited through a heartbeat comes here, and what comes while a call is under way goes together
   * in the next one: a worker that keeps up makes no such call.
   */
  begun(delivery: Delivery): void {
    delivery.toldWaiting = false;
    this.#begun.push(delivery);
    void this.#tell();
  }

  async #tell(): Promise<void> {
    // The server might hear a heartbeat that is under way after this call.
    if (this.#telling || this.#beating) return;
    this.#telling = true;
    try {
      // Handlers that begin in the same turn are reported together, the first one included.
      await new Promise((resolve) => setImmediate(resolve));
      while (this.#begun.length > 0 && !this.#beating) {
        await this.#extend(this.#begun.splice(0, SETTLE_MAX).filter((delivery) => delivery.held));
      }
    } catch {
      // The next heartbeat says it.
    } finally {
      this.#telling = false;
    }
  }

  async #extend(held: Delivery[]): Promise<void> {
    if (held.length === 0) return;
    const { leaseMs, signal } = this;
    const asked = monotonicMs();
    const patienceMs = beatPatienceMs(asked, held, leaseMs);
    try {
      const leases = held.map((delivery) => said(delivery, leaseMs));
      const results = await settleOnce(this.transport, "extend", leases, { signal, patienceMs, timeoutMs: patienceMs });
      held.forEach((delivery, index) => {
        const result = results[index];
        if (result?.status === "ok") delivery.until = asked + leaseMs;
        else delivery.end(new LeaseLost("the lease is lost: a newer attempt has begun, or the server was restarted"));
        if (result?.cancelled) delivery.end(new Cancelled("somebody cancelled the message"));
      });
    } catch (error) {
      if (signal.aborted) throw error;
      const why = error instanceof Refused ? "the server refused to extend it" : "the server could not be reached in time";
      for (const delivery of lapsed(monotonicMs(), held)) delivery.end(new LeaseLost(`the lease is over: ${why}`, { cause: error }));
      throw error;
    }
  }
}

/** What a heartbeat says of a message. One that leaves `started` out says that a handler has begun with it. */
function said(delivery: Delivery, leaseMs: number): { token: string; lease_ms: number; started?: false } {
  delivery.toldWaiting = !delivery.begun;
  const { token } = delivery;
  return delivery.begun ? { token, lease_ms: leaseMs } : { token, lease_ms: leaseMs, started: false };
}
