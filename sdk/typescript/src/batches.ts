/** The most items of one call. */
export const BATCH_ITEMS_MAX = 1_000;
/** The most bytes of one call, unless a single item has more. */
export const BATCH_BYTES_MAX = 1_048_576;

/** As many as go into one call, taken off the front of the queue. */
export function takeBatch<T extends { bytes: number }>(queue: T[]): T[] {
  let count = 0;
  let bytes = 2;
  while (count < queue.length && count < BATCH_ITEMS_MAX) {
    bytes += queue[count]!.bytes + 1;
    if (bytes > BATCH_BYTES_MAX && count > 0) break;
    count += 1;
  }
  return queue.splice(0, count);
}
