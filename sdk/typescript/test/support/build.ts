import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

/** Builds the package once before all tests: some of them run it as a program of its own. */
export default function setup(): void {
  execFileSync("npm", ["run", "--silent", "build"], { cwd: fileURLToPath(new URL("../..", import.meta.url)), stdio: "inherit" });
}
