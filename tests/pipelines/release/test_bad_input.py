"""Input as it should not be: each gives a clear error or a right result, never a wrong one."""

import gzip
from pathlib import Path

import pandas as pd
import pytest

from tests.support.releasing import csv_log, tracecloak

SECRET = "patient-4711"  # stands for data: no error and no log line may show it


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def release(path: Path, out: Path, *flags: object) -> int:
    return tracecloak(
        "release", "--log", path, "--output", out, "--key_store", out.parent / "keys",
        "--method", "amun", "--guessing_advantage", "0.4", "--mode", "oversampling",
        "--release_id", "r", "--runner", "InMemory", *flags,
    )  # fmt: skip


def released(out: Path) -> pd.DataFrame:
    return pd.read_parquet(out / "run_id=r" / "log")


def refused(out: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The error's text, once nothing was released and nothing was told of the data."""
    printed = capsys.readouterr()
    assert not (out / "run_id=r").exists()
    assert not (out / "latest.json").exists()
    assert SECRET not in printed.err + printed.out
    return printed.err


@pytest.mark.parametrize("runner", ["InMemory", "FnApiRunner"])
def test_a_truncated_gzip_is_no_shorter_log(
    tmp_path: Path, out: Path, runner: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = "".join(f"{SECRET},A{i},2026-01-01T00:00:00Z\n" for i in range(5000))
    packed = gzip.compress(("case_id,activity,timestamp\n" + lines).encode())
    path = tmp_path / "log.csv.gz"
    path.write_bytes(packed[: len(packed) // 2])
    assert release(path, out, "--runner", runner) == 3
    assert "truncated" in refused(out, capsys)


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("9999-12-31T23:00:00Z", "9999-12-31T23:59:59.999999Z"),
        ("0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z"),
    ],
)
def test_the_ends_of_the_calendar_can_be_released(
    tmp_path: Path, out: Path, first: str, last: str
) -> None:
    rows = [(f"c{i}", a, first if a == "A" else last) for i in range(5) for a in "AB"]
    rows += [("d", "A", first), ("d", "B", first)]
    path = csv_log(tmp_path / "log.csv", rows)
    assert release(path, out, "--formats", "parquet,xes,csv") == 0
    stamps = released(out)["timestamp"]
    assert (stamps.dt.year >= 1).all()
    assert (stamps.dt.year <= 9999).all()
    assert (
        released(out)
        .groupby("case_id")["timestamp"]
        .apply(lambda s: s.is_monotonic_increasing)
        .all()
    )


def test_an_empty_log_ends_with_5(
    tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for runner in ("InMemory", "FnApiRunner"):
        assert release(csv_log(tmp_path / "log.csv", []), out, "--runner", runner) == 5
        assert "no events" in refused(out, capsys)


def test_a_csv_without_header_is_told_and_its_first_record_is_not(
    tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.csv"
    path.write_text("".join(f"{SECRET},{a},2026-01-0{i}\n" for i, a in enumerate("AB", 1)))
    assert release(path, out) == 3
    assert "no header line" in refused(out, capsys)
    assert release(path, out, "--header", "case_id,activity,timestamp") == 0
    assert set(released(out)["activity"]) == {"A", "B"}


def test_a_renamed_column_is_told_with_those_found_and_the_mend(
    tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"claim,step,at\n{SECRET},A,2026-01-01\n{SECRET},B,2026-01-02\n")
    assert release(path, out, "--activity", "step", "--timestamp", "at") == 3
    error = refused(out, capsys)
    for told in ("'case_id'", "'claim'", "'step'", "'at'", "--case_id", "columns:"):
        assert told in error
    mapped = ("--activity", "step", "--timestamp", "at", "--case_id", "claim")
    assert release(path, out, *mapped) == 0
