"""The commands that blocks find in their PATH: the binary under test, and curl, python and node as CI set them up."""

import os
import pathlib
import shutil
import stat
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

PYTHON = os.environ.get("DRIFTQ_DOCS_PYTHON", "")
NODE_MODULES = os.environ.get("DRIFTQ_DOCS_NODE_MODULES", "")

# Node before 22.18 reads no TypeScript, and none checks types: the compiler that the SDK is built with does both.
NODE = """#!/bin/sh
case "$1" in
*.ts)
    program=$1
    shift
    "{node}" "{compiler}" --strict --target ES2022 --module NodeNext --moduleResolution NodeNext --skipLibCheck \\
        --rewriteRelativeImportExtensions --erasableSyntaxOnly --typeRoots "{types}" --types node \\
        --rootDir "$(dirname "$program")" --outDir "$DOCS_RUN_JS" "$program" >&2 || exit 1
    exec "{node}" "$DOCS_RUN_JS/$(basename "$program" .ts).js" "$@" ;;
esac
exec "{node}" "$@"
"""


def modules():
    """The folder in which `driftq` is installed: the one that is named, or node_modules in it."""
    named = pathlib.Path(NODE_MODULES).resolve()
    return named if (named / "driftq").is_dir() else named / "node_modules"


def typescript():
    """The TypeScript compiler's folder, beside the installed SDK or beside its source."""
    for folder in (modules(), ROOT / "sdk/typescript/node_modules"):
        if (folder / "typescript/package.json").is_file():
            return (folder / "typescript").resolve()
    return None


def missing():
    """The SDKs that are not there, and why."""
    reasons = {}
    if not PYTHON:
        reasons["python"] = "DRIFTQ_DOCS_PYTHON does not name a python with the SDK installed"
    if not NODE_MODULES or not (modules() / "driftq").is_dir():
        reasons["typescript"] = "DRIFTQ_DOCS_NODE_MODULES does not name a folder with the SDK installed"
    elif typescript() is None:
        reasons["typescript"] = "there is no TypeScript compiler beside the SDK: `npm ci` in sdk/typescript"
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
        compiler = typescript()
        node = NODE.format(node=shutil.which("node"), compiler=compiler / "bin/tsc", types=compiler.parent / "@types")
        script(folder / "node", node)


def give_modules(folder):
    """What `npm install` leaves behind in a page's folder."""
    (folder / "node_modules").symlink_to(modules())
    (folder / "package.json").write_text('{"type": "module", "private": true}\n', encoding="utf-8")
