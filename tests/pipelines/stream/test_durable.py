"""Decisions, and what a stream keeps, may be read by a later version: names and fields stay.

Whoever moves a class changes its place in `transforms.columnar_names`. Whoever changes what a
name stands for cannot read what was kept, and draws other noise: a class with other fields gets
another name, and the old one goes to `REMOVED`.
"""

from __future__ import annotations

import base64
import importlib
import pkgutil
import zlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, make_dataclass
from inspect import ismethod
from pathlib import Path
from typing import Any

import pytest

from tracecloak import anonymizers, schemas
from tracecloak.anonymizers.contract.method import Decision
from tracecloak.anonymizers.streams.dfg_steps import KeptCounts
from tracecloak.schemas.arrays import columnar
from tracecloak.schemas.arrays.columnar import decode
from tracecloak.schemas.arrays.merging import CountsByKey, CountsByPair, OfArrays, Statistics
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.streams.open_cases import OpenCases
from tracecloak.transforms.columnar_names import COLUMNAR

HERE = Path(__file__).parent
# A line for each class: its name, and its fields.
LINES = (HERE / "wire_fields.txt").read_text().splitlines()
FIELDS = {name: set(names.split()) for name, names in (line.split(":") for line in LINES)}
# `Statistics` of some kept counts and of no open case and one that has closed.
RECORDED = zlib.decompress(base64.b85decode((HERE / "recorded.b85").read_text().strip()))


def test_names_and_fields_are_those_of_what_was_kept() -> None:
    """Catches another meaning of a name: whoever adds a class adds a line, and changes none."""
    found = {name: {f.name for f in fields(kind)} for name, kind in COLUMNAR.builtins.items()}
    assert found == FIELDS


def test_a_class_is_called_as_in_the_table_and_every_one_is_in_it() -> None:
    """Catches a decision that the next build cannot read, and a name that is not its class's."""
    assert {name: kind.wire_name for name, kind in COLUMNAR.builtins.items()} == {
        name: name for name in COLUMNAR.builtins
    }
    classes = set(_classes()) - {
        CountsByKey,
        CountsByPair,
        OfArrays,
    }  # what some of them are made of
    listed = set(COLUMNAR.builtins.values())
    decisions = {kind for kind in classes if issubclass(kind, Decision)}
    statistics = {kind for kind in classes if ismethod(getattr(kind, "merge", None))}
    products = {kind for kind in classes if hasattr(kind, "to_table")}
    assert len(decisions) > 30 and len(statistics) > 20 and len(products) > 4
    assert decisions | {kind for kind in statistics | products if is_dataclass(kind)} <= listed
    assert {kind for kind in classes if "wire_name" in vars(kind)} == listed


def _classes() -> Iterator[type[Any]]:
    """The classes of all modules that a columnar class may be in."""
    for package in (schemas, anonymizers):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, type) and value.__module__ == module.name:
                    yield value


def test_a_message_that_was_recorded_is_read() -> None:
    kept = decode(RECORDED)
    assert isinstance(kept, Statistics) and list(kept.by_name) == ["kept", "open"]
    counts = kept.by_name["kept"]
    assert isinstance(counts, KeptCounts)
    assert (counts.counts.tolist(), counts.measured.tolist()) == ([1, 2], [3, 4])
    opened = kept.by_name["open"]
    assert isinstance(opened, OpenCases)
    assert opened.keys.shape == (0, 2)
    run = opened.closed.runs["0"]
    assert (run.keys.tolist(), run.until.tolist()) == ([[3, 4]], [5])


def test_a_value_of_another_version_is_refused_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    later = make_dataclass("ClosedRun", ["keys", "until", "more"], frozen=True)
    monkeypatch.setattr(columnar, "_MET", {"closed-run": later})
    with pytest.raises(UsageError, match="closed-run was kept by another version"):
        decode(RECORDED)
