"""The commands that blocks of the pages find in their PATH: the binary under test, and python, node and curl as CI set them up."""

import os
import pathlib
import shutil
import stat
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

PYTHON = os.environ.get("DRIFTQ_DOCS_PYTHON", "")
NODE_MODULES = os.environ.get("DRIFTQ_DOCS_NODE_MODULES", "")

# Node before 22.18 reads no TypeScript. This lets it, by the compiler that the SDK is built with.
HOOK = """
import { register } from "node:module";
register("data:text/javascript," + encodeURIComponent(`
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
const typescript = createRequire("file:///")(%(typescript)r);
export async function load(url, context, next) {
  if (!url.startsWith("file:") || !url.endsWith(".ts")) return next(url, context);
  const text = await readFile(fileURLToPath(url), "utf8");
  const compilerOptions = { module: typescript.ModuleKind.ESNext, target: typescript.ScriptTarget.ES2022 };
  return { format: "module", shortCircuit: true, source: typescript.transpileModule(text, { compilerOptions }).outputText };
}
`));
"""

def typescript():
    """The TypeScript compiler's folder, beside the installed SDK or beside its source."""
    for folder in (pathlib.Path(NODE_MODULES or ".") / "node_modules", ROOT / "sdk/typescript/node_modules"):
        if (folder / "typescript/package.json").is_file():
            return (folder / "typescript").resolve()
    return None


def missing():
    """The SDKs that are not there, and why."""
    reasons = {}
    if not PYTHON:
        reasons["python"] = "DRIFTQ_DOCS_PYTHON does not name a python with the SDK installed"
    if not NODE_MODULES:
        reasons["typescript"] = "DRIFTQ_DOCS_NODE_MODULES does not name a folder with node_modules/driftq"
    elif typescript() is None:
        reasons["typescript"] = "there is no TypeScript compiler beside the SDK"
    elif shutil.which("node") is None:
        reasons["typescript"] = "there is no node"
    return reasons


def script(path, text):
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def provide(folder, binary):
    """Fills a folder with the commands."""
    folder.mkdir()
    (folder / "driftq").symlink_to(pathlib.Path(binary).resolve())
    python = PYTHON or sys.executable
    for name in ("python", "python3"):
        script(folder / name, f'#!/bin/sh\nexec "{python}" "$@"\n')
    # A status that the page does not announce is a mistake of the page; the headers tell.
    curl = shutil.which("curl") or "curl"
    script(folder / "curl", f'#!/bin/sh\nexec "{curl}" -D "$DOCS_RUN_HEADERS/$$" "$@"\n')
    if "typescript" not in missing():
        hook = folder / "typescript.mjs"
        hook.write_text(HOOK % {"typescript": str(typescript())}, encoding="utf-8")
        script(folder / "node", f'#!/bin/sh\nexec "{shutil.which("node")}" --import "{hook.as_uri()}" "$@"\n')


def check_types(folder, names):
    """What the TypeScript compiler has to say about the programs of a page; empty if nothing."""
    compiler = typescript() / "bin/tsc"
    options = ["--strict", "--noEmit", "--target", "ES2022", "--module", "NodeNext", "--moduleResolution", "NodeNext"]
    command = ["node", str(compiler), *options, "--skipLibCheck", "--types", "node", *names]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    return "" if ran.returncode == 0 else ran.stdout + ran.stderr
