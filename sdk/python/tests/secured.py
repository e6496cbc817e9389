"""What a server with TLS and keys needs, made with the commands that its operator would use."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
from typing import Any

from driftq import Client

COMMAND_TIMEOUT_S = 30.0


class Secured:
    """An authority with a certificate for this machine, and a root key."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.certificates = folder / "tls"
        self.authority = self.certificates / "ca.pem"
        _command("tls", "dev", "--out", str(self.certificates))
        made: dict[str, Any] = json.loads(
            _command("key", "create", "--root", "-o", "json", "--data", str(folder / "data"))
        )
        self.root: str = made["secret"]
        root_file = folder / "root"
        root_file.touch(mode=0o600)
        root_file.write_text(self.root)
        keys = ("--keys", "required", "--root-key-file", str(root_file))
        own = self.certificates
        # How a server is started that has both.
        self.flags = (*keys, "--tls-cert", str(own / "cert.pem"), "--tls-key", str(own / "key.pem"))

    def key(self, url: str, actions: list[str]) -> str:
        """A new key of this server."""
        with Client(url, key=self.root) as root:
            made: dict[str, Any] = root.request("POST", "/v2/keys", {"actions": actions})
        return str(made["secret"])


def _command(*arguments: str) -> str:
    binary = os.environ.get("DRIFTQ_BIN") or shutil.which("driftq") or "driftq"
    ran = subprocess.run(
        [binary, *arguments], check=True, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S
    )
    return ran.stdout
