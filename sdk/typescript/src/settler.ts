import type { Delivery } from "./delivery.js";
import { Refused } from "./errors.js";
import { chunks } from "./heartbeat.js";
import { refusal } from "./refusals.js";
import type { Settlement } from "./settle.js";
import { sleep } from "./time.js";
import { isStrange, mayPass, type Transport } from "./transport.js";
import type { WireSettled } from "./wire.js";

/** The most leases of one settling call. */
export const SETTLE_MAX = 1_000;
/** The wait after an answer that was no server's. */
const STRANGE_ANSWER_WAIT_MS = 1_000;

type Kind = "ack" | "nack" | "release";

interface Entry {
  readonly delivery: Delivery;
  readonly settlement: Settlement;
  readonly done: (error?: unknown) => void;
}

/** Settles deliveries: what comes while a call of its kind is under way goes together in the next one. */
export class Settler {
  readonly #queues: Record<Kind, Entry[]> = { ack: [], nack: [], release: [] };
  readonly #running = new Map<Kind, Promise<void>>();
  readonly #stopped = new AbortController();

  constructor(private readonly transport: Transport) {}

  /** `done` is called when the server has heard it, or with the error if it never will. */
  push(delivery: Delivery, settlement: Settlement & { kind: Kind }, done: (error?: unknown) => void): void {
    const kind = settlement.kind;
    this.#queues[kind].push({ delivery, settlement, done });
    if (!this.#running.has(kind)) this.#running.set(kind, this.#drain(kind));
  }

  /** Ends when there is nothing left. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running.values());
  }

  /** Gives up what is left; those messages come again when their leases are over. */
  stop(): void {
    this.#stopped.abort(new Error("the worker has stopped"));
  }

  async #drain(kind: Kind): Promise<void> {
    // Handlers that end in the same turn are settled together, the first one included.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#queues[kind].length > 0) {
      const entries = this.#queues[kind].splice(0, SETTLE_MAX);
      try {
        const results = await settleCall(this.transport, kind, entries.map(leaseOf), this.#stopped.signal);
        entries.forEach((entry, index) => entry.done(errorOf(results[index])));
      } catch (error) {
        for (const entry of entries) entry.done(error);
      }
    }
    // In the same turn as the last look at the queue, so that nothing is pushed in between and left there.
    this.#running.delete(kind);
  }
}

function leaseOf({ delivery, settlement }: Entry): Record<string, unknown> {
  switch (settlement.kind) {
    case "nack":
      return { token: delivery.token, error: settlement.error, delay_ms: wholeMs(settlement.delayMs), dead: settlement.dead };
    case "release":
      return { token: delivery.token, delay_ms: wholeMs(settlement.delayMs) };
    default:
      return { token: delivery.token };
  }
}

/** The wire knows whole milliseconds only. */
function wholeMs(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.max(0, Math.ceil(ms));
}

/** Says it until it is heard: settling is safe to repeat, and a server that is away comes back. */
async function settleCall(
  transport: Transport,
  kind: Kind | "extend",
  leases: Record<string, unknown>[],
  signal: AbortSignal,
): Promise<WireSettled[]> {
  for (;;) {
    try {
      return await settleOnce(transport, kind, leases, { signal, patienceMs: Number.POSITIVE_INFINITY });
    } catch (error) {
      if (signal.aborted || !isStrange(error)) throw error;
      await sleep(STRANGE_ANSWER_WAIT_MS, signal);
    }
  }
}

/** One settling call. What goes wrong with one lease of many is its result; with a single one it is put the same way. */
export async function settleOnce(
  transport: Transport,
  kind: Kind | "extend",
  leases: Record<string, unknown>[],
  options: { signal?: AbortSignal; patienceMs: number; timeoutMs?: number },
): Promise<WireSettled[]> {
  try {
    const answer = await transport.call<{ results: WireSettled[] }>("POST", `/v2/leases/${kind}`, { body: { leases }, ...options });
    return answer.results;
  } catch (error) {
    if (leases.length !== 1 || !(error instanceof Refused) || mayPass(error)) throw error;
    if (error.code === "STALE_LEASE") return [{ status: "stale" }];
    if (error.code === "LEASE_UNKNOWN") return [{ status: "unknown" }];
    throw error;
  }
}

function errorOf(result: WireSettled | undefined): Error | undefined {
  if (result?.status === "ok") return undefined;
  const stale = result?.status === "stale";
  return refusal({
    code: stale ? "STALE_LEASE" : "LEASE_UNKNOWN",
    status: stale ? 409 : 404,
    detail: stale ? "the message was delivered again, or is settled" : "the server does not know this lease",
    retryable: false,
  });
}

/** Gives leases back, once, without waiting for a server that is away. */
export async function giveBack(transport: Transport, tokens: readonly string[], timeoutMs: number): Promise<void> {
  for (const part of chunks(tokens, SETTLE_MAX)) {
    const leases = part.map((token) => ({ token }));
    await settleOnce(transport, "release", leases, { patienceMs: 0, timeoutMs }).catch(() => undefined);
  }
}
