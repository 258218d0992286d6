"""Every exit code of the reference, each by a command that ends with it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.releasing import (
    csv_log,
    key_files,
    ledger_entries,
    placed,
    small_rows,
    tracecloak,
    with_flag,
)
from tests.support.tiers import at_night

SECRET = "patient-4711"


@pytest.fixture
def common(tmp_path: Path) -> list[object]:
    log = csv_log(tmp_path / "log.csv", list(small_rows()))
    (tmp_path / "accounts.yaml").write_text("accounts: {a: {epsilon: 1, delta: 1e-5, unit: case}}")
    account = ("--account", "a", "--accounts", tmp_path / "accounts.yaml")
    graph = ("--method", "private-dfg", "--epsilon", "1", "--buy_vocabulary")
    return placed(tmp_path, log, *graph, "--runner", "InMemory", *account)


@pytest.mark.parametrize(
    ("flags", "code", "told"),
    [
        ([], 0, "released"),
        (["--epsilon", "-1"], 2, "epsilon"),
        (["--log", "nowhere.csv"], 3, "'nowhere.csv' is not there"),
        (["--case_id", "claim"], 3, "no column 'claim'"),
        (["--timestamp_format", "%d.%m.%Y"], 0, "is for the operator alone"),
        (["--timestamp_format", "%d.%m.%Y", "--max_error_ratio", "0.5"], 3, "max_error_ratio"),
        (["--epsilon", "2"], 4, "account"),
        (["--method", "tlkc", "--k", "1000", "--account", "b"], 5, "k"),
    ],
)
def test_what_a_command_line_leads_to(
    common: list[object],
    tmp_path: Path,
    flags: list[str],
    code: int,
    told: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if "tlkc" in flags:  # takes no epsilon, and its account no cap
        at = common.index("--epsilon")
        common = [*common[:at], *common[at + 3 : -4]]
        flags = [*flags[:-2], "--length", "1", "--confidence", "1"]
    if "--log" in flags:
        common, flags = with_flag(common, *flags), []
    assert tracecloak(*common, *flags) == code
    printed = capsys.readouterr()
    assert told in printed.out + printed.err


def test_an_error_of_nobody_says_its_class_and_never_its_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Catches the traceback of Python, which ends with 1 and quotes what the error quotes."""

    def failing(*_: object, **__: object) -> object:
        raise KeyError(SECRET)

    monkeypatch.setattr("tracecloak.pipelines.planning.plan.source_of", failing)
    arguments = ["plan", "--log", "x", "--output", "o", "--method", "private-dfg"]
    arguments.append("--buy_vocabulary")
    assert tracecloak(*arguments, "--epsilon", 1) == 6
    told = capsys.readouterr().err
    assert told.startswith("tracecloak: failed with KeyError; --traceback shows where")
    assert SECRET not in told
    assert tracecloak(*arguments, "--epsilon", 1, "--traceback") == 6
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("runner", ["InMemory", at_night("FnApiRunner")])
@pytest.mark.parametrize("flag", ["--output", "--dead_letter"])
def test_2_is_an_output_that_cannot_be_written_and_nothing_is_paid_for_it(
    common: list[object], tmp_path: Path, flag: str, runner: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    place = tmp_path / "file" / "out"
    assert tracecloak(*common, "--runner", runner, flag, place) == 2
    told = capsys.readouterr().err
    assert f"{flag[2:]} {str(place)!r} cannot be written: {tmp_path}/file is no folder" in told
    section = "[exit code 2: A key or a flag is wrong]"
    assert told.endswith(f"name another {section}\n")
    assert ledger_entries(tmp_path / "keys") == key_files(tmp_path / "keys") == []
    assert tracecloak(*common, "--runner", runner) == 0


@pytest.mark.parametrize("scheme", ["s3", "gs"])
@pytest.mark.parametrize("flag", ["--output", "--dead_letter", "--log", "--worker_keys"])
def test_2_is_a_file_system_whose_library_is_missing(
    common: list[object],
    tmp_path: Path,
    flag: str,
    scheme: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for module in ("google.cloud.storage", "boto3"):
        monkeypatch.setitem(sys.modules, module, None)
    assert tracecloak(*with_flag(common, flag, f"{scheme}://bucket/x")) == 2
    extra = {"s3": "aws", "gs": "gcp"}[scheme]
    told = capsys.readouterr().err
    assert f"{flag[2:]} '{scheme}://bucket/x' needs " in told
    assert f"pip install 'apache-beam[{extra}]<2" in told
    assert ledger_entries(tmp_path / "keys") == key_files(tmp_path / "keys") == []
