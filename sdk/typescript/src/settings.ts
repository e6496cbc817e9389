import type { WorkerEventListener } from "./events.js";
import type { Route } from "./handler.js";
import { CONCURRENCY_MAX, known, LEASE_MS_MAX, names, PREFETCH_MAX, TIMER_MS_MAX, whole } from "./limits.js";
import type { Bounds } from "./room.js";

export interface WorkerOptions {
  /** Handlers that run at once, over all topics of the worker; one if not given. */
  concurrency?: number;
  /** Messages that wait in the worker besides, over all topics; as many again as are handled, at most 1,000. */
  prefetch?: number;
  /** How long a message is on loan between two heartbeats. */
  leaseMs?: number;
  /** Whether leases are extended while handlers run. Turn it off in tests only. */
  heartbeat?: boolean;
  /** How long handlers may go on when the worker stops. */
  drainTimeoutMs?: number;
  /** How long a handler whose signal has fired may take to end before it is left behind and its place given to others. */
  cancelGraceMs?: number;
  /** How long to wait for the server at the start. */
  startTimeoutMs?: number;
  /** Told what goes wrong; prints to standard error unless given. */
  onEvent?: WorkerEventListener;
}

/** The options of a worker, checked and complete. */
export interface Settings {
  readonly concurrency: number;
  /** Not known before the handlers are, if it was not given. */
  readonly prefetch: number | undefined;
  readonly leaseMs: number;
  readonly heartbeat: boolean;
  readonly drainTimeoutMs: number;
  readonly cancelGraceMs: number;
  readonly startTimeoutMs: number;
}

const OPTIONS = names<WorkerOptions>({
  concurrency: true,
  prefetch: true,
  leaseMs: true,
  heartbeat: true,
  drainTimeoutMs: true,
  cancelGraceMs: true,
  startTimeoutMs: true,
  onEvent: true,
});
const LEASE_MS = 30_000;
const CANCEL_GRACE_MS = 5_000;
const DRAIN_TIMEOUT_MS = 30_000;
const START_TIMEOUT_MS = 10_000;

/** Throws at once for what could not work later. */
export function settingsOf(options: WorkerOptions): Settings {
  known(options, OPTIONS, "a worker");
  return {
    concurrency: whole(options.concurrency ?? 1, "concurrency", 1, CONCURRENCY_MAX),
    prefetch: options.prefetch === undefined ? undefined : whole(options.prefetch, "prefetch", 0, PREFETCH_MAX),
    leaseMs: whole(options.leaseMs ?? LEASE_MS, "leaseMs", 1, LEASE_MS_MAX),
    heartbeat: options.heartbeat !== false,
    drainTimeoutMs: whole(options.drainTimeoutMs ?? DRAIN_TIMEOUT_MS, "drainTimeoutMs", 0, TIMER_MS_MAX),
    cancelGraceMs: whole(options.cancelGraceMs ?? CANCEL_GRACE_MS, "cancelGraceMs", 0, TIMER_MS_MAX),
    startTimeoutMs: whole(options.startTimeoutMs ?? START_TIMEOUT_MS, "startTimeoutMs", 0, TIMER_MS_MAX),
  };
}

/** How much a worker takes on, with these handlers. */
export function boundsOf({ concurrency, prefetch }: Pick<Settings, "concurrency" | "prefetch">, routes: readonly Pick<Route, "batch" | "concurrency">[]): Bounds {
  // A batch can only be as large as what is held.
  const handled = concurrency * Math.max(...routes.map(({ batch }) => batch));
  return { concurrency, handled, prefetch: prefetch ?? Math.min(handled, PREFETCH_MAX), lanes: routes };
}
