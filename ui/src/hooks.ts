// What pages have in common: loading, the address, the clock.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";

import { Problem } from "./api";
import { useLive } from "./live";

export interface Loaded<T> {
  data: T | undefined;
  error: unknown;
  /** Loads anew, now. */
  again: () => void;
}

/** At most so often, however much changes. */
const PAUSE_MS = 1_500;

/**
 * Loads what a page shows, and loads it anew when something has changed. What was there stays until there is something
 * newer, also if the server is away for a while.
 */
export function useLoad<T>(load: () => Promise<T>, on: unknown[], follows = true): Loaded<T> {
  const [loaded, setLoaded] = useState<{ data?: T; error?: unknown; of?: string }>({});
  const name = JSON.stringify(on);
  const current = useRef(load);
  current.current = load;
  const newest = useRef(0);
  const last = useRef(0);
  const run = useCallback(async () => {
    const mine = ++newest.current;
    last.current = Date.now();
    try {
      const data = await current.current();
      if (mine === newest.current) setLoaded({ data, of: name });
    } catch (error) {
      // What the server does not have any more is not shown any more; what it only cannot tell now is.
      const isGone = error instanceof Problem && error.status === 404;
      if (mine === newest.current) setLoaded((before) => (before.of === name && !isGone ? { ...before, error } : { error, of: name }));
    }
  }, [name]);
  useEffect(() => void run(), [run]);
  const { turn } = useLive();
  useEffect(() => {
    if (!follows || turn === 0) return;
    const wait = Math.max(0, last.current + PAUSE_MS - Date.now());
    const timer = window.setTimeout(() => void run(), wait);
    return () => window.clearTimeout(timer);
  }, [turn, follows, run]);
  const isOurs = loaded.of === name;
  return { data: isOurs ? loaded.data : undefined, error: isOurs ? loaded.error : undefined, again: () => void run() };
}

export interface Route {
  /** The names of the path, decoded. */
  names: string[];
  query: URLSearchParams;
}

export function route(hash: string): Route {
  const [where = "", search = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const names = where.split("/").filter(Boolean).map((name) => {
    try {
      return decodeURIComponent(name);
    } catch {
      return name;
    }
  });
  return { names, query: new URLSearchParams(search) };
}

export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = () => setHash(location.hash);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route(hash);
}

export function link(names: (string | number | { toString(): string })[], query: Record<string, string | undefined> = {}): string {
  const given = Object.entries(query).filter((pair): pair is [string, string] => !!pair[1]);
  const search = new URLSearchParams(given).toString();
  return `#/${names.map((name) => encodeURIComponent(String(name))).join("/")}${search ? `?${search}` : ""}`;
}

export const go = (to: string): void => {
  location.hash = to;
};

/** The time, told every second. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = window.setInterval(() => !document.hidden && setNow(Date.now()), 1000);
    return () => window.clearInterval(timer);
  }, []);
  return now;
}
