"""A ratio tells its goal and its change; a record is by version, and keeps what was not run."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest
from packaging.version import Version

from tests.benchmarks import harness
from tests.benchmarks.harness import Measured, Ratio, Runs, Work, ratio, read_ratios, write_record


def _runs(name: str, *seconds: float) -> Runs:
    rounds = tuple(Measured(one, 2 * one, 100, {}) for one in seconds)
    return Runs(Work(name, (), n_events=1_000), rounds)


def test_a_ratio_reaches_its_goal_on_its_side() -> None:
    assert Ratio(2, 3, at_most=True).is_reached and not Ratio(4, 3, at_most=True).is_reached
    assert Ratio(4, 3, at_most=False).is_reached and not Ratio(2, 3, at_most=False).is_reached
    assert Ratio(4, None, at_most=True).is_reached


def test_a_ratio_is_worse_by_more_than_three_tenths_on_its_side() -> None:
    assert Ratio(1.31, None, at_most=True).is_worse(1)
    assert not Ratio(1.29, None, at_most=True).is_worse(1)
    assert Ratio(1, None, at_most=False).is_worse(1.31)
    assert not Ratio(1, None, at_most=False).is_worse(1.29)
    assert not Ratio(9, None, at_most=True).is_worse(None)


def test_a_ratio_is_the_median_of_the_rounds_and_not_of_the_sides() -> None:
    mine, theirs = _runs("a", 1, 20, 3), _runs("b", 1, 10, 1)
    assert mine.over(theirs) == 2  # of 1, 2 and 3; that of the medians is 3


def test_ratios_are_printed_beside_the_recorded_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "speed.json"
    monkeypatch.setattr(harness, "RECORD", record)
    monkeypatch.setattr(harness, "RATIOS", {})
    write_record(record, "one", {"a / b": Ratio(2, 3, True), "other": Ratio(1, None, True)}, {})
    ratio("a / b", 2.5, 2.4)
    ratio("new", 1, 2)
    ratio("other", 2)
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.endswith("2.50   (at most 2.4: NOT REACHED; +25%)")
    assert second.endswith("1.00   (at most 2: reached; no earlier one)")
    assert third.endswith("2.00   (+100%, WORSE)")
    write_record(record, "two", {"third": Ratio(1, None, True)}, {})
    write_record(record, "one", harness.RATIOS, {"w": _runs("w", 1, 2, 3)})
    assert read_ratios(record) == {"a / b": 2.5, "new": 1, "other": 2, "third": 1}


def test_the_last_version_is_compared_and_the_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "speed.json"
    for version in ("0.9.0", "0.10.0"):
        monkeypatch.setattr(harness.metadata, "version", lambda name, it=version: it)
        write_record(record, "one", {version: Ratio(1, None, True)}, {"w": _runs("w", 3, 1, 2)})
    assert read_ratios(record) == {"0.10.0": 1}
    versions = json.loads(record.read_text())
    assert versions["0.9.0"]["benchmarks"]["one"]["works"]["w"] == {
        "seconds": 2, "wall_seconds": 4, "peak_mb": 100, "n_events": 1_000
    }  # fmt: skip


def test_a_work_is_a_process_whose_exit_code_counts(tmp_path: Path) -> None:
    code = "import json, sys; print(json.dumps({'seconds': 1.5, 'counts': {'n': 3}}))"
    done = harness.run(Work("says", ("-c", code), says_seconds=True))
    assert done.seconds == 1.5 and done.counts == {"n": 3} and done.peak_mb > 1
    touched = tmp_path / "folder"
    code = "import sys; open(sys.argv[1], 'w').write(sys.argv[2]); sys.exit(4)"
    work = Work("ends with 4", ("-c", code, str(touched), "{fresh}/out"), exit_code=4)
    assert harness.run(work).seconds > 0
    assert not Path(touched.read_text()).parent.exists()  # a new folder, which is gone
    with pytest.raises(SystemExit, match="ends with 4 ended with 4"):
        harness.run(Work("ends with 4", work.arguments))


def test_a_version_that_is_published_has_a_record() -> None:
    version = Version(metadata.version("tracecloak"))
    recorded = {Version(text) for text in json.loads(harness.RECORD.read_text())}
    assert version in recorded or (version.is_devrelease and max(recorded) < version)
