import { repeatWait } from "./backoff.js";
import { BATCH_BYTES_MAX, BATCH_ITEMS_MAX } from "./batches.js";
import type { Ends, Listener } from "./ends.js";
import { Refused, type Problem } from "./errors.js";
import { surroundings } from "./platform.js";
import { refusal } from "./refusals.js";
import { monotonicMs, sleep } from "./time.js";
import { hintOf, mayPass, type Transport } from "./transport.js";

/** Is told what came of a question, once, unless it is withdrawn. An object, because a promise costs more. */
export interface Asker<R> {
  answered(result: R): void;
  failed(error: unknown): void;
  /** Called once, if the server refuses it for now. */
  putOff?(): void;
}

export interface PushOptions {
  /** Until when a failure that may pass is waited out, by this process's clock; it is tried at least once. */
  until: number;
  /** Ends the wait for the answer. */
  ends?: Ends | undefined;
  /** The call to make if it goes alone, if that differs; `text` is JSON. */
  alone?: { path: string; text: string };
  /** Whether the caller wants to know only that it was done: then it may be answered with nothing. */
  unread?: boolean;
}

/** Something that was asked. */
export interface Question {
  /** Takes it back; true if that was in time, and then there is no answer. */
  withdraw(): boolean;
}

type Answer<R> = R | { problem: Problem };

/** One call that is under way, and how many callers still want its answer. */
interface Call {
  left: number;
  readonly cut: AbortController;
}

/** The result of a question that the server's answer leaves out. */
const NOT_SAID: Problem = { code: "INTERNAL", status: 500, detail: "the server did not say what became of it", retryable: true };

class Entry<R> implements Question, Listener {
  state: "waiting" | "sent" | "gone" = "waiting";
  call: Call | undefined = undefined;
  refusals = 0;
  readonly until: number;
  readonly alone: PushOptions["alone"];
  readonly unread: boolean;
  readonly #ends: Ends | undefined;

  constructor(
    readonly text: string,
    readonly asker: Asker<R>,
    { until, ends, alone, unread }: PushOptions,
  ) {
    this.until = until;
    this.alone = alone;
    this.unread = unread === true;
    this.#ends = ends;
    if (!ends) return;
    if (ends.endedBy !== undefined) this.onEnd();
    else ends.listen(this);
  }

  withdraw(): boolean {
    if (this.state !== "waiting") return false;
    this.#end();
    return true;
  }

  resolve(result: R): void {
    this.#end();
    this.asker.answered(result);
  }

  reject(error: unknown): void {
    this.#end();
    this.asker.failed(error);
  }

  refusedForNow(): void {
    this.refusals += 1;
    if (this.refusals === 1) this.asker.putOff?.();
  }

  onEnd(): void {
    const call = this.state === "sent" ? this.call : undefined;
    this.reject(this.#ends?.endedBy);
    if (!call) return;
    call.left -= 1;
    if (call.left === 0) call.cut.abort();
  }

  #end(): void {
    this.state = "gone";
    this.#ends?.ignore(this);
  }
}

/** What a collector asks, and how the answers are read. */
export interface CollectorOptions<R> {
  path: string;
  /** The member of the body that lists many. */
  member: string;
  /** Told an answer whose caller no longer waits for it. */
  unheeded?: (result: R) => void;
  /** Whether all of so many were done, if that is clear from the text of the answer without reading it. */
  allDone?: (text: string, count: number) => boolean;
}

/**
 * So many go out beside a call that is under way. They are worth a call of their own, and the server is at work on them
 * while this process makes the next ones; with fewer, what a call itself costs would be more than that gains.
 */
const AHEAD_ITEMS = 100;
/** The most calls of one collector at once. */
const CALLS_MAX = 2;

/** Asks for many with one call: what comes while a call is under way goes together in the next one, unless it is much. */
export class Collector<R extends object> {
  #queue: Entry<R>[] = [];
  /** Calls under way. */
  #calls = 0;
  /** What comes in this turn is waited for. */
  #gathers = false;
  /** Calls in a row that came to nothing. */
  #failures = 0;
  /** What is told to askers must not seem to happen within the handler that asked first. */
  readonly #outside = surroundings();

  constructor(
    private readonly transport: Transport,
    private readonly options: CollectorOptions<R>,
  ) {}

  /** `text` is JSON. */
  push(text: string, asker: Asker<R>, options: PushOptions): Question {
    const entry = new Entry<R>(text, asker, options);
    if (entry.state === "waiting") this.#enqueue(entry);
    return entry;
  }

  /** The same for a caller that awaits the answer. */
  ask(text: string, options: PushOptions): Promise<R> {
    return new Promise<R>((answered, failed) => void this.push(text, { answered, failed }, options));
  }

  #enqueue(entry: Entry<R>): void {
    this.#queue.push(entry);
    if (this.#isAhead) this.#outside(this.#go);
    else if (this.#calls === 0 && !this.#gathers) {
      this.#gathers = true;
      // Those that come in the same turn go together, the first one included.
      this.#outside(() => setImmediate(this.#gathered));
    }
  }

  /** Whether enough has come for one more call. A server that is away is asked by one. */
  get #isAhead(): boolean {
    return this.#queue.length >= AHEAD_ITEMS && this.#calls < CALLS_MAX && this.#failures === 0;
  }

  readonly #gathered = (): void => {
    this.#gathers = false;
    // The rest of a turn in which some went ahead does not wait for those, unless the server is found to be away.
    if (this.#calls === 0 || (this.#calls < CALLS_MAX && this.#failures === 0)) this.#go();
  };

  readonly #go = (): void => {
    this.#calls += 1;
    void this.#drain();
  };

  async #drain(): Promise<void> {
    do {
      const batch = this.#take();
      if (batch.length > 0) await this.#send(batch);
    } while (this.#calls === 1 ? this.#queue.length > 0 : this.#queue.length >= AHEAD_ITEMS);
    // In the same turn as the last look at the queue, so that nothing is pushed in between and left there.
    this.#calls -= 1;
  }

  /** As many as go into one call. */
  #take(): Entry<R>[] {
    const queue = this.#queue;
    const batch: Entry<R>[] = [];
    let taken = 0;
    let bytes = 2;
    for (; taken < queue.length && batch.length < BATCH_ITEMS_MAX; taken += 1) {
      const entry = queue[taken]!;
      if (entry.state !== "waiting") continue;
      // A lower bound that is rarely exceeded: good enough to keep a call well below the most that the server takes.
      bytes += entry.text.length + 1;
      if (bytes > BATCH_BYTES_MAX && batch.length > 0) break;
      batch.push(entry);
    }
    if (taken === queue.length) this.#queue = [];
    else queue.splice(0, taken);
    return batch;
  }

  /** One call for all of them. If it is refused, it is halved until the one that is at fault is alone. */
  async #send(batch: Entry<R>[]): Promise<void> {
    const call: Call = { left: batch.length, cut: new AbortController() };
    for (const entry of batch) {
      entry.state = "sent";
      entry.call = call;
    }
    try {
      const answers = await this.#ask(batch, call.cut.signal);
      this.#failures = 0;
      for (let index = 0; index < batch.length; index += 1) this.#answer(batch[index]!, answers ? (answers[index] ?? { problem: NOT_SAID }) : undefined);
    } catch (error) {
      const left = batch.filter(({ state }) => state !== "gone");
      if (left.length === 0) return;
      // Alone in its call, a question that is refused is treated as one that is refused in a list.
      if (error instanceof Refused && batch.length === 1) return this.#refused(batch[0]!, error);
      if (mayPass(error)) return this.#putOff(left, error);
      if (left.length === 1 || !(error instanceof Refused)) {
        for (const entry of left) entry.reject(error);
        return;
      }
      this.#failures = 0;
      const middle = left.length >> 1;
      await this.#send(left.slice(0, middle));
      await this.#send(left.slice(middle).filter(({ state }) => state !== "gone"));
    }
  }

  /** An answer for each of them; none if all were done and no caller wants to know more. */
  async #ask(batch: Entry<R>[], signal: AbortSignal): Promise<readonly Answer<R>[] | undefined> {
    const { path, member, allDone } = this.options;
    const options = { patienceMs: 0, signal };
    const first = batch[0]!;
    if (batch.length === 1) {
      const alone = first.alone ?? { path, text: first.text };
      return [await this.transport.call<R>("POST", alone.path, { text: alone.text, ...options })];
    }
    let text = `{"${member}":[${first.text}`;
    let isUnread = allDone !== undefined && first.unread;
    for (let index = 1; index < batch.length; index += 1) {
      const entry = batch[index]!;
      text += `,${entry.text}`;
      isUnread &&= entry.unread;
    }
    const glance = isUnread ? (answer: string) => (allDone!(answer, batch.length) ? NOTHING_MORE : undefined) : undefined;
    return (await this.transport.call<{ results?: Answer<R>[] }>("POST", path, { text: `${text}]}`, glance, ...options })).results;
  }

  #answer(entry: Entry<R>, answer: Answer<R> | undefined): void {
    if (answer !== undefined && "problem" in answer) {
      if (entry.state !== "gone") this.#refused(entry, refusal(answer.problem));
    } else if (entry.state !== "gone") entry.resolve(answer as R);
    else this.options.unheeded?.(answer as R);
  }

  #refused(entry: Entry<R>, refused: Refused): void {
    this.#failures = 0;
    const wait = repeatWait(entry.refusals, refused.retryAfterMs, Math.random());
    if (!mayPass(refused) || monotonicMs() + wait > entry.until) {
      entry.reject(refused);
      return;
    }
    // The others do not wait for this one.
    entry.refusedForNow();
    setTimeout(() => this.#again(entry), wait);
  }

  #again(entry: Entry<R>): void {
    if (entry.state === "gone") return;
    entry.state = "waiting";
    this.#enqueue(entry);
  }

  /** The server is away: all wait, except those whose time is over. */
  async #putOff(batch: Entry<R>[], error: unknown): Promise<void> {
    const wait = repeatWait(this.#failures, hintOf(error), Math.random());
    this.#failures += 1;
    const late = monotonicMs() + wait;
    const patient: Entry<R>[] = [];
    for (const entry of batch) {
      if (entry.until < late) entry.reject(error);
      else {
        entry.state = "waiting";
        patient.push(entry);
        if (error instanceof Refused) entry.refusedForNow();
      }
    }
    // They go to the front again.
    this.#queue.unshift(...patient);
    if (patient.length > 0) await sleep(wait);
  }
}

const NOTHING_MORE: { results?: undefined } = {};
