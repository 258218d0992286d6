"""Releases of logs whose events have starts: their forms, runners, and who cannot make one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.support.releasing import placed, tracecloak
from tests.support.tiers import each_row

KNOWN = ["--vocabulary", "NAMES", "--first_date", "2026-01-01", "--last_date", "2026-03-01"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of start and complete events, and the same with a column of starts."""
    rng, folder = np.random.default_rng(1), tmp_path_factory.mktemp("log")
    records, wide = [], []
    for case in range(120):
        time = np.datetime64("2026-01-02T08:00:00") + np.timedelta64(int(case * 7), "h")
        for name in ("A", "B", "C"):
            begin = time + np.timedelta64(int(rng.integers(0, 90)), "m")
            time = begin + np.timedelta64(int(rng.integers(5, 50)), "m")
            records += [f"c{case},{name},{begin}Z,start", f"c{case},{name},{time}Z,complete"]
            wide.append(f"c{case},{name},{time}Z,{begin}Z")
    head = "case_id,activity,timestamp"
    (folder / "records.csv").write_text("\n".join([f"{head},phase", *records, ""]))
    (folder / "wide.csv").write_text("\n".join([f"{head},begun", *wide, ""]))
    (folder / "NAMES").write_text("A\nB\nC\n")
    return folder


def flags(log: Path, folder: Path, name: str, *more: object, method: str = "private-log") -> Any:
    known = [log / flag if flag == "NAMES" else flag for flag in KNOWN]
    known = known[: None if method == "private-log" else 2]
    given = ("--method", method, "--epsilon", "20", "--parts", 2, *known, *more)
    return placed(folder, log / name, *given)[1:]


def released(log: Path, folder: Path, name: str, *more: object) -> Path:
    forms = ("--formats", "parquet,xes,csv")
    assert tracecloak("release", *flags(log, folder, name, *forms, *more)) == 0
    return folder / "out/run_id=r"


def test_starts_of_a_lifecycle_are_released(log: Path, tmp_path: Path) -> None:
    lifecycle = ("records.csv", "--lifecycle", "phase")
    memory = released(log, tmp_path / "memory", *lifecycle, "--runner", "InMemory")
    starts = pq.read_table(memory / "log").column("start_timestamp")
    times = pq.read_table(memory / "log").column("timestamp")
    assert starts.null_count < len(starts) / 10 and str(starts.type) == "timestamp[us, tz=UTC]"
    both = zip(starts.to_pylist(), times.to_pylist(), strict=True)
    assert all(start is None or start <= time for start, time in both)
    page = (memory / "report.html").read_text()
    assert "waited for" not in page  # its numbers are drawn, and nothing says how far off they are
    assert tracecloak("verify", memory) == 0


def test_a_column_of_starts_is_released_and_evaluated(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("wide.csv", "--start_timestamp", "begun", "--runner", "InMemory")
    folder = released(log, tmp_path, *given)
    assert tracecloak("verify", folder) == 0
    report = tmp_path / "numbers.json"
    code = tracecloak(
        "evaluate", folder, "--log", log / "wide.csv", "--start_timestamp", "begun",
        "--output", report,
    )  # fmt: skip
    assert code == 0
    body = json.loads(report.read_text())
    assert 0 <= body["service_time_error"] < 1 and 0 <= body["waiting_time_error"] < 1
    assert body["of_the_log"]["service_time_error"] == pytest.approx(0)


@each_row(
    ("command", "starts"),
    [
        ("plan", ("records.csv", "--lifecycle", "phase")),
        ("release", ("wide.csv", "--start_timestamp", "begun")),
    ],
)
def test_a_method_without_starts_says_so_before_it_spends(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, starts: Any
) -> None:
    given = flags(log, tmp_path, *starts, method="private-dfg")
    assert tracecloak(command, *given) == 2
    said = capsys.readouterr().err
    assert "private-dfg does not release when events began" in said
    assert not (tmp_path / "out").exists() and not (tmp_path / "keys").exists()
    if command == "plan":  # with the remedy that it names, it does
        assert tracecloak("plan", *given, "--where", "lifecycle=complete") == 0


@each_row("given", [("--start_timestamp", "begun"), ()])
def test_service_times_follow_from_the_columns(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], given: tuple[str, ...]
) -> None:
    wrong = ("--service_times", "false" if given else "true")
    assert tracecloak("plan", *flags(log, tmp_path, "wide.csv", *given, *wrong)) == 2
    assert "service_times follows from start_timestamp" in capsys.readouterr().err
