/** The most messages of one lease call. */
export const LEASE_MAX = 1_000;

/** How full a lane of a worker is. */
export interface Lane {
  /** Handlers that may run at once. */
  readonly concurrency: number;
  /** Messages that one handler takes. */
  readonly batch: number;
  /** Messages that may wait in the worker. */
  readonly prefetch: number;
  readonly waiting: number;
  /** Messages whose handlers run, or whose settlement is under way. */
  readonly busy: number;
}

/**
 * How many messages to borrow now; 0 is to wait until there is room. A stock that is more than half full is not
 * topped up one by one: few large calls instead of many small ones.
 */
export function roomFor(lane: Lane): number {
  const free = lane.concurrency * lane.batch + lane.prefetch - lane.waiting - lane.busy;
  if (free <= 0 || lane.waiting > lane.prefetch / 2) return 0;
  return Math.min(free, LEASE_MAX);
}
