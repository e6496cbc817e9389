// Numbers, times and sizes as people read them.

import type { Int } from "./types";

const grouped = new Intl.NumberFormat("en");

export const count = (value: Int | undefined | null): string =>
  value === undefined || value === null ? "–" : typeof value === "number" ? grouped.format(value) : value.text;

export function short(value: number): string {
  if (value < 1000) return value >= 100 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(1);
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]] as const) {
    if (value >= size) return (value / size).toFixed(value / size >= 100 ? 0 : 1) + unit;
  }
  return String(value);
}

export function bytes(value: number): string {
  let size = value;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (size < 1024) return `${unit === "B" ? size : size.toFixed(1)} ${unit}`;
    size /= 1024;
  }
  return `${size.toFixed(1)} TiB`;
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3600)} h`;
}

/** How long ago, or how long from now on. */
export function ago(moment: string, now: number): string {
  const ms = now - Date.parse(moment);
  if (Math.abs(ms) < 1000) return "now";
  return ms > 0 ? `${duration(ms)} ago` : `in ${duration(-ms)}`;
}

export const plural = (amount: number, one: string, many = `${one}s`): string =>
  `${count(amount)} ${amount === 1 ? one : many}`;

export const words = (name: string): string => name.replaceAll("_", " ");

/** What keeps a message from a group, in the words of `driftq message why`. */
export const WHY: Record<string, string> = {
  ready: "Nothing is in its way: the next reader gets it.",
  scheduled: "Its time has not come.",
  in_flight: "A worker holds it.",
  backoff: "It failed and waits for its next attempt.",
  effect: "It waits for an effect that a caller runs, or whose outcome is unknown.",
  key_busy: "An earlier message of its key is not done.",
  same_key_running: "A message with the same idempotency key is being worked on.",
  window_full: "The group holds as many messages as the topic allows.",
  paused: "The topic or the group is paused.",
  dying: "It is about to become a dead letter.",
  done: "The group is through with it.",
};
