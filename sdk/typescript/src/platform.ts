// The only file outside of the test kit that names what is Node's own.
import { AsyncLocalStorage } from "node:async_hooks";
import { createHash } from "node:crypto";
import { hostname } from "node:os";

export { AsyncLocalStorage };

export function sha256Hex(text: string): string {
  return createHash("sha256").update(text, "utf8").digest("hex");
}

/** So many random bytes in hex. */
export function randomHex(bytes: number): string {
  const drawn = crypto.getRandomValues(new Uint8Array(bytes));
  let text = "";
  for (const byte of drawn) text += byte.toString(16).padStart(2, "0");
  return text;
}

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

export type StopSignal = "SIGTERM" | "SIGINT";

/** Calls back for SIGTERM and SIGINT; what it returns takes the listeners away again. */
export function onStopSignal(callback: (signal: StopSignal) => void): () => void {
  const listeners = (["SIGTERM", "SIGINT"] as const).map((signal) => [signal, () => callback(signal)] as const);
  for (const [signal, listener] of listeners) process.on(signal, listener);
  return () => {
    for (const [signal, listener] of listeners) process.off(signal, listener);
  };
}

/** Ends this process as the signal does to one that does not listen. */
export function endBySignal(signal: StopSignal): void {
  if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
  else process.exit(signal === "SIGINT" ? 130 : 143);
}
