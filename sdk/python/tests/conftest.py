"""Every test has a real server: the binary is DRIFTQ_BIN, else `driftq` in the PATH."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from secured import Secured

from driftq.testing import Server

pytest_plugins = ["driftq.testing.plugin"]

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def repository() -> pathlib.Path:
    """The tree that the scenarios and the error catalogue are in."""
    return REPOSITORY


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    """One server for tests that use topics of their own."""
    with Server() as server:
        yield server


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    """Certificates and a root key, for servers with TLS that ask for keys."""
    return Secured(tmp_path_factory.mktemp("secured"))


@pytest.fixture
def on_disk() -> Iterator[Server]:
    """A server that can be killed and started again."""
    with Server(on_disk=True) as server:
        yield server
