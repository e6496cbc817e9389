// With node-http.ts, which is loaded only where it is of use, the only file that uses Node's own modules.
import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";
import * as nodeCrypto from "node:crypto";
import { hostname } from "node:os";

export { AsyncLocalStorage };

/** Runs functions as if they were called from here: with what every async storage holds now. */
export function surroundings(): (run: () => void) => void {
  const here = new AsyncResource("driftq");
  return (run) => here.runInAsyncScope(run);
}

/** Of the bytes, or of a text in UTF-8. */
export function sha256Hex(data: string | Uint8Array): string {
  // In one go, where Node can: it takes half of the time for a few bytes.
  return nodeCrypto.hash ? nodeCrypto.hash("sha256", data, "hex") : nodeCrypto.createHash("sha256").update(data).digest("hex");
}

/** Drawn in advance: asking the system for a few bytes at a time costs more than everything else in a call. */
const drawing = new Uint8Array(4_096);
/** The same in hex. */
let pool = "";
let drawn = 0;

/** `bytes` random bytes in hex. */
export function randomHex(bytes: number): string {
  if (drawn + 2 * bytes > pool.length) {
    crypto.getRandomValues(drawing);
    pool = Buffer.from(drawing.buffer).toString("hex");
    drawn = 0;
  }
  const start = drawn;
  drawn += 2 * bytes;
  return pool.slice(start, drawn);
}

/** A name for something that this process asks for, different each time. */
export function uniqueId(): string {
  named += 1;
  return processId + named.toString(36);
}
const processId = `${randomHex(16)}-`;
let named = 0;

export function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
}

export function bytesOfBase64(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text, "base64"));
}

export function utf8Length(text: string): number {
  return Buffer.byteLength(text, "utf8");
}

/** Host, process and a random part: enough to find the worker, and never the same twice. */
export function defaultOwner(): string {
  return `${hostname().slice(0, 100)}-${process.pid}-${randomHex(4)}`;
}

export function environment(name: string): string | undefined {
  return process.env[name] || undefined;
}

/** Whether this is Node itself, and not a runtime that has some of its modules. */
export function isNode(): boolean {
  return process.versions.node !== undefined && !("Bun" in globalThis) && !("Deno" in globalThis);
}

export type StopSignal = "SIGTERM" | "SIGINT";

/** Calls back for SIGTERM and SIGINT; the function that it returns removes the listeners again. */
export function onStopSignal(callback: (signal: StopSignal) => void): () => void {
  const listeners = (["SIGTERM", "SIGINT"] as const).map((signal) => [signal, () => callback(signal)] as const);
  for (const [signal, listener] of listeners) process.on(signal, listener);
  return () => {
    for (const [signal, listener] of listeners) process.off(signal, listener);
  };
}

/** Ends this process as the signal ends one that does not listen for it. */
export function endBySignal(signal: StopSignal): void {
  process.kill(process.pid, signal);
}

export function hasListeners(signal: StopSignal): boolean {
  return process.listenerCount(signal) > 0;
}
