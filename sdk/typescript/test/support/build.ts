import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { driftq, SECURED } from "./secured.js";

const PACKAGE = fileURLToPath(new URL("../..", import.meta.url));

/**
 * Makes certificates for servers with TLS, and the package. Node reads the authorities that it is to trust besides the
 * usual ones when a process starts, so they are named before there are any tests.
 */
export default function setup(): () => void {
  const folder = mkdtempSync(join(tmpdir(), "driftq-secured-"));
  driftq("tls", "dev", "--out", folder);
  process.env["NODE_EXTRA_CA_CERTS"] = join(folder, "ca.pem");
  process.env[SECURED] = folder;
  build();
  return () => rmSync(folder, { recursive: true });
}

/**
 * Some tests run the package as a program of its own, so it has to be built. What is newer than its sources is left
 * alone: somebody else may be running it.
 */
function build(): void {
  const sources = readdirSync(join(PACKAGE, "src"), { recursive: true, encoding: "utf8" }).map((file) => join(PACKAGE, "src", file));
  const built = statSync(join(PACKAGE, "dist/testing/index.js"), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (sources.every((file) => statSync(file).mtimeMs < built)) return;
  execFileSync("npm", ["run", "--silent", "build"], { cwd: PACKAGE, stdio: "inherit" });
}
