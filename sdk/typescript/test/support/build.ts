import { execFileSync } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const PACKAGE = fileURLToPath(new URL("../..", import.meta.url));

/**
 * Some tests run the package as a program of its own, so it has to be built. What is newer than its sources is left
 * alone: somebody else may be running it.
 */
export default function setup(): void {
  const sources = readdirSync(join(PACKAGE, "src"), { recursive: true, encoding: "utf8" }).map((file) => join(PACKAGE, "src", file));
  const built = statSync(join(PACKAGE, "dist/testing/index.js"), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (sources.every((file) => statSync(file).mtimeMs < built)) return;
  execFileSync("npm", ["run", "--silent", "build"], { cwd: PACKAGE, stdio: "inherit" });
}
