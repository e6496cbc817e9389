// Compresses what Vite has built and writes it, with a table of it, to where the server includes it from.
//
// With --check nothing is written: what is there must be what would be.

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

// In JavaScript, because what a compressor makes of something depends on its version.
import { gzipSync } from "fflate";

const ui = dirname(dirname(fileURLToPath(import.meta.url)));
const build = join(ui, "dist");
const server = join(ui, "..", "crates", "server");
const assets = join(server, "assets", "ui");
const table = join(server, "src", "http", "ui", "table.rs");
const BYTES_MAX = 150 * 1024;
const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8" };

const files = readdirSync(build, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => relative(build, join(entry.parentPath, entry.name)))
  .sort();

const packed = new Map();
const rows = [];
let total = 0;
for (const path of files) {
  const plain = readFileSync(join(build, path));
  const bytes = gzipSync(plain, { level: 9, mtime: 0 });
  const type = TYPES[path.split(".").pop()];
  if (!type) throw new Error(`${path}: what type is it?`);
  const name = `${path.split("/").pop()}.gz`;
  packed.set(name, bytes);
  total += bytes.length;
  const tag = createHash("sha256").update(plain).digest("hex").slice(0, 16);
  rows.push(`    Asset {
        path: "${path}",
        content_type: "${type}",
        tag: "\\"${tag}\\"",
        bytes: include_bytes!("../../../assets/ui/${name}"),
    },`);
}
if (total > BYTES_MAX) throw new Error(`${total} bytes are more than ${BYTES_MAX}`);

const rust = `//! The files of the dashboard. Written by \`npm run build\` in \`ui\`.

use super::Asset;

pub(super) static ASSETS: [Asset; ${rows.length}] = [
${rows.join("\n")}
];
`;

const committed = () => {
  try {
    return readdirSync(assets).sort();
  } catch {
    return [];
  }
};

if (process.argv.includes("--check")) {
  const same = (path, bytes) => {
    try {
      return Buffer.compare(readFileSync(path), Buffer.from(bytes)) === 0;
    } catch {
      return false;
    }
  };
  const wrong = [...packed].filter(([name, bytes]) => !same(join(assets, name), bytes)).map(([name]) => name);
  wrong.push(...committed().filter((name) => !packed.has(name)));
  if (!same(table, rust)) wrong.push("table.rs");
  if (wrong.length > 0) {
    console.error(`what is committed is not what the sources give: ${wrong.join(", ")}; run \`npm run build\` in ui`);
    process.exit(1);
  }
  console.log(`${packed.size} files are what the sources give, ${total} bytes`);
} else {
  rmSync(assets, { recursive: true, force: true });
  mkdirSync(assets, { recursive: true });
  for (const [name, bytes] of packed) writeFileSync(join(assets, name), bytes);
  writeFileSync(table, rust);
  console.log(`${packed.size} files, ${total} bytes compressed, of at most ${BYTES_MAX}`);
}
