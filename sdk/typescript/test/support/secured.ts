import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Identity } from "./proxy.js";

// Servers with TLS and keys, made with the commands that their operator would use.

/** Names the folder with certificates that every process of the tests trusts. */
export const SECURED = "TEST_SECURED_FOLDER";

/** What a command prints. */
export function driftq(...args: string[]): string {
  return execFileSync(process.env["DRIFTQ_BIN"] || "driftq", args, { encoding: "utf8" });
}

function file(name: string): string {
  const folder = process.env[SECURED];
  if (!folder) throw new Error("the certificates are made by the global setup");
  return join(folder, name);
}

/** Who servers with TLS say they are. */
export function identity(): Identity {
  return { cert: readFileSync(file("cert.pem")), key: readFileSync(file("key.pem")) };
}

/** How a server speaks TLS. */
export function tlsFlags(): string[] {
  return ["--tls-cert", file("cert.pem"), "--tls-key", file("key.pem")];
}

/** How a server asks for keys, and the key that makes others; files go into this folder. */
export function keyFlags(folder: string): { root: string; flags: string[] } {
  const made = driftq("key", "create", "--root", "-o", "json", "--data", join(folder, "data"));
  const root = (JSON.parse(made) as { secret: string }).secret;
  const rootFile = join(folder, "root");
  writeFileSync(rootFile, root, { mode: 0o600 });
  return { root, flags: ["--keys", "required", "--root-key-file", rootFile] };
}
