import { execFile } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { assertEffects, TestServer } from "../src/testing/index.js";

const run = promisify(execFile);
const PACKAGE = fileURLToPath(new URL("..", import.meta.url));

test("the package, installed into an empty project, runs its quickstart and checks types", async () => {
  const project = mkdtempSync(join(tmpdir(), "driftq-project-"));
  const { stdout } = await run("npm", ["pack", "--ignore-scripts", "--json", "--pack-destination", project], { cwd: PACKAGE });
  const [packed] = JSON.parse(stdout) as { filename: string; files: { path: string }[] }[];
  const paths = packed!.files.map(({ path }) => path);
  expect(paths).toEqual(expect.arrayContaining(["package.json", "README.md", "LICENSE", "dist/index.js", "dist/index.d.ts", "dist/testing/index.js"]));
  expect(paths.filter((path) => !/^(dist\/|package\.json|README\.md|LICENSE)/.test(path))).toEqual([]);

  writeFileSync(join(project, "package.json"), JSON.stringify({ name: "empty", private: true, type: "module" }));
  await run("npm", ["install", "--offline", "--no-audit", "--no-fund", `./${packed!.filename}`], { cwd: project });
  for (const file of ["quickstart.mjs", "quickstart.ts"]) copyFileSync(join(PACKAGE, "examples", file), join(project, file));

  await using server = await TestServer.start();
  const quickstart = await run(process.execPath, ["quickstart.mjs"], { cwd: project, env: { ...process.env, DRIFTQ_SERVER: server.url }, timeout: 30_000 });
  expect(quickstart.stdout).toBe("charging order-1, attempt 1\ncharged once: ch_order-1\n");
  await assertEffects(server, { scope: "charge", count: 1 });

  // The types of Node come from here: the project is installed without a network.
  const settings = ["--strict", "--target", "es2022", "--module", "nodenext", "--types", "node", "--typeRoots", join(PACKAGE, "node_modules/@types")];
  await run(join(PACKAGE, "node_modules/.bin/tsc"), [...settings, "--outDir", "out", "quickstart.ts"], { cwd: project });
  await using second = await TestServer.start();
  const typed = await run(process.execPath, ["out/quickstart.js"], { cwd: project, env: { ...process.env, DRIFTQ_SERVER: second.url }, timeout: 30_000 });
  expect(typed.stdout).toBe("order-1 is charged: CH_1\n");
  rmSync(project, { recursive: true });
});
