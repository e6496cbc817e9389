"""Every scenario, with handlers in threads and as tasks, each against a fresh server."""

from __future__ import annotations

import contextlib
import json
import pathlib
from typing import Any

import pytest
from scenario_runner import Scenario

from driftq import canonical, digest
from driftq.canonical import derived_key
from driftq.testing import Server

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "tests" / "scenarios"
FILES = sorted(path for path in FOLDER.glob("*.json") if path.stem != "digests")


@pytest.mark.parametrize("kind", ["threads", "tasks"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.stem))
def test_scenario(path: pathlib.Path, kind: str) -> None:
    document: dict[str, Any] = json.loads(path.read_text())
    with Server() as server:
        scenario = Scenario(document, server)
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
