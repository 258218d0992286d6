"""A method of another distribution: an entry point is all that makes every command know it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.releasing import csv_log, manifest

# The other distribution: a method with a parameter of its own, and a generator of variants.
_MODULE = '''
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar

from pydantic import Field

from tracecloak.plugins import Exact, PrivTree, VariantHistogramMethod, VariantHistogramParams


class ToyParams(VariantHistogramParams):
    """Parameters of the toy."""

    wind: Exact = Field(Decimal(3), ge=0, le=12)
    """Force of the wind in which the toy flies, from 0 to 12; costs nothing."""


class Toy(VariantHistogramMethod):
    """A kite."""

    name: ClassVar[str] = "toy-kite"
    summary: ClassVar[str] = "noisy counts that fly"
    Params: ClassVar[type[ToyParams]] = ToyParams
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"epsilon": "1", "wind": "5"},)


class ToyTree(PrivTree):
    """A tree of kites."""

    name: ClassVar[str] = "toy-tree"
    summary: ClassVar[str] = "a tree of kites"
'''
_ENTRY_POINTS = """
[tracecloak.methods]
toy-kite = kites:Toy
toy-tree = kites:ToyTree
"""


@pytest.fixture
def kites(tmp_path: Path) -> Path:
    """A folder of installed distributions with that one."""
    folder = tmp_path / "site"
    (folder / "kites-1.0.dist-info").mkdir(parents=True)
    (folder / "kites.py").write_text(_MODULE)
    (folder / "kites-1.0.dist-info" / "METADATA").write_text("Name: kites\nVersion: 1.0\n")
    (folder / "kites-1.0.dist-info" / "entry_points.txt").write_text(_ENTRY_POINTS)
    return folder


def told(kites: Path, code: str, *arguments: object) -> str:
    """Runs Python where that distribution is installed, and returns what it prints."""
    done = subprocess.run(
        [sys.executable, *code.split(), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "PYTHONPATH": str(kites)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_every_command_knows_a_method_of_another_distribution(kites: Path, tmp_path: Path) -> None:
    log = csv_log(
        tmp_path / "log.csv",
        [
            (f"c{case}", activity, f"2026-01-{1 + case % 28:02d}T0{step}:00:00Z")
            for case in range(90)
            for step, activity in enumerate("ABC" if case % 3 else "AB")
        ],
    )
    method = ["--method", "toy-kite", "--epsilon", "4", "--wind", "7"]
    places = ["--log", log, "--output", tmp_path / "out", "--key_store", tmp_path / "keys"]

    def command(*arguments: object) -> str:
        return told(kites, "-m tracecloak", *arguments)

    entries: dict[str, Any] = {
        e["name"]: e for e in json.loads(command("catalogue", "--all", "--json"))
    }
    assert "Force of the wind" in entries["toy-kite"]["params"]["wind"]["description"]
    assert entries["toy-tree"]["guarantee"] == "rigorous"
    assert "--wind" in (help_text := command("release", "--method", "toy-kite", "--help"))
    assert "Force of the wind" in help_text
    plan = command("plan", *places, *method, "--full")
    assert "toy-kite: noisy counts that fly" in plan and "wind = 7" in plan
    command(
        "release", *places, *method, "--release_id", "r", "--runner", "InMemory", "--new_ledger"
    )
    released = manifest(tmp_path / "out" / "run_id=r")
    assert (released["method"], released["params"]["wind"]) == ("toy-kite", "7")
    assert "toy-kite" in (tmp_path / "out" / "run_id=r" / "statement.md").read_text()
    ledger = json.loads(command("ledger", "show", "--json", "--key_store", tmp_path / "keys"))
    assert {entry["method"] for entry in ledger["entries"]} == {"toy-kite"}
    report = tmp_path / "report.json"
    command("attack", "config", "--log", log, *method, "--releases", 16, "--report", report)
    assert "toy-kite" in report.read_text()


def test_the_json_schema_knows_it_too(kites: Path, tmp_path: Path) -> None:
    script = tmp_path / "schema.py"
    script.write_text(
        "import json\n"
        "from tracecloak.pipelines.configuration.config import json_schema\n"
        "print(json.dumps(json_schema()))\n"
    )
    schema = json.loads(told(kites, str(script)))
    assert {"toy-kite", "toy-tree", "amun"} <= set(schema["properties"]["method"]["enum"])
    assert "wind" in schema["$defs"]["ToyParams"]["properties"]
