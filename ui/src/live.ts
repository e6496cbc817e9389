// What changes, by one stream of events. It is closed while nobody looks, and opens again by itself.

import { useEffect, useState } from "preact/hooks";

import { whoAmI } from "./api";
import { parse } from "./json";
import type { LiveEvent, Sample, TopicRow } from "./types";

/** Where the stream stands; `off` if this key may not have it, and pages ask now and then instead. */
export type Standing = "connecting" | "open" | "paused" | "lost" | "off";

export interface Live {
  standing: Standing;
  sample: Sample | undefined;
  /** At most an hour, the oldest first. */
  past: Sample[];
  topics: Map<string, TopicRow>;
  leftOut: number;
  /** Rises with every event. */
  turn: number;
}

const PAST_MAX = 720;
const RETRY_MS = 1_000;
const RETRY_MS_MAX = 10_000;
const ASK_MS = 5_000;

let live: Live = { standing: "connecting", sample: undefined, past: [], topics: new Map(), leftOut: 0, turn: 0 };
const listeners = new Set<(live: Live) => void>();
let source: EventSource | undefined;
let timer: number | undefined;
let retryMs = RETRY_MS;
let isWanted = false;

function set(change: Partial<Live>): void {
  live = { ...live, ...change };
  for (const listener of listeners) listener(live);
}

function take(event: LiveEvent): void {
  const topics = event.history ? new Map<string, TopicRow>() : new Map(live.topics);
  for (const row of event.topics ?? []) topics.set(row.name, row);
  for (const name of event.gone ?? []) topics.delete(name);
  const before = event.history ? event.history.samples : live.past;
  // Between two that are remembered there may be many.
  const past = [...before, event.sample].slice(-PAST_MAX);
  set({ standing: "open", sample: event.sample, past, topics, leftOut: event.left_out, turn: live.turn + 1 });
}

function open(): void {
  close();
  if (!isWanted || document.hidden) return;
  source = new EventSource("/v2/events");
  source.onmessage = (message) => {
    retryMs = RETRY_MS;
    take(parse(message.data as string) as unknown as LiveEvent);
  };
  source.onerror = () => void lost();
}

/** The stream says no more than that it has ended; a plain call says why. */
async function lost(): Promise<void> {
  close();
  const isRefused = await whoAmI().then(
    async () => {
      const stream = new AbortController();
      const tried = await fetch("/v2/events", { signal: stream.signal });
      stream.abort();
      return tried.status === 403;
    },
    () => false,
  ).catch(() => false);
  if (!isWanted || document.hidden) return;
  if (isRefused) {
    set({ standing: "off", turn: live.turn + 1 });
    timer = window.setTimeout(poll, ASK_MS);
    return;
  }
  set({ standing: "lost" });
  timer = window.setTimeout(open, retryMs);
  retryMs = Math.min(retryMs * 2, RETRY_MS_MAX);
}

function poll(): void {
  if (!isWanted || document.hidden) return;
  set({ turn: live.turn + 1 });
  timer = window.setTimeout(poll, ASK_MS);
}

function close(): void {
  source?.close();
  source = undefined;
  window.clearTimeout(timer);
}

document.addEventListener("visibilitychange", () => {
  if (!isWanted) return;
  if (document.hidden) {
    close();
    set({ standing: "paused" });
  } else {
    retryMs = RETRY_MS;
    set({ standing: "connecting" });
    open();
  }
});
window.addEventListener("online", () => isWanted && open());

export function watch(wanted: boolean): void {
  isWanted = wanted;
  if (wanted) open();
  else {
    close();
    live = { standing: "connecting", sample: undefined, past: [], topics: new Map(), leftOut: 0, turn: 0 };
  }
}

export function useLive(): Live {
  const [seen, see] = useState(live);
  useEffect(() => {
    listeners.add(see);
    see(live);
    return () => void listeners.delete(see);
  }, []);
  return seen;
}

/** How much a number that only rises has risen in a second, between neighbours; the series begins anew with the server. */
export function rates(past: Sample[], of: (sample: Sample) => number): (number | null)[] {
  return past.map((sample, place) => {
    const before = past[place - 1];
    if (!before || before.epoch !== sample.epoch) return null;
    const seconds = (Date.parse(sample.at) - Date.parse(before.at)) / 1000;
    const risen = of(sample) - of(before);
    return seconds > 0 && risen >= 0 ? risen / seconds : null;
  });
}
