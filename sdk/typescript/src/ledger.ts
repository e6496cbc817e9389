import { Collector, type Asker, type Question } from "./collector.js";
import { signalled, type Ends } from "./ends.js";
import { finishText, type Ending } from "./endings.js";
import { monotonicMs, timerMs } from "./time.js";
import type { Transport } from "./transport.js";
import type { WireCommitted, WireDecision } from "./wire.js";

/**
 * A handler that ends within this time after an effect sends its ending with the commit; after that the ending goes
 * alone.
 */
const LINGER_MS = 5;
/** How long to keep trying to give up a lease that its caller no longer wants. */
const GIVE_UP_MS = 5_000;

export interface Lingering {
  /** When it goes, by this process's clock. */
  goesAt: number;
  go(): void;
}

/** What a result that was committed begins with. In a text of JSON its quotes are escaped, so that it is found nowhere else. */
const COMMITTED = '{"result":"committed"';

/** The server's ledger of effects. What many callers ask for at once goes to it in one call. */
export class Ledger {
  readonly #begins: Collector<WireDecision>;
  readonly #commits: Collector<WireCommitted>;

  #lingering: Lingering[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly transport: Transport) {
    // The caller went away before it was told to run: nothing was sent.
    const unheeded = (decision: WireDecision) => {
      if (decision.decision === "execute") void this.release(decision.lease.token, false).catch(() => undefined);
    };
    this.#begins = new Collector(transport, { path: "/v2/effects/begin", member: "effects", unheeded });
    // Where each message was stored is rarely asked for, and need not be read.
    const allDone = (text: string, count: number) => occurrences(text, COMMITTED) === count;
    this.#commits = new Collector(transport, { path: "/v2/commit", member: "commits", allDone });
  }

  /** Asks for an effect, and is answered at once. */
  begin(question: string, askedAt: number, ends: Ends | undefined): Promise<WireDecision> {
    return this.#begins.ask(question, { until: askedAt + this.transport.patienceMs, ends });
  }

  /** Asks for an effect that another holder is carrying out, and waits at the server for up to `waitMs`. */
  attach(question: string, waitMs: number, ends: Ends | undefined): Promise<WireDecision> {
    const text = `${question.slice(0, -1)},"wait_ms":${waitMs}}`;
    return signalled(ends, (signal) => this.transport.call<WireDecision>("POST", "/v2/effects/begin", { text, waitMs, signal }));
  }

  /** Says how an effect ended; repeated until it is heard or the effect's lease is over. */
  finish(token: string, ending: Ending, until: number, asker: Asker<object>): Question {
    const text = finishText(token, ending);
    return this.#commits.push(`{"effects":[${text}]}`, asker, { until, alone: { path: "/v2/effects/finish", text } });
  }

  /**
   * Gives up the lease of an effect: nothing was sent, or it is not known whether something was. A server that does not
   * hear of it sees it lapse.
   */
  async release(token: string, uncertain: boolean): Promise<void> {
    const body = uncertain ? { token, uncertain } : { token };
    await this.transport.call("POST", "/v2/effects/release", { body, patienceMs: GIVE_UP_MS, timeoutMs: GIVE_UP_MS });
  }

  /** A commit of a message. `until` is when it is given up; `unread`: only that it was done is of interest. */
  commit(body: string, until: number, ends: Ends | undefined, unread: boolean, asker: Asker<WireCommitted>): void {
    this.#commits.push(body, asker, { until, ends, unread });
  }

  /** Sends it in a moment, unless it has been taken back by then. */
  linger(item: Lingering, now: number): void {
    item.goesAt = now + LINGER_MS;
    this.#lingering.push(item);
    this.#timer ??= setTimeout(this.#go, LINGER_MS);
  }

  readonly #go = (): void => {
    const now = monotonicMs();
    const items = this.#lingering;
    let due = 0;
    while (due < items.length && items[due]!.goesAt <= now) items[due++]!.go();
    this.#lingering = due === items.length ? [] : items.slice(due);
    const next = this.#lingering[0];
    this.#timer = next && setTimeout(this.#go, timerMs(next.goesAt - now));
  };
}

function occurrences(text: string, part: string): number {
  let count = 0;
  for (let place = text.indexOf(part); place >= 0; place = text.indexOf(part, place + part.length)) count += 1;
  return count;
}
