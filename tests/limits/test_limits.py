"""Every method on every log ends within what table.json says, or is refused as it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.limits.running import ASKED, Asked, Tried, read_table, try_release, vocabulary_of
from tests.support.extremes import EXTREMES
from tests.support.releasing import Commands
from tracecloak.anonymizers.registry import METHODS

TABLE = read_table()


def test_the_table_has_every_method_and_every_log() -> None:
    """`python -m tests.limits --rest` measures a new method."""
    wanted = {(m, asked.name) for asked in ASKED.values() for m in METHODS if asked.is_for(m)}
    assert TABLE.keys() == wanted


def test_no_rigorous_method_is_refused_but_by_public_numbers_before_anything_is_read() -> None:
    """What is said of them: they end, or were refused as soon as the configuration was read."""
    for (method, _), row in TABLE.items():
        assert row.outcome in ("ends", "refused"), (method, row)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where logs and lists of activities are made."""
    return tmp_path_factory.mktemp("logs")


def rows() -> Iterator[object]:
    """All rows, those of one log after another; none of what was not waited for."""
    for name, asked in ASKED.items():
        for method in filter(asked.is_for, METHODS):
            row = TABLE.get((method, name))
            if row is not None and row.has_ended:
                marks = [pytest.mark.logs] if asked.file else []
                yield pytest.param(method, asked, row, marks=marks, id=f"{method}, {name}")


@pytest.mark.slow
@pytest.mark.timeout(7200)  # of the clock; what counts is the time of a processor
@pytest.mark.parametrize(("method", "asked", "row"), list(rows()))
def test_it_ends_within_what_is_said_or_is_refused(
    method: str,
    asked: Asked,
    row: Tried,
    commands: Commands,
    files: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """In words of the method's parameters, and a rigorous one before anything is read or paid."""
    logs = request.getfixturevalue("logs_folder") if asked.file else None
    log = asked.path(logs, files)
    vocabulary = vocabulary_of(log, files)
    tried, is_begun = try_release(
        commands, method, asked, log, vocabulary, tmp_path, row.within_s, row.within_mib
    )
    assert tried.outcome == row.outcome, tried
    if row.outcome == "refused":
        names = "|".join(METHODS[method].Params.model_fields)
        assert re.search(rf"\b({names})\b", tried.says), tried.says
        if METHODS[method].guarantee_kind == "rigorous":
            assert not is_begun


@pytest.mark.slow
def test_what_takes_longer_is_ended_and_what_takes_more_is_told(
    commands: Commands, files: Path, tmp_path: Path
) -> None:
    """Controls of the measure: 200,000 cases in one second, and any release in 64 MiB."""
    asked = ASKED["one_variant"]
    log = asked.path(None, files)
    names = vocabulary_of(log, files)
    (tmp_path / "a").mkdir()
    tried, _ = try_release(commands, "private-log", asked, log, names, tmp_path / "a", 1, 4096)
    assert tried.outcome == "too slow", tried
    assert not list((tmp_path / "a" / "out").glob("run_id=*"))
    (tmp_path / "b").mkdir()
    tried, _ = try_release(commands, "private-log", asked, log, names, tmp_path / "b", 300, 64)
    assert tried.outcome == "too large", tried


def test_extremes_are_what_they_are_called(tmp_path: Path) -> None:
    made = {
        name: make(np.random.default_rng(list(name.encode()))) for name, make in EXTREMES.items()
    }
    assert len(made["one_case"].lengths) == 1
    assert set(made["one_event_a_case"].lengths) == {1}
    assert len(set(made["many_activities"].activities)) == 600
    assert made["a_long_case"].lengths.max() == 200_000
    assert len(set(made["equal_stamps"].stamps_us)) == 1
    assert len(made["one_variant"].lengths) == 200_000
    assert (made["one_variant"].activities.reshape(200_000, -1) == np.arange(5)).all()
    for extreme in made.values():
        assert len(extreme.activities) == len(extreme.stamps_us) == extreme.lengths.sum()
