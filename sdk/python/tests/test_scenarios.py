"""Every scenario, with handlers in threads and as tasks, each against a fresh server: an open one, and one with TLS that
asks for keys."""

from __future__ import annotations

import contextlib
import json
import pathlib
from typing import Any

import pytest
from scenario_runner import Scenario
from secured import Secured

from driftq import canonical, digest
from driftq.canonical import derived_key
from driftq.testing import Server

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "tests" / "scenarios"
# What a worker and whoever looks after it do, without the right to make keys.
ACTIONS = ["produce", "consume", "effects", "outputs", "read", "read_payload", "manage"]
KINDS = ["threads", "tasks"]
FILES = sorted(path for path in FOLDER.glob("*.json") if path.stem != "digests")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.stem))
def test_scenario(path: pathlib.Path, kind: str) -> None:
    with Server() as server:
        play(path, kind, server)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.stem))
def test_scenario_with_tls_and_a_key(
    path: pathlib.Path, kind: str, secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(secured.authority))
    with Server(*secured.flags) as server:
        assert server.url.startswith("https://")
        monkeypatch.setenv("DRIFTQ_KEY", secured.key(server.url, ACTIONS))
        play(path, kind, server, secured.certificates)


def play(path: pathlib.Path, kind: str, server: Server, certificates: pathlib.Path | None = None) -> None:
    document: dict[str, Any] = json.loads(path.read_text())
    scenario = Scenario(document, server, certificates)
    with scenario.front or contextlib.nullcontext():
        scenario.prepare()
        if kind == "threads":
            scenario.run()
        else:
            scenario.run_async()
        scenario.check()
    assert "panicked" not in server.log()


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 20, f"the scenarios are not in {FOLDER}"


def test_digests() -> None:
    examples = json.loads((FOLDER / "digests.json").read_text())
    for example in examples["documents"]:
        assert canonical(example["document"]) == example["canonical"]
        assert digest(example["document"]) == example["sha256"]
    for example in examples["keys"]:
        assert derived_key(example["anchor"], example["arguments"]) == example["key"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes", {1: 2}, "\ud800", object()])
def test_what_has_no_canonical_form(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        canonical(value)
