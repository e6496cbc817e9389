import { repeatWait } from "./backoff.js";
import { ConnectionLost, NotDriftQ, Refused, Unreachable, Untrusted } from "./errors.js";
import { readAnswer, readFailure } from "./answers.js";
import type { Send } from "./exchange.js";
import { describe } from "./texts.js";
import { abortable, monotonicMs, sleep, timerMs } from "./time.js";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface CallOptions {
  /** Written as JSON. */
  body?: unknown;
  /** A body that is JSON already; takes precedence over `body`. */
  text?: string;
  /** Reads a success from its text, if that is clear without parsing all of it. */
  glance?: ((text: string) => unknown) | undefined;
  /** What the server was asked to wait; comes on top of the time for an answer. */
  waitMs?: number;
  /** How long the call is repeated; the client's own patience if not given, 0 for one try. */
  patienceMs?: number;
  /** The longest that one try may take; the client's own time-out if not given. */
  timeoutMs?: number;
  /** Whether the caller itself reports that no server answers. */
  quiet?: boolean;
  /** Ends the call, and rejects it with the signal's reason. */
  signal?: AbortSignal | undefined;
}

export interface TransportOptions {
  url: string;
  connectTimeoutMs: number;
  answerTimeoutMs: number;
  patienceMs: number;
  send: Send;
  /** Shown to a server that asks for one. */
  key: string | undefined;
  /** Told in words when no server answers and the call is repeated. */
  onAway: (words: string) => void;
}

/** The question whether a server is there, and how many calls wait for its answer. */
interface Greeting {
  readonly answer: Promise<void>;
  readonly cut: AbortController;
  waiting: number;
}

/** One server: sends calls, and repeats those that may succeed later. Every call of this SDK is safe to repeat. */
export class Transport {
  readonly url: string;
  readonly #options: TransportOptions;
  #greeted = false;
  /** Whether it was reported that no server answers. */
  #away = false;
  #greeting: Greeting | undefined;

  constructor(options: TransportOptions) {
    this.#options = options;
    this.url = checkedUrl(options.url);
  }

  get patienceMs(): number {
    return this.#options.patienceMs;
  }

  async call<T>(method: Method, path: string, options: CallOptions = {}): Promise<T> {
    const patienceMs = options.patienceMs ?? this.#options.patienceMs;
    const until = monotonicMs() + patienceMs;
    const text = options.text ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
    for (let repeats = 0; ; repeats += 1) {
      options.signal?.throwIfAborted();
      try {
        if (!this.#greeted) await this.#greet(options.signal);
        const timeoutMs = options.timeoutMs ?? this.#options.answerTimeoutMs + (options.waitMs ?? 0);
        const answer = await this.#exchange<T>(method, path, text, timeoutMs, options.signal, options.glance);
        this.#away = false;
        return answer;
      } catch (error) {
        if (options.signal?.aborted) throw options.signal.reason;
        if (!mayPass(error)) throw error;
        const wait = repeatWait(repeats, hintOf(error), Math.random());
        if (monotonicMs() + wait > until) {
          // This call has given up waiting: if the next one finds no server either, that is reported again.
          if (repeats > 0) this.#away = false;
          throw error;
        }
        if (!options.quiet && !(error instanceof Refused)) this.#tellAway(error, patienceMs);
        await sleep(wait, options.signal);
      }
    }
  }

  /** At once, and not only when patience is over: an operator whose program waits in vain should know it. */
  #tellAway(error: unknown, patienceMs: number): void {
    if (this.#away) return;
    this.#away = true;
    const limit = Number.isFinite(patienceMs) ? ` (${patienceMs / 1000} s at the most)` : "";
    try {
      this.#options.onAway(`the server at ${this.url} is away, and is waited for${limit}: ${describe(error)}`);
    } catch {
      // A listener that throws does not stop the call.
    }
  }

  /**
   * Asks whether a DriftQ server is there, once for all calls that wait for it. A try has no time-out for the
   * connection alone, so the first call after a failure is one that is answered at once, and may take as long as a
   * connection.
   */
  async #greet(signal: AbortSignal | undefined): Promise<void> {
    const greeting = (this.#greeting ??= this.#hello());
    greeting.waiting += 1;
    try {
      await abortable(greeting.answer, signal);
    } finally {
      greeting.waiting -= 1;
      // When the last call has gone, no later one is to find it, and it must not keep the process from ending.
      if (greeting.waiting === 0) {
        if (this.#greeting === greeting) this.#greeting = undefined;
        greeting.cut.abort();
      }
    }
  }

  #hello(): Greeting {
    const cut = new AbortController();
    const ask = async () => {
      const { connectTimeoutMs } = this.#options;
      const health = await this.#exchange<{ status?: unknown } | undefined>("GET", "/v2/healthz", undefined, connectTimeoutMs, cut.signal);
      if (typeof health?.status !== "string") throw new NotDriftQ(this.url, "it does not know /v2/healthz");
      this.#greeted = true;
    };
    return { answer: ask(), cut, waiting: 0 };
  }

  async #exchange<T>(
    method: Method,
    path: string,
    text: string | undefined,
    timeoutMs: number,
    signal: AbortSignal | undefined,
    glance?: CallOptions["glance"],
  ): Promise<T> {
    const exchange = this.#options.send(method, this.url + path, text, this.#options.key);
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      exchange.cut();
    }, timerMs(timeoutMs));
    signal?.addEventListener("abort", exchange.cut, { once: true });
    try {
      return readAnswer<T>(this.url, await exchange.answer, glance);
    } catch (error) {
      if (error instanceof Refused || error instanceof NotDriftQ) throw error;
      // A call that the caller ended says nothing about the server.
      if (!signal?.aborted) this.#greeted = false;
      throw readFailure(this.url, error, late ? `nothing within ${timeoutMs} ms` : undefined);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", exchange.cut);
    }
  }
}

/** Whether the same call may succeed later. */
export function mayPass(error: unknown): boolean {
  if (error instanceof Refused) return error.retryable || error.status === 429 || error.status === 503;
  if (error instanceof NotDriftQ) return error.gateway;
  return error instanceof Unreachable || error instanceof ConnectionLost;
}

/**
 * Whether what answers is not the server. A call is not repeated for that; a running worker waits all the same: it may
 * be a gateway, or a certificate, that an operator is about to put right.
 */
export function isStrange(error: unknown): boolean {
  return error instanceof NotDriftQ || error instanceof Untrusted;
}

/** When to repeat, as the server says. */
export function hintOf(error: unknown): number | undefined {
  return error instanceof Refused ? error.retryAfterMs : undefined;
}

function checkedUrl(text: string): string {
  let url: URL;
  try {
    url = new URL(text);
  } catch (error) {
    throw new Unreachable(text, "this is no URL; it has to look like http://127.0.0.1:8080", { cause: error });
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw new Unreachable(text, `a server is reached by http or https, not by ${url.protocol}`);
  }
  // The text is not repeated: what is in front of the @ may be a password.
  if (url.username || url.password) {
    throw new Unreachable(url.host, "its URL names a user, and a DriftQ server knows none: leave user and password out");
  }
  return url.href.replace(/[?#].*$/, "").replace(/\/+$/, "");
}
