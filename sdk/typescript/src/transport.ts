import { repeatWait } from "./backoff.js";
import { ConnectionLost, NotDriftQ, Refused, Unreachable, Untrusted } from "./errors.js";
import { readAnswer, readFailure } from "./answers.js";
import type { Answer, Send } from "./exchange.js";
import { Course, Redirected, Servers, type Server } from "./servers.js";
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
  /** Of one server, or of several with commas between them. */
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

type Health = { status?: unknown } | undefined;

/** The question whether a server is there, and how many calls wait for its answer. */
interface Greeting {
  readonly server: Server;
  readonly answer: Promise<void>;
  readonly cut: AbortController;
  waiting: number;
}

/** The way to the server: sends calls, and repeats those that may succeed later. Every call of this SDK is safe to repeat. */
export class Transport {
  /** As it can be given; of several servers all. */
  readonly url: string;
  readonly #options: TransportOptions;
  readonly #servers: Servers;
  /** Whether it was reported that no server answers. */
  #away = false;
  #greeting: Greeting | undefined;

  constructor(options: TransportOptions) {
    this.#options = options;
    this.#servers = new Servers(options.url);
    this.url = this.#servers.urls;
  }

  /** The URL of the server that calls go to now. */
  get current(): string {
    return this.#servers.server.url;
  }

  get patienceMs(): number {
    return this.#options.patienceMs;
  }

  async call<T>(method: Method, path: string, options: CallOptions = {}): Promise<T> {
    const patienceMs = options.patienceMs ?? this.#options.patienceMs;
    const until = monotonicMs() + patienceMs;
    const text = options.text ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
    /** Where this try goes after its first server, if there are several. */
    let course: Course | undefined;
    for (let repeats = 0; ; ) {
      options.signal?.throwIfAborted();
      const { server, prefersRedirect } = course ?? this.#servers;
      try {
        if (!server.greeted) await this.#greet(server, options.signal);
        const timeoutMs = options.timeoutMs ?? this.#options.answerTimeoutMs + (options.waitMs ?? 0);
        const answer = await this.#exchange<T>(server, prefersRedirect, method, path, text, timeoutMs, options.signal, options.glance);
        this.#away = false;
        return answer;
      } catch (thrown) {
        if (options.signal?.aborted) throw options.signal.reason;
        let error = thrown;
        if (this.#servers.several) {
          course ??= new Course(this.#servers, server);
          error = course.after(thrown);
          if (error === undefined) continue;
          course = undefined;
        }
        if (!mayPass(error)) throw error;
        const wait = repeatWait(repeats, hintOf(error), Math.random());
        if (monotonicMs() + wait > until) {
          // This call has given up waiting: if the next one finds no server either, that is reported again.
          if (repeats > 0) this.#away = false;
          throw error;
        }
        if (!options.quiet && !(error instanceof Refused)) this.#tellAway(error, patienceMs);
        await sleep(wait, options.signal);
        repeats += 1;
      }
    }
  }

  /** At once, and not only when patience is over: an operator whose program waits in vain should know it. */
  #tellAway(error: unknown, patienceMs: number): void {
    if (this.#away) return;
    this.#away = true;
    const limit = Number.isFinite(patienceMs) ? ` (${patienceMs / 1000} s at the most)` : "";
    const who = `${this.#servers.several ? "the cluster" : "the server"} at ${this.url}`;
    try {
      this.#options.onAway(`${who} is away, and is waited for${limit}: ${describe(error)}`);
    } catch {
      // A listener that throws does not stop the call.
    }
  }

  /**
   * Asks whether a DriftQ server is there, once for all calls that wait for it. A try has no time-out for the
   * connection alone, so the first call after a failure, or to another server, is one that is answered at once, and may
   * take as long as a connection.
   */
  async #greet(server: Server, signal: AbortSignal | undefined): Promise<void> {
    if (this.#greeting?.server !== server) this.#greeting = this.#hello(server);
    const greeting = this.#greeting;
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

  #hello(server: Server): Greeting {
    const cut = new AbortController();
    const ask = async () => {
      const { connectTimeoutMs } = this.#options;
      const { prefersRedirect } = this.#servers;
      const health = await this.#exchange<Health>(server, prefersRedirect, "GET", "/v2/healthz", undefined, connectTimeoutMs, cut.signal);
      if (typeof health?.status !== "string") throw new NotDriftQ(server.url, "it does not know /v2/healthz");
      server.greeted = true;
    };
    return { server, answer: ask(), cut, waiting: 0 };
  }

  async #exchange<T>(
    server: Server,
    prefersRedirect: boolean,
    method: Method,
    path: string,
    text: string | undefined,
    timeoutMs: number,
    signal: AbortSignal | undefined,
    glance?: CallOptions["glance"],
  ): Promise<T> {
    const { key } = this.#options;
    const url = server.url + path;
    // A way of the caller's own that was asked for one server is asked as ever.
    const exchange = prefersRedirect ? this.#options.send(method, url, text, key, true) : this.#options.send(method, url, text, key);
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      exchange.cut();
    }, timerMs(timeoutMs));
    signal?.addEventListener("abort", exchange.cut, { once: true });
    try {
      const answer = await exchange.answer;
      if (prefersRedirect && isRedirect(answer)) throw new Redirected(answer.header("location"));
      return readAnswer<T>(server.url, answer, glance);
    } catch (error) {
      if (error instanceof Refused || error instanceof NotDriftQ || error instanceof Redirected) throw error;
      // A call that the caller ended says nothing about the server.
      if (!signal?.aborted) server.greeted = false;
      throw readFailure(server.url, error, late ? `nothing within ${timeoutMs} ms` : undefined);
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

/** A browser shows a redirect that it does not follow as an answer without a status. */
function isRedirect({ status }: Answer): boolean {
  return status === 307 || status === 0;
}
