"""Fixtures for pytest: `pytest_plugins = ["driftq.testing.plugin"]`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..client import Client
from ._server import Server


@pytest.fixture
def driftq_server() -> Iterator[Server]:
    """A fresh server in memory."""
    with Server() as server:
        yield server


@pytest.fixture
def driftq_client(driftq_server: Server) -> Iterator[Client]:
    """A client of that server."""
    with driftq_server.client() as client:
        yield client
