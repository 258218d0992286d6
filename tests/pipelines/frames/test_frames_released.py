"""A frame that is released: once for the same events, with the ledger, and as it came in."""

from __future__ import annotations

import functools
import itertools
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tracecloak
from tests.support.releasing import counting_charges
from tests.support.releasing import tracecloak as command
from tracecloak.pipelines.frames.frame_source import AnyFrame, FrameSource
from tracecloak.schemas.errors import BudgetExhausted, InputSchemaError, UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.transforms.formats.registry import FILE_KEYS

NAMES = ["Check", "Pay", "Register", "Reject"]
GRAPH = {"method": "private-dfg", "epsilon": 2, "vocabulary": NAMES, "max_trace_length": 6}


# The digest of `events(least_days=1)` with the column of its resource, which is to stay.
UNTIED = "36cc0aa1894f2b57184640d19e14a9247880e02291cf07739c62b9df15ddff5b"


def events(n_cases: int = 150, least_days: int = 0) -> pd.DataFrame:
    """A log as pm4py names its columns, with whole days: many stamps are equal, or none."""
    chance = random.Random(5)
    rows = []
    for case in range(n_cases):
        day = pd.Timestamp("2026-01-01", tz="UTC") + pd.Timedelta(days=chance.randrange(90))
        steps = ["Register", *["Check"] * chance.randrange(1, 3), chance.choice(["Pay", "Reject"])]
        for step in steps:
            rows.append((case, step, day, chance.choice(["ann", "bob"])))
            day += pd.Timedelta(days=chance.randrange(least_days, 3))
    names = ["case:concept:name", "concept:name", "time:timestamp", "org:resource"]
    return pd.DataFrame(rows, columns=names)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACECLOAK_KEY_STORE", str(tmp_path / "keys"))
    return tmp_path


def as_polars(df: pd.DataFrame) -> pl.DataFrame:
    return pl.DataFrame(df.to_dict("list"))


def charges() -> int:
    """How many releases were paid."""
    return len(counting_charges(Path("keys")))


SHUFFLED: dict[str, Callable[[pd.DataFrame], Any]] = {
    "another order of rows": lambda df: df.sample(frac=1, random_state=3),
    "reversed rows": lambda df: df[::-1],
}
OTHER_FORMS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "another index": lambda df: df.set_index(df.index * 7 + 1),
    "another object": lambda df: df.copy(),
    "categories": lambda df: df.astype({"concept:name": "category", "org:resource": "category"}),
    "categories in another order": lambda df: df.astype(
        {"concept:name": pd.CategoricalDtype(["unused", *reversed(NAMES)])}
    ),
    "floating ids": lambda df: df.astype({"case:concept:name": float}),
    "ids as texts": lambda df: df.astype({"case:concept:name": str}),
    "nanoseconds": lambda df: df.assign(
        **{"time:timestamp": df["time:timestamp"].astype("datetime64[ns, UTC]")}
    ),
    "another zone": lambda df: df.assign(
        **{"time:timestamp": df["time:timestamp"].dt.tz_convert("Asia/Tokyo")}
    ),
    "stamps as texts": lambda df: df.assign(
        **{"time:timestamp": df["time:timestamp"].map(lambda t: t.isoformat())}
    ),
    "objects": lambda df: df.astype(object),
    "further columns": lambda df: df.assign(note="x"),
    "polars": lambda df: as_polars(df),
    "Arrow in chunks": lambda df: pa.concat_tables(
        [pa.Table.from_pylist(part.to_dict("records")) for part in (df[:40], df[40:41], df[41:])]
    ),
}


def test_the_same_events_are_the_same_whatever_holds_them() -> None:
    """Catches an identity that hangs on an index, a type, a chunk, a category or a row's number.

    Where no stamps are equal it is what it was when the names of activities ordered events.
    """
    df = events(least_days=1)

    def digest(frame: Any) -> str:
        source = FrameSource.over(AnyFrame.of(frame), ColumnMapping(resource="org:resource"))
        return source.with_digest().files[0].digest or ""

    expected = digest(df)
    assert expected == UNTIED
    for form, changed in {**OTHER_FORMS, **SHUFFLED}.items():
        assert digest(changed(df)) == expected, form
    with_ties = events()
    for form, changed in OTHER_FORMS.items():
        assert digest(changed(with_ties)) == digest(with_ties), form
    for form, changed in SHUFFLED.items():
        assert digest(changed(with_ties)) != digest(with_ties), form
    for column, value in (("case:concept:name", 3), ("concept:name", "Pay"), ("org:resource", "x")):
        other = df.copy()
        other.loc[5, column] = value
        assert digest(other) != expected, column
    assert digest(df[1:]) != expected
    assert digest(pd.concat([df, df[:1]])) != expected


def test_a_cell_that_is_run_again_finds_its_release_and_pays_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    df = events(least_days=1)
    with pytest.raises(UsageError, match="new_ledger"):
        tracecloak.release(df, **GRAPH)
    first = tracecloak.release(df, **GRAPH, new_ledger=True)
    assert not first.was_released_before
    assert "takes epsilon 2" in caplog.text and "nothing was spent" in caplog.text
    caplog.clear()
    as_before = {**GRAPH, "epsilon": "2.0", "params": {"delta": 1e-6, "closed_vocabulary": False}}
    again = tracecloak.release(as_polars(df.sample(frac=1)), **as_before)
    assert again.was_released_before and again.folder == first.folder
    assert isinstance(again.graph, pl.DataFrame)
    assert again.graph.to_dicts() == first.graph.to_dict("records")
    assert not [record for record in caplog.records if "takes epsilon" in record.message]
    assert charges() == 1

    other = tracecloak.release(df, **{**GRAPH, "vocabulary": NAMES[::-1]})
    assert other.release_id != first.release_id and "left before it" in caplog.text
    less = tracecloak.release(df[df["case:concept:name"] > 0], **GRAPH)
    assert less.release_id not in (first.release_id, other.release_id)
    assert charges() == 3
    with pytest.raises(UsageError, match="the input changed since"):
        tracecloak.release(df[1:], **GRAPH, release_id=first.release_id)


def test_the_account_has_the_last_word() -> None:
    assert command("ledger", "begin") == 0
    caps = ("--epsilon", "3", "--delta", "0.1", "--unit", "case", "--composition", "sum")
    assert command("ledger", "declare", "default", *caps, "--by", "me", "--reason", "r") == 0
    df = events()
    released = tracecloak.release(df, **GRAPH)
    assert dict(released.rows)["remains"].startswith("epsilon 1 and")
    with pytest.raises(BudgetExhausted):
        tracecloak.release(df, **{**GRAPH, "max_trace_length": 7})
    assert tracecloak.release(df, **GRAPH).was_released_before


def test_a_log_goes_out_as_it_came_in_and_the_command_verifies_it(place: Path) -> None:
    df = events()
    released = tracecloak.release(
        df, method="private-log", epsilon=4, vocabulary=NAMES, max_trace_length=6,
        first_date="2026-01-01", last_date="2026-04-30", new_ledger=True, release_id="claims",
    )  # fmt: skip
    log = released.log
    assert list(log.columns) == list(df.columns[:3])
    assert set(log["concept:name"]) <= set(NAMES)
    assert str(log["time:timestamp"].dt.tz) == "UTC"
    assert released.graph is not None and released.indicators is None
    assert "epsilon" in released.statement and released.report.is_file()
    shown = released._repr_html_()
    assert shown.count("<svg") == 1 and "Register" in shown and "promise" in shown
    assert str(place) in repr(released)
    assert command("verify", released.folder) == 0
    assert released.folder.name == "run_id=claims"


def test_a_plan_reads_no_more_than_first_rows_and_pays_nothing() -> None:
    plan = tracecloak.plan(events(), **GRAPH)
    whole = "\n".join(plan.lines)
    assert "of the first" in whole and "the frame: case:concept:name" in whole
    assert repr(plan).splitlines()[:3] == list(plan.first[:3])
    assert "no ledger yet" in plan.first[2] and "run_id=<release_id>/" in whole
    wrong = pd.concat([events(4)] * 2)
    wrong.iloc[3, 2] = None
    wrong["org:resource"] = wrong["org:resource"].astype(object)
    wrong.iat[5, 3] = ["ann"]
    told = repr(tracecloak.plan(wrong, **GRAPH, resource="org:resource"))
    for said in (
        "at row 6 of the frame; convert it",
        "at row 4 of the frame",
        "`tracecloak profile` says",
    ):
        assert said in told
    with pytest.raises(UsageError, match=r"; `tracecloak vocabulary`"):
        tracecloak.plan(wrong, **{**GRAPH, "vocabulary": None})
    with pytest.raises(UsageError, match=r"^goal is 'graph', and must be"):
        tracecloak.plan(events(), **GRAPH, goal="graph")
    assert not Path("keys/ledger.db").exists()


def test_a_vocabulary_lists_what_a_frame_has() -> None:
    df = events()
    assert tracecloak.vocabulary(df) == NAMES
    for one_or_more in ("org:resource = nobody", ["org:resource = nobody"]):
        assert tracecloak.vocabulary(df, where=one_or_more) == []
    with pytest.raises(UsageError, match="where takes texts, such as 'step ="):
        tracecloak.vocabulary(df, where={"org:resource": "ann"})
    with pytest.raises(InputSchemaError, match=r"has no column 'step'.*in case_id,"):
        tracecloak.vocabulary(df, activity="step")


def test_keys_of_files_are_refused_by_name() -> None:
    calls: tuple[Callable[..., Any], ...] = (
        functools.partial(tracecloak.release, **GRAPH),
        functools.partial(tracecloak.plan, **GRAPH),
        tracecloak.vocabulary,
    )
    of_files = ("log", "query", "database", "input_format", *FILE_KEYS, "runner", "schedule")
    for call, key in itertools.product(calls, (*of_files, "window", "book", "book_key", "jobs")):
        with pytest.raises(UsageError, match=f"^{key} is for files"):
            call(events(), **{key: "x"})
    with pytest.raises(UsageError, match=r"^epsilon is given twice"):
        tracecloak.release(events(), **GRAPH, params={"epsilon": 1})


@pytest.mark.slow
def test_what_was_left_out_is_in_the_folder_of_the_operator_alone(place: Path) -> None:
    """Catches a saved notebook that tells whether a row was malformed, and one that loads Beam."""
    program = (
        "import builtins, sys, pyarrow as pa, tracecloak\n"
        "builtins.__IPYTHON__ = True\n"
        "t = pa.table({'case_id': ['a', 'b'] * 60, 'activity': ['X', 'Y'] * 60,\n"
        "              'timestamp': ['2026-01-01', '2026-01-02'] * 60})\n"
        "keys = {'method': 'private-dfg', 'epsilon': 1, 'vocabulary': ['X', 'Y']}\n"
        "broken = t.set_column(2, 'timestamp', [['soon'] * 120])\n"
        "for name, one in {'whole': t, 'broken': broken, 'empty': t[:0]}.items():\n"
        "    tracecloak.plan(one, **keys)\n"
        "    released = tracecloak.release(one, **keys, release_id=name, new_ledger=True)\n"
        "    print(released), released._repr_html_()\n"
        "    if name == 'whole':\n"
        "        released.graph, tracecloak.vocabulary(t), tracecloak.evaluate(t, released)\n"
        "        assert 'apache_beam' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    rows = [line.split(maxsplit=2)[2] for line in done.stdout.splitlines() if "left out" in line]
    folders = [Path(row.partition(" says which rows and why, if any")[0]) for row in rows]
    assert len({row.removeprefix(str(at)) for row, at in zip(rows, folders, strict=True)}) == 1
    told = "NOT ONE RECORD"
    assert told not in done.stdout + done.stderr
    logs = [[path.read_text() for path in folder.glob("*.log")] for folder in folders]
    assert [sum(text.count(told) for text in texts) for texts in logs] == [0, 1, 1]
