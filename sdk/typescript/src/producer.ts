import { takeBatch } from "./batches.js";
import { DriftQError, Refused } from "./errors.js";
import { encodeMessage, withKey, type Produced, type SendOptions } from "./message.js";
import { known, names } from "./limits.js";
import { utf8Length } from "./platform.js";
import { refusal } from "./refusals.js";
import { repeatWait } from "./backoff.js";
import { withTrace } from "./spans.js";
import { monotonicMs, sleep } from "./time.js";
import type { Transport } from "./transport.js";
import { path } from "./wire.js";

/** The most messages that wait. */
export const BUFFER_MESSAGES = 10_000;

export interface ProducerOptions {
  /** The most messages that wait; beyond that `send` waits. */
  buffer?: number;
}
const OPTIONS = names<ProducerOptions>({ buffer: true });

/** A message that was taken and is on its way. */
export interface Receipt {
  /** Where the message was stored; rejects if it is refused for good. */
  readonly stored: Promise<Produced>;
}

interface Entry {
  readonly text: string;
  readonly bytes: number;
  readonly resolve: (produced: Produced) => void;
  readonly reject: (error: unknown) => void;
  /** Until when a refusal that may pass is waited out. */
  readonly until: number;
  refusals: number;
}

type Answer = Produced | { error: { code: string; detail: string; retryable: boolean; retry_after_ms?: number | null } };

/** Sends in the background: what collects while a call is under way goes out in the next one. */
export class Producer {
  readonly #buffer: number;
  readonly #queues = new Map<string, Entry[]>();
  readonly #running = new Map<string, Promise<void>>();
  #waiting = 0;
  #room: (() => void)[] = [];
  #failures = 0;
  #firstFailure: unknown;
  #closed = false;

  constructor(
    private readonly transport: Transport,
    options: ProducerOptions = {},
  ) {
    known(options, OPTIONS, "a producer");
    this.#buffer = options.buffer ?? BUFFER_MESSAGES;
  }

  /** Takes a message; waits only while the buffer is full. `stored` of what it returns tells when and where it was stored. */
  async send(topic: string, payload: unknown, options: SendOptions = {}): Promise<Receipt> {
    const text = JSON.stringify(withTrace(withKey(encodeMessage(payload, options))));
    while (this.#waiting >= this.#buffer && !this.#closed) await new Promise<void>((resolve) => this.#room.push(resolve));
    if (this.#closed) throw new DriftQError("the producer is closed");
    const stored = new Promise<Produced>((resolve, reject) => this.#enqueue(topic, text, resolve, reject));
    // A caller that ignores it learns of a failure from flush, and an unhandled rejection must not end the process.
    stored.catch(() => undefined);
    return { stored };
  }

  /** Waits for everything that was taken; rejects if something was refused since the last flush. */
  async flush(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running.values());
    const failures = this.#failures;
    if (failures === 0) return;
    this.#failures = 0;
    throw new SendFailed(failures, this.#firstFailure);
  }

  /** Takes no more, and flushes. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const resume of this.#room.splice(0)) resume();
    await this.flush();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #enqueue(topic: string, text: string, resolve: (produced: Produced) => void, reject: (error: unknown) => void): void {
    const queue = this.#queues.get(topic) ?? [];
    this.#queues.set(topic, queue);
    queue.push({ text, bytes: utf8Length(text), resolve, reject, until: monotonicMs() + this.transport.patienceMs, refusals: 0 });
    this.#waiting += 1;
    if (!this.#running.has(topic)) this.#running.set(topic, this.#drain(topic, queue));
  }

  async #drain(topic: string, queue: Entry[]): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    while (queue.length > 0) {
      const putOff = await this.#post(topic, takeBatch(queue));
      if (putOff.entries.length === 0) continue;
      // They go first again, so that the order of those that are refused for now is kept among themselves.
      queue.unshift(...putOff.entries);
      await sleep(putOff.waitMs);
    }
    // In the same turn as the last look at the queue, so that nothing is pushed in between and left there.
    this.#running.delete(topic);
    this.#queues.delete(topic);
  }

  /** Sends a batch, and returns those that were refused for now. One that cannot be read at all is halved until the culprit is alone. */
  async #post(topic: string, batch: Entry[]): Promise<{ entries: Entry[]; waitMs: number }> {
    try {
      const text = `[${batch.map((entry) => entry.text).join(",")}]`;
      const answers = await this.transport.call<Answer[]>("POST", path`/v2/topics/${topic}/messages`, { text });
      return this.#sort(batch, answers);
    } catch (error) {
      const divisible = error instanceof Refused && (error.status === 400 || error.status === 413) && batch.length > 1;
      if (!divisible) {
        for (const entry of batch) this.#fail(entry, error);
        return { entries: [], waitMs: 0 };
      }
    }
    const middle = batch.length >> 1;
    const first = await this.#post(topic, batch.slice(0, middle));
    const second = await this.#post(topic, batch.slice(middle));
    return { entries: [...first.entries, ...second.entries], waitMs: Math.max(first.waitMs, second.waitMs) };
  }

  #sort(batch: Entry[], answers: Answer[]): { entries: Entry[]; waitMs: number } {
    const entries: Entry[] = [];
    let waitMs = 0;
    batch.forEach((entry, index) => {
      const answer = answers[index];
      if (answer && !("error" in answer)) {
        this.#done();
        entry.resolve(answer);
        return;
      }
      const problem = answer?.error ?? { code: "INTERNAL", detail: "the server did not say what became of it", retryable: true };
      const wait = repeatWait(entry.refusals, problem.retry_after_ms ?? undefined, Math.random());
      if (problem.retryable && monotonicMs() + wait <= entry.until) {
        entry.refusals += 1;
        entries.push(entry);
        waitMs = Math.max(waitMs, wait);
      } else this.#fail(entry, refusal({ ...problem, status: 0 }));
    });
    return { entries, waitMs };
  }

  #fail(entry: Entry, error: unknown): void {
    if (this.#failures === 0) this.#firstFailure = error;
    this.#failures += 1;
    this.#done();
    entry.reject(error);
  }

  #done(): void {
    this.#waiting -= 1;
    this.#room.shift()?.();
  }
}

/** Messages that a producer took were not stored. */
export class SendFailed extends DriftQError {
  static {
    this.prototype.name = "SendFailed";
  }

  constructor(
    readonly count: number,
    cause: unknown,
  ) {
    super(`${count} message(s) were not stored; the first one: ${(cause as Error).message}`, { cause });
  }
}
