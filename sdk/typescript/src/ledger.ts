import { Collector, type Question } from "./collector.js";
import { signalled, type Ends } from "./ends.js";
import type { Ending } from "./endings.js";
import { monotonicMs, timerMs } from "./time.js";
import type { Transport } from "./transport.js";
import type { WireBegin, WireCommit, WireCommitted, WireDecision } from "./wire.js";

/**
 * A handler that ends within this time after an effect sends its ending with the commit; after that the ending goes
 * alone.
 */
const LINGER_MS = 5;
/** How long to keep trying to give up a lease that its caller no longer wants. */
const GIVE_UP_MS = 5_000;

export interface Lingering {
  go(): void;
}

/** The server's ledger of effects. What many callers ask for at once goes to it in one call. */
export class Ledger {
  readonly #begins: Collector<WireDecision>;
  readonly #commits: Collector<WireCommitted>;

  readonly #lingering: { item: Lingering; until: number }[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly transport: Transport) {
    // The caller went away before it was told to run: nothing was sent.
    const unheeded = (decision: WireDecision) => {
      if (decision.decision === "execute") void this.release(decision.lease.token, false).catch(() => undefined);
    };
    this.#begins = new Collector(transport, "/v2/effects/begin", "effects", unheeded);
    this.#commits = new Collector(transport, "/v2/commit", "commits");
  }

  /** Asks for an effect, and is answered at once. */
  begin(body: WireBegin, askedAt: number, ends: Ends | undefined): Promise<WireDecision> {
    return this.#begins.push(body, { until: askedAt + this.transport.patienceMs, ends }).answer;
  }

  /** Asks for an effect that another holder is carrying out, and waits at the server for up to `waitMs`. */
  attach(body: WireBegin, waitMs: number, ends: Ends | undefined): Promise<WireDecision> {
    const waiting = { ...body, wait_ms: waitMs };
    return signalled(ends, (signal) => this.transport.call<WireDecision>("POST", "/v2/effects/begin", { body: waiting, waitMs, signal }));
  }

  /** Says how an effect ended; repeated until it is heard or the effect's lease is over. */
  finish(token: string, ending: Ending, until: number): Question<object> {
    const body = { token, ...ending };
    return this.#commits.push({ effects: [body] }, { until, alone: { path: "/v2/effects/finish", body } });
  }

  /**
   * Gives up the lease of an effect: nothing was sent, or it is not known whether something was. A server that does not
   * hear of it sees it lapse.
   */
  async release(token: string, uncertain: boolean): Promise<void> {
    const body = uncertain ? { token, uncertain } : { token };
    await this.transport.call("POST", "/v2/effects/release", { body, patienceMs: GIVE_UP_MS, timeoutMs: GIVE_UP_MS });
  }

  /** A commit of a message. `until` is when it is given up; `putOff` is called if it is refused for now. */
  commit(body: WireCommit, until: number, ends: Ends | undefined, putOff: () => void): Promise<WireCommitted> {
    return this.#commits.push(body, { until, ends, putOff }).answer;
  }

  /** Sends it in a moment, unless it has been taken back by then. */
  linger(item: Lingering, now: number): void {
    this.#lingering.push({ item, until: now + LINGER_MS });
    this.#timer ??= setTimeout(this.#go, LINGER_MS);
  }

  readonly #go = (): void => {
    const now = monotonicMs();
    const later = this.#lingering.findIndex(({ until }) => until > now);
    const due = this.#lingering.splice(0, later < 0 ? this.#lingering.length : later);
    for (const { item } of due) item.go();
    const next = this.#lingering[0];
    this.#timer = next && setTimeout(this.#go, timerMs(next.until - now));
  };
}
