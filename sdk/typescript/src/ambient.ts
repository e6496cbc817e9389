import { NoContext } from "./errors.js";
import { AsyncLocalStorage } from "./platform.js";
import { checkEffectOptions, type EffectFunction, type EffectLease, type EffectOptions } from "./terms.js";

/** What a guarded function needs of the handler or the run that it is called in. */
export interface EffectScope {
  effect<T>(scope: string, options: EffectOptions<T>, run: EffectFunction<T>): Promise<T>;
}

/** Where code runs: for which handler or run, and in the function of which effect. */
class Surroundings {
  constructor(
    readonly scope: EffectScope | undefined,
    readonly effect: EffectLease | undefined,
  ) {}
}

/** One storage for both: Node passes the content of every storage on to each promise that is made. */
const current = new AsyncLocalStorage<Surroundings>();

/** Runs a function in which guarded functions belong to this handler or run. */
export function within<R>(scope: EffectScope, run: () => R): R {
  return current.run(new Surroundings(scope, currentEffect()), run);
}

export function currentScope(): EffectScope | undefined {
  return current.getStore()?.scope;
}

/** The effect whose function this runs in: its key, to be passed on to a provider that takes one, and its signal. */
export function currentEffect(): EffectLease | undefined {
  return current.getStore()?.effect;
}

const WITHOUT_SIGNAL = Symbol("without a signal");

/** Marks the function of an effect that takes neither signal nor lease. `currentEffect` gives it both. */
function withoutSignal<T>(run: EffectFunction<T> & { [WITHOUT_SIGNAL]?: true }): EffectFunction<T> {
  run[WITHOUT_SIGNAL] = true;
  return run;
}

/** Calls the function of an effect; it is given a signal only if it may look at it. */
export function callEffect<T>(run: EffectFunction<T>, effect: EffectLease): T | Promise<T> {
  return current.run(new Surroundings(currentScope(), effect), WITHOUT_SIGNAL in run ? (run as unknown as () => T | Promise<T>) : () => run(effect.signal, effect));
}

export interface GuardedOptions<A extends unknown[], T> extends Omit<EffectOptions<T>, "key" | "args" | "signal"> {
  /** The key of a call, made of its arguments; derived from run, step and arguments if not given. */
  key?: (...args: A) => string;
}

/**
 * Turns a function into an effect that is keyed by its arguments, within the handler or the run that it is called in.
 * Calling it outside of both is an error, not an unguarded call. Within it, `currentEffect` tells its key.
 */
export function guarded<A extends unknown[], T>(
  scope: string,
  options: GuardedOptions<A, T>,
  run: (...args: A) => T | Promise<T>,
): (...args: A) => Promise<T> {
  const { key, ...terms } = options;
  checkEffectOptions(terms);
  // Not an async function: each of them costs something in every call.
  return (...args: A) => {
    const surrounding = currentScope();
    if (!surrounding) {
      const why = `${scope} is guarded, and was called outside of a handler and of a run. Call it in a handler, or in client.run("run-7", {}, …)`;
      return Promise.reject(new NoContext(why));
    }
    try {
      const named: EffectOptions<T> = key ? { ...terms, args, key: key(...args) } : { ...terms, args };
      return surrounding.effect<T>(scope, named, withoutSignal(() => run(...args)));
    } catch (error) {
      return Promise.reject(error);
    }
  };
}
