import { repeatWait } from "./backoff.js";
import { takeBatch } from "./batches.js";
import type { Ends, Listener } from "./ends.js";
import { Refused, type Problem } from "./errors.js";
import { refusal } from "./refusals.js";
import { monotonicMs, sleep } from "./time.js";
import { hintOf, mayPass, type Transport } from "./transport.js";

export interface PushOptions {
  /** Until when a failure that may pass is waited out, by this process's clock; it is tried at least once. */
  until: number;
  /** Ends the wait for the answer. */
  ends?: Ends | undefined;
  /** Called once, if the server refuses it for now. */
  putOff?: () => void;
  /** The call to make if it goes alone, if that differs. */
  alone?: { path: string; body: object };
}

/** Something that was asked, and its answer. */
export interface Question<R> {
  readonly answer: Promise<R>;
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

class Entry<R> implements Question<R>, Listener {
  readonly answer: Promise<R>;
  readonly text: string;
  readonly until: number;
  readonly alone: PushOptions["alone"];
  state: "waiting" | "sent" | "gone" = "waiting";
  call: Call | undefined;
  refusals = 0;
  putOff: (() => void) | undefined;
  readonly #ends: Ends | undefined;
  #resolve!: (result: R) => void;
  #reject!: (error: unknown) => void;

  constructor(body: object, { until, ends, alone, putOff }: PushOptions) {
    this.text = JSON.stringify(body);
    this.until = until;
    this.alone = alone;
    this.putOff = putOff;
    this.#ends = ends;
    this.answer = new Promise<R>((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    if (ends?.endedBy !== undefined) this.onEnd();
    else ends?.listen(this);
  }

  /** A lower bound that is rarely exceeded: good enough to keep a call well below the most that the server takes. */
  get bytes(): number {
    return this.text.length;
  }

  withdraw(): boolean {
    if (this.state !== "waiting") return false;
    this.#end();
    return true;
  }

  resolve(result: R): void {
    this.#end();
    this.#resolve(result);
  }

  reject(error: unknown): void {
    this.#end();
    this.#reject(error);
  }

  refusedForNow(): void {
    this.refusals += 1;
    this.putOff?.();
    this.putOff = undefined;
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

/** Asks for many with one call: what comes while a call is under way goes together in the next one. */
export class Collector<R extends object> {
  #queue: Entry<R>[] = [];
  #running = false;
  /** Calls in a row that came to nothing. */
  #failures = 0;

  constructor(
    private readonly transport: Transport,
    private readonly path: string,
    /** The member of the body that lists many. */
    private readonly member: string,
    /** Told an answer whose caller no longer waits for it. */
    private readonly unheeded: (result: R) => void = () => undefined,
  ) {}

  push(body: object, options: PushOptions): Question<R> {
    const entry = new Entry<R>(body, options);
    if (entry.state === "waiting") this.#enqueue(entry);
    return entry;
  }

  #enqueue(entry: Entry<R>): void {
    this.#queue.push(entry);
    if (this.#running) return;
    this.#running = true;
    void this.#drain();
  }

  async #drain(): Promise<void> {
    // Those that come in the same turn go together, the first one included.
    await new Promise((resolve) => setImmediate(resolve));
    for (;;) {
      this.#queue = this.#queue.filter(({ state }) => state === "waiting");
      const batch = takeBatch(this.#queue);
      if (batch.length === 0) break;
      await this.#send(batch);
    }
    // In the same turn as the last look at the queue, so that nothing is pushed in between and left there.
    this.#running = false;
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
      batch.forEach((entry, index) => this.#answer(entry, answers[index] ?? { problem: NOT_SAID }));
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

  async #ask(batch: Entry<R>[], signal: AbortSignal): Promise<readonly Answer<R>[]> {
    const options = { patienceMs: 0, signal };
    const [first, ...others] = batch;
    if (first && others.length === 0) {
      const { path, body } = first.alone ?? { path: this.path, body: undefined };
      return [await this.transport.call<R>("POST", path, { text: body ? JSON.stringify(body) : first.text, ...options })];
    }
    const text = `{"${this.member}":[${batch.map((entry) => entry.text).join(",")}]}`;
    return (await this.transport.call<{ results: Answer<R>[] }>("POST", this.path, { text, ...options })).results;
  }

  #answer(entry: Entry<R>, answer: Answer<R>): void {
    const problem = "problem" in answer ? answer.problem : undefined;
    if (!problem) {
      if (entry.state === "gone") this.unheeded(answer as R);
      else entry.resolve(answer as R);
      return;
    }
    if (entry.state === "gone") return;
    this.#refused(entry, refusal(problem));
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
