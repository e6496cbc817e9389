import { TIMER_MS_MAX } from "./limits.js";

/** Milliseconds of a clock that never goes back. */
export function monotonicMs(): number {
  return performance.now();
}

/** Ends after that time; rejects with the signal's reason as soon as it fires. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const end = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", end);
      resolve();
    }, timerMs(ms));
    signal?.addEventListener("abort", end, { once: true });
  });
}

/** What setTimeout takes. */
export function timerMs(ms: number): number {
  return Math.max(0, Math.min(TIMER_MS_MAX, Math.ceil(ms)));
}

/** The promise, unless the signal fires first; what the promise does after that is ignored. */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const end = () => reject(signal.reason);
    if (signal.aborted) end();
    else signal.addEventListener("abort", end, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", end));
  });
}
