/** The first wait without a hint. */
export const WAIT_MS_FIRST = 100;
/** The longest wait without a hint. */
export const WAIT_MS_MAX = 5_000;

/**
 * How long to wait before the call is repeated: what the server said, else doubling from the first wait. Jitter spreads
 * out callers that failed together: up to a quarter more on top of a hint, and half to all of a wait without one.
 */
export function repeatWait(repeats: number, hintMs: number | undefined, random: number): number {
  if (hintMs !== undefined) return Math.ceil(hintMs * (1 + random / 4));
  const wait = Math.min(WAIT_MS_MAX, WAIT_MS_FIRST * 2 ** Math.min(repeats, 16));
  return Math.ceil(wait * (0.5 + random / 2));
}
