/** How often a lease is extended within its time. */
const BEATS_PER_LEASE = 3;

export function beatMs(leaseMs: number): number {
  return leaseMs / BEATS_PER_LEASE;
}

/** A lease that this worker holds, and when it is over by this process's clock. */
export interface Held {
  readonly until: number;
}

/** How long an extension may be tried: until the first of the leases is over, and then it is too late for that one. */
export function beatPatienceMs(now: number, held: readonly Held[], leaseMs: number): number {
  let earliest = now + leaseMs;
  for (const lease of held) earliest = Math.min(earliest, lease.until);
  // A lease that is over already is tried once more, for as long as a beat: perhaps no other worker has taken the
  // message.
  return earliest > now ? earliest - now : beatMs(leaseMs);
}

/** The leases that are over. */
export function lapsed<T extends Held>(now: number, held: readonly T[]): T[] {
  return held.filter((lease) => lease.until <= now);
}

/** What was held is split into as many calls as it takes. */
export function chunks<T>(items: readonly T[], size: number): T[][] {
  const parts: T[][] = [];
  for (let start = 0; start < items.length; start += size) parts.push(items.slice(start, start + size));
  return parts;
}
