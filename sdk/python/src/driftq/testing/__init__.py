"""A kit for tests: a throwaway server, a worker that runs until its topics are done, and a look at the ledger.

For pytest, `pytest_plugins = ["driftq.testing.plugin"]` in `conftest.py` gives the fixtures `driftq_server` and
`driftq_client`.
"""

from ._runs import assert_effects, run_until_idle, run_until_idle_async
from ._server import NoBinary, Server

__all__ = ["NoBinary", "Server", "assert_effects", "run_until_idle", "run_until_idle_async"]
