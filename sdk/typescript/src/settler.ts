import type { Delivery } from "./delivery.js";
import { Listeners, type Ends, type Listener } from "./ends.js";
import { DriftQError, Refused } from "./errors.js";
import { chunks } from "./heartbeat.js";
import { refusal } from "./refusals.js";
import type { Settlement } from "./settle.js";
import { clipped } from "./texts.js";
import { sleep } from "./time.js";
import { isStrange, mayPass, type Transport } from "./transport.js";
import { toSnake, type WireSettled } from "./wire.js";

/** The most leases of one settling call. */
export const SETTLE_MAX = 1_000;
/** The wait after an answer that did not come from a DriftQ server. */
const STRANGE_ANSWER_WAIT_MS = 1_000;

type Kind = "ack" | "nack" | "release";

/** What became of a settlement. One that was refused was heard as a plain nack in its place. */
export type Fate = { readonly heard: true; readonly dead?: boolean; readonly refused?: unknown } | { readonly heard: false; readonly error: unknown };

interface Entry {
  readonly delivery: Delivery;
  readonly settlement: Settlement;
  readonly done: (fate: Fate) => void;
}

/** Settles deliveries: what comes while a call of its kind is under way goes together in the next one. */
export class Settler implements Ends {
  readonly #queues: Record<Kind, Entry[]> = { ack: [], nack: [], release: [] };
  readonly #running: Partial<Record<Kind, Promise<void>>> = {};
  readonly #stopped = new AbortController();
  readonly #listeners = new Listeners();

  constructor(private readonly transport: Transport) {}

  /** Why nothing more will be sent. Every commit that is under way listens for it. */
  get endedBy(): unknown {
    return this.#stopped.signal.reason;
  }

  listen(listener: Listener): void {
    this.#listeners.listen(listener);
  }

  ignore(listener: Listener): void {
    this.#listeners.ignore(listener);
  }

  /** `done` is called when the server has heard it, or never will. */
  push(delivery: Delivery, settlement: Settlement & { kind: Kind }, done: (fate: Fate) => void): void {
    const kind = settlement.kind;
    this.#queues[kind].push({ delivery, settlement, done });
    this.#running[kind] ??= this.#drain(kind);
  }

  /** Ends when there is nothing left. */
  async idle(): Promise<void> {
    for (let running = this.#underWay(); running.length > 0; running = this.#underWay()) await Promise.all(running);
  }

  #underWay(): Promise<void>[] {
    return Object.values(this.#running).filter((running) => running !== undefined);
  }

  /** Gives up what is left; those messages come again when their leases are over. */
  stop(why: string): void {
    this.#stopped.abort(new DriftQError(why));
    this.#listeners.tell();
  }

  async #drain(kind: Kind): Promise<void> {
    // Handlers that end in the same turn are settled together, the first one included.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#queues[kind].length > 0) {
      await this.#settle(kind, this.#queues[kind].splice(0, SETTLE_MAX));
    }
    // In the same turn as the last look at the queue, so that nothing is pushed in between and left there.
    this.#running[kind] = undefined;
  }

  /** One call for all of them. If it is refused, it is halved until the one that is at fault is alone. */
  async #settle(kind: Kind, entries: Entry[]): Promise<void> {
    try {
      const results = await settleCall(this.transport, kind, entries.map(leaseOf), this.#stopped.signal);
      entries.forEach((entry, index) => entry.done(fateOf(results[index])));
    } catch (error) {
      if (!(error instanceof Refused)) {
        for (const entry of entries) entry.done({ heard: false, error });
      } else if (entries.length === 1) {
        entries[0]!.done(await this.#plainNack(entries[0]!, error));
      } else {
        const middle = entries.length >> 1;
        await this.#settle(kind, entries.slice(0, middle));
        await this.#settle(kind, entries.slice(middle));
      }
    }
  }

  /** A settlement that the server does not take becomes a plain nack: better than to wait for the lease to end. */
  async #plainNack({ delivery, settlement }: Entry, refused: Refused): Promise<Fate> {
    if (settlement.kind === "ack") return { heard: false, error: refused };
    const dead = settlement.kind === "nack" ? settlement.dead : undefined;
    const lease = { token: delivery.token, error: clipped(`the settlement was refused: ${refused.code}`), dead };
    try {
      const [result] = await settleCall(this.transport, "nack", [lease], this.#stopped.signal);
      const fate = fateOf(result);
      return fate.heard ? { ...fate, refused } : fate;
    } catch (error) {
      return { heard: false, error };
    }
  }
}

function leaseOf({ delivery, settlement }: Entry): Record<string, unknown> {
  switch (settlement.kind) {
    case "nack":
      return { token: delivery.token, error: settlement.error, delay_ms: settlement.delayMs, dead: settlement.dead };
    case "release":
      return { token: delivery.token, delay_ms: settlement.delayMs, effect: settlement.effect && toSnake(settlement.effect) };
    default:
      return { token: delivery.token };
  }
}

/** Repeats it until the server has heard it: settling is safe to repeat, and a server that is away comes back. */
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

/**
 * One settling call. What goes wrong with one lease of many is its result; a single one is reported in the same way.
 */
export async function settleOnce(
  transport: Transport,
  kind: Kind | "extend",
  leases: Record<string, unknown>[],
  options: { signal?: AbortSignal; patienceMs: number; timeoutMs?: number },
): Promise<WireSettled[]> {
  try {
    const answer = await transport.call<{ results: WireSettled[] }>("POST", `/v2/leases/${kind}`, { body: { leases }, quiet: true, ...options });
    return answer.results;
  } catch (error) {
    if (leases.length !== 1 || !(error instanceof Refused) || mayPass(error)) throw error;
    if (error.code === "STALE_LEASE") return [{ status: "stale" }];
    if (error.code === "LEASE_UNKNOWN") return [{ status: "unknown" }];
    throw error;
  }
}

function fateOf(result: WireSettled | undefined): Fate {
  if (result?.status === "ok") return { heard: true, dead: result.dead === true };
  const stale = result?.status === "stale";
  const error = refusal({
    code: stale ? "STALE_LEASE" : "LEASE_UNKNOWN",
    status: stale ? 409 : 404,
    detail: stale ? "the message was delivered again, or is settled" : "the server does not know this lease",
    retryable: false,
  });
  return { heard: false, error };
}

/** Gives leases back, once, without waiting for a server that is away. */
export async function giveBack(transport: Transport, tokens: readonly string[], timeoutMs: number): Promise<void> {
  for (const part of chunks(tokens, SETTLE_MAX)) {
    const leases = part.map((token) => ({ token }));
    await settleOnce(transport, "release", leases, { patienceMs: 0, timeoutMs }).catch(() => undefined);
  }
}
