// The bounds of what can be asked for, and the check of them.

/** The longest delay that the server takes: ten years of 366 days. */
export const DURATION_MS_MAX = 316_224_000_000;
/** The longest lease that the server gives: seven days. */
export const LEASE_MS_MAX = 604_800_000;
/** The longest that a timer can be set for; longer ones would fire at once. */
export const TIMER_MS_MAX = 2 ** 31 - 1;
/** The most messages of one lease call, and so of one batch. */
export const LEASE_MAX = 1_000;
/** The most handlers at once of one worker. */
export const CONCURRENCY_MAX = 10_000;
/** The most messages that wait in a worker for a handler. */
export const PREFETCH_MAX = 1_000;
/** The most attempts that an effect can be given. */
export const ATTEMPTS_MAX = 1_000_000;

/** A whole number within its bounds, or an error that names them. */
export function whole(value: unknown, name: string, least: number, most: number): number {
  const number = numeric(value, name);
  if (Number.isInteger(number) && number >= least && number <= most) return number;
  throw new RangeError(`${name} is a whole number from ${least} to ${most}, not ${number}`);
}

/** A delay that the server takes, or an error. A longer one is cut to the longest that it takes. */
export function delayMs(value: unknown, name: string): number {
  const number = numeric(value, name);
  if (!Number.isFinite(number) || number < 0) throw new RangeError(`${name} is a number of milliseconds from 0 on, not ${number}`);
  return Math.min(DURATION_MS_MAX, Math.ceil(number));
}

function numeric(value: unknown, name: string): number {
  if (typeof value === "number") return value;
  throw new TypeError(`${name} is a number, not ${value === null ? "null" : `a ${typeof value}`}`);
}

/** Throws for an option that no code reads: a misspelt name must not be ignored in silence. */
export function known(given: object, names: ReadonlySet<string>, what: string): void {
  for (const name in given) {
    if (!names.has(name)) throw new TypeError(`${what} has no option ${name}; it has ${[...names].join(", ")}`);
  }
}

/** Throws for what cannot be called with so many arguments: JavaScript would leave the others undefined. */
export function callable(given: unknown, what: string, parameters: readonly string[]): void {
  if (typeof given !== "function") throw new TypeError(`${what} is a function, not ${given === null ? "null" : `a ${typeof given}`}`);
  if (given.length > parameters.length) throw new TypeError(`${what} is called with ${parameters.join(" and ")}, and has ${given.length} parameters`);
}

/** The names of all options of a type; the compiler checks that none is missing. */
export function names<T>(all: Readonly<Record<keyof Required<T>, true>>): ReadonlySet<string> {
  return new Set(Object.keys(all));
}
