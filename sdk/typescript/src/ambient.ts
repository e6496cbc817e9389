import { NoContext } from "./errors.js";
import { AsyncLocalStorage } from "./platform.js";
import type { EffectFunction, EffectOptions } from "./terms.js";

/** What a guarded function needs of the handler or the run that it is called in. */
export interface EffectScope {
  effect<T>(scope: string, options: EffectOptions<T>, run: EffectFunction<T>): Promise<T>;
}

const current = new AsyncLocalStorage<EffectScope>();

/** Runs a function in which guarded functions belong to this handler or run. */
export function within<R>(scope: EffectScope, run: () => R): R {
  return current.run(scope, run);
}

export function currentScope(): EffectScope | undefined {
  return current.getStore();
}

export interface GuardedOptions<A extends unknown[], T> extends Omit<EffectOptions<T>, "key" | "args" | "signal"> {
  /** The key of a call, made of its arguments; derived from run, step and arguments if not given. */
  key?: (...args: A) => string;
}

/**
 * Turns a function into an effect that is keyed by its arguments, within the handler or the run that it is called
 * in. Called outside of both, it is an error, not an unguarded call.
 */
export function guarded<A extends unknown[], T>(
  scope: string,
  options: GuardedOptions<A, T>,
  run: (...args: A) => T | Promise<T>,
): (...args: A) => Promise<T> {
  const { key, ...terms } = options;
  return async (...args: A) => {
    const store = current.getStore();
    if (!store) {
      throw new NoContext(
        `${scope} is guarded, and was called outside of a handler and of a run. Call it in a handler, or in client.run("run-7", {}, …)`,
      );
    }
    const named: EffectOptions<T> = key ? { ...terms, args, key: key(...args) } : { ...terms, args };
    return store.effect<T>(scope, named, () => run(...args));
  };
}
