import { Bag } from "./bag.js";

/**
 * Is told, once, that something has ended. An object, because a function for each of very many listeners costs more.
 */
export interface Listener {
  onEnd(): void;
}

/** What may end something that is under way. A signal costs more than the rest of a call if all goes well. */
export interface Ends {
  /** Why it has ended, if it has. */
  readonly endedBy: unknown;
  listen(listener: Listener): void;
  ignore(listener: Listener): void;
}

/** The listeners. Most of the time there is one. */
export class Listeners {
  #one: Listener | undefined;
  #more: Bag<Listener> | undefined;

  listen(listener: Listener): void {
    if (!this.#one) this.#one = listener;
    else (this.#more ??= new Bag()).add(listener);
  }

  ignore(listener: Listener): void {
    if (this.#one === listener) this.#one = undefined;
    else this.#more?.delete(listener);
  }

  tell(): void {
    const one = this.#one;
    const more = this.#more;
    this.#one = this.#more = undefined;
    one?.onEnd();
    for (const listener of more?.all() ?? []) listener.onEnd();
  }
}

/** A signal of the caller's own. It may live long, so no listener is left on it. */
class OfSignal implements Ends {
  readonly #listeners = new Map<Listener, () => void>();

  constructor(private readonly signal: AbortSignal) {}

  get endedBy(): unknown {
    return this.signal.aborted ? this.signal.reason : undefined;
  }

  listen(listener: Listener): void {
    const ended = () => listener.onEnd();
    this.#listeners.set(listener, ended);
    this.signal.addEventListener("abort", ended, { once: true });
  }

  ignore(listener: Listener): void {
    const ended = this.#listeners.get(listener);
    this.#listeners.delete(listener);
    if (ended) this.signal.removeEventListener("abort", ended);
  }
}

class OfBoth implements Ends {
  constructor(
    private readonly one: Ends,
    private readonly other: Ends,
  ) {}

  get endedBy(): unknown {
    return this.one.endedBy ?? this.other.endedBy;
  }

  listen(listener: Listener): void {
    this.one.listen(listener);
    this.other.listen(listener);
  }

  ignore(listener: Listener): void {
    this.one.ignore(listener);
    this.other.ignore(listener);
  }
}

export function endsOf(signal: AbortSignal | undefined): Ends | undefined {
  return signal && new OfSignal(signal);
}

export function either(one: Ends | undefined, other: Ends | undefined): Ends | undefined {
  return one && other ? new OfBoth(one, other) : (one ?? other);
}

/** Gives the function a signal that fires with those ends, for as long as it runs. */
export async function signalled<T>(ends: Ends | undefined, run: (signal: AbortSignal | undefined) => Promise<T>): Promise<T> {
  if (!ends) return run(undefined);
  const controller = new AbortController();
  const listener = { onEnd: () => controller.abort(ends.endedBy) };
  if (ends.endedBy !== undefined) listener.onEnd();
  else ends.listen(listener);
  try {
    return await run(controller.signal);
  } finally {
    ends.ignore(listener);
  }
}
