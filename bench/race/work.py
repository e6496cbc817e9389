"""A worker of the race, until it is killed: work.py PEER PORT KEEPER_PORT QUEUE IS_GUARDED EFFECTS TOOLS."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from kit import ROOT, Tools, void
from peers import PEERS


def main() -> None:
    sys.path.insert(0, str(ROOT / "sdk/python/src"))
    name, port, keeper, queue, is_guarded, effects, tools = sys.argv[1:]
    peer = PEERS[name](Tools(Path(tools), offline=True))
    peer.port = int(port)
    peer.keeper_port = lambda: int(keeper)
    file = os.open(effects, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    peer.work(queue, lambda key: void(os.write(file, key.encode() + b"\n")), is_guarded == "1")


if __name__ == "__main__":
    main()
