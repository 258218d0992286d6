"""Every exit code of the reference, each by a command that ends with it."""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Callable, Iterator
from functools import partialmethod
from pathlib import Path

import pytest

from tests.support.releasing import (
    csv_log,
    key_files,
    ledger_entries,
    small_rows,
    tracecloak,
    with_flag,
)
from tests.support.tiers import at_night
from tracecloak.pipelines.ledger import database
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.transforms.publish import release_files
from tracecloak.transforms.publish.release_folder import ReleaseFolder

SECRET = "patient-4711"


@pytest.fixture
def common(tmp_path: Path) -> list[object]:
    log = csv_log(tmp_path / "log.csv", list(small_rows()))
    (tmp_path / "accounts.yaml").write_text("accounts: {a: {epsilon: 1, delta: 1e-5, unit: case}}")
    return [
        "release", "--log", log, "--output", tmp_path / "out", "--key_store", tmp_path / "keys",
        "--method", "private-dfg", "--epsilon", "1", "--buy_vocabulary",
        "--release_id", "r", "--runner", "InMemory",
        "--account", "a", "--accounts", tmp_path / "accounts.yaml",
    ]  # fmt: skip


def lock_of(tmp_path: Path) -> Iterator[Path]:
    return (tmp_path / "keys" / "releases").glob("*.lock")


def _raises(error: BaseException) -> Callable[..., object]:
    def failing(*_: object, **__: object) -> object:
        raise error

    return failing


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


@pytest.mark.parametrize(
    ("owner", "name", "code"),
    [
        (ReleaseFolder, "commit", 6),
        (release_files, "write_part", 6),
        (ReleaseFolder, "point_latest", 7),
    ],
)
def test_6_is_before_the_release_and_7_after_it(
    common: list[object],
    tmp_path: Path,
    owner: object,
    name: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if name == "write_part":
        owner, name = release_files, "write_products"  # this method releases no log
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, _raises(ValueError(SECRET)))
        assert tracecloak(*common) == code
    told = capsys.readouterr().err
    assert "ValueError" in told and SECRET not in told
    assert (tmp_path / "out" / "run_id=r").exists() is (code == 7)
    assert tracecloak(*common) == 0


def test_75_is_a_release_that_another_process_makes(
    common: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tracecloak(*common) == 0
    (lock,) = lock_of(tmp_path)
    with lock.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        assert tracecloak(*common) == 75
    assert "another process is making release_id 'r'" in capsys.readouterr().err
    assert tracecloak(*common) == 0


def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has ledgers that do not answer waited for as good as not at all."""
    hurried = partialmethod(Ledger.__init__, patience_seconds=0.05)
    monkeypatch.setattr(Ledger, "__init__", hurried)


def test_75_is_a_ledger_that_does_not_answer(
    common: list[object],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("psycopg")
    impatient(monkeypatch)
    url = "postgresql+psycopg://u@127.0.0.1:1/d"  # nothing listens there
    assert tracecloak(*common, "--ledger", url) == 75
    assert tracecloak("ledger", "show", "--ledger", url) == 75
    assert "does not answer" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_75_is_a_ledger_that_is_locked_and_2_one_that_is_none(
    common: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a scheduler that tries a wrong URL again and again."""
    monkeypatch.setattr(database, "_LOCK_SECONDS", 0.01)
    impatient(monkeypatch)
    path = tmp_path / "ledger.sqlite"
    other = Ledger(f"sqlite:///{path}", new=True)
    with other._database._transaction(writes=True):
        assert tracecloak(*common, "--ledger", f"sqlite:///{path}") == 75
    path.write_text("no database" * 99)
    assert tracecloak(*common, "--ledger", f"sqlite:///{path}") == 2
    assert tracecloak(*common, "--ledger", "nonsense") == 2


def test_an_error_of_nobody_says_its_class_and_never_its_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Catches the traceback of Python, which ends with 1 and quotes what the error quotes."""
    monkeypatch.setattr("tracecloak.pipelines.planning.plan.source_of", _raises(KeyError(SECRET)))
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
    common: list[object],
    tmp_path: Path,
    flag: str,
    runner: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Catches a budget that is taken, and cases that are read, for a release with no place."""
    (tmp_path / "file").write_text("in the way")
    place = tmp_path / "file" / "out"
    assert tracecloak(*common, "--runner", runner, flag, place) == 2
    told = capsys.readouterr().err
    assert f"{flag[2:]} {str(place)!r} cannot be written: {tmp_path}/file is no folder" in told
    section = "[exit code 2: A key or a flag is wrong]"
    assert told.endswith(f"name another folder with {flag} {section}\n")
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
