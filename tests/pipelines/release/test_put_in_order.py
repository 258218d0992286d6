"""Releases of a log whose names are joined and whose duplicates are dropped on the way in."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.releasing import as_typed, digests, fix_key, manifest, tracecloak
from tests.support.tiers import at_night
from tracecloak.pipelines.configuration.plan import CHOSEN, read_plan

LEFT = "aufnahme-markierung"  # nowhere else in what is published


@pytest.fixture
def common(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A command on a log in two files: every case has an event in both, and two names for one."""
    monkeypatch.chdir(tmp_path)
    fix_key(monkeypatch)
    rows = [
        (f"c{case},{name},2026-01-01T{hour:02}:00:00Z", case)
        for case in range(300)
        for hour, name in enumerate((LEFT if case % 2 else "Aufnahme", "Pflege", "Ende"))
    ]
    twice = [text for text, case in rows if case % 3 == 0]
    head = "case_id,activity,timestamp"
    (tmp_path / "a.csv").write_text("\n".join([head, *(text for text, _ in rows)]) + "\n")
    (tmp_path / "b.csv").write_text("\n".join([head, *twice]) + "\n")
    (tmp_path / "names.txt").write_text("Aufnahme\nPflege\nEnde\n")
    return [
        "release", "--method", "private-dfg", "--epsilon", "20", "--vocabulary", "names.txt",
        "--log", "a.csv,b.csv", "--release_id", "r", "--runner", "InMemory", "--quiet",
    ]  # fmt: skip


IN_ORDER = ("--rename", json.dumps({LEFT: "Aufnahme"}), "--drop_duplicates")


def graph(folder: Path) -> dict[tuple[str, str], int]:
    edges = json.loads((folder / "run_id=r" / "dfg.json").read_text())["edges"]
    return {(edge["source"], edge["target"]): edge["count"] for edge in edges}


def test_names_are_joined_and_duplicates_dropped_and_the_left_side_is_nowhere(
    common: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tracecloak(*common, *IN_ORDER, "--output", "one", "--key_store", "k1") == 0
    counts = graph(tmp_path / "one")
    way = ["▶", "Aufnahme", "Pflege", "Ende", "■"]
    assert all(abs(counts.pop(pair) - 300) < 10 for pair in itertools.pairwise(way))
    assert all(count < 10 for count in counts.values())  # of noise alone
    for file in (tmp_path / "one" / "run_id=r").rglob("*"):
        assert not file.is_file() or LEFT.encode() not in file.read_bytes(), file
    said = manifest(tmp_path / "one" / "run_id=r")
    assert CHOSEN in said["guarantee"]["not_covered"]
    assert CHOSEN[:40] in (tmp_path / "one/run_id=r/statement.md").read_text().replace("\n", " ")
    operator = "".join(p.read_text() for p in (tmp_path / "k1" / "operator").rglob("*.log"))
    assert "300 events were dropped" in capsys.readouterr().err + operator
    assert as_typed("verify", "one/run_id=r") == 0

    plain = [*common, "--output", "two", "--key_store", "k2"]
    assert tracecloak(*plain) == 0
    assert graph(tmp_path / "two") != graph(tmp_path / "one")
    assert CHOSEN not in json.dumps(manifest(tmp_path / "two" / "run_id=r"))


@pytest.mark.parametrize("shards", [at_night(1), 5])
def test_a_runner_gives_the_same_bytes_for_any_number_of_shards(
    common: list[Any], tmp_path: Path, shards: int
) -> None:
    for name, more in (("one", ()), ("two", ("--runner", "FnApiRunner", "--shards", shards))):
        command = [*common, *IN_ORDER, *more, "--output", name, "--key_store", f"keys-{name}"]
        assert tracecloak(*command) == 0
    first, second = (digests(tmp_path / name / "run_id=r") for name in ("one", "two"))
    for name in ("dfg.json", "dfg.parquet"):
        assert first[name] == second[name]


def test_the_old_names_key_the_noise_and_are_in_no_published_digest() -> None:
    """Catches the same noise on other counts, and a digest by which old names can be tried out."""
    base = {"log": "a.csv", "output": "o", "method": "private-dfg", "epsilon": "1",
            "vocabulary": '["A", "B"]', "release_id": "r"}  # fmt: skip
    plans = [read_plan(None, {**base, "rename": text}) for text in ('{"a": "A"}', '{"b": "A"}')]
    assert plans[0].noise_digest != plans[1].noise_digest
    assert {plan.published_digest for plan in plans} == {read_plan(None, base).published_digest}
