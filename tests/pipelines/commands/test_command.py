"""The command as its users see it: what it writes, prints, refuses, and how it ends."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.releasing import csv_log, digests, manifest, released, small_rows, tracecloak
from tracecloak.anonymizers.registry import METHODS


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return csv_log(tmp_path / "log.csv", list(small_rows()))


@pytest.fixture
def common(tmp_path: Path, log: Path) -> list[object]:
    """A release of the small log, without its id; in memory, as most tests are not about Beam."""
    return [
        "release", "--log", log, "--output", tmp_path / "out", "--key_store", tmp_path / "keys",
        "--method", "amun", "--guessing_advantage", "0.2", "--runner", "InMemory",
    ]  # fmt: skip


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def files(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def test_a_release_has_the_promised_files_and_nothing_else(
    common: list[object], out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tracecloak(*common, "--mode", "sampling", "--release_id", "r1", "--parts", 2) == 0
    assert files(out) == {
        "latest.json",
        *(f"run_id=r1/{name}" for name in ("dfg.json", "log.xes.gz")),
        *(f"run_id=r1/{name}" for name in ("manifest.json", "statement.md", "report.html")),
        *(f"run_id=r1/log/part-0000{i}.parquet" for i in (0, 1)),
    }
    assert json.loads((out / "latest.json").read_text()) == {"run_id": "r1", "path": "run_id=r1"}
    printed = capsys.readouterr().out
    assert f"released    {out / 'run_id=r1'}\n" in printed
    assert f"open first  {out / 'run_id=r1' / 'report.html'}\n" in printed


def test_without_an_id_the_same_run_finds_its_release(
    common: list[object], out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tracecloak(*common) == 0
    (release,) = out.glob("run_id=*")
    assert tracecloak(*common) == 0
    assert "already released" in capsys.readouterr().out
    assert tracecloak(*common, "--guessing_advantage", "0.3") == 0
    assert len(list(out.glob("run_id=*"))) == 2
    assert release.exists()


def test_a_yaml_file_says_the_same_as_the_flags(
    common: list[object], log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.support.releasing import fix_key

    fix_key(monkeypatch)
    tracecloak(*common, "--release_id", "r1", "--where", "activity = A, B, D")
    config = tmp_path / "release.yaml"
    config.write_text(
        f"log: {log}\noutput: {tmp_path / 'out2'}\nkey_store: {tmp_path / 'keys2'}\n"
        "method: amun\nparams: {guessing_advantage: 0.2}\nrunner: InMemory\nrelease_id: r1\n"
        "where: [{column: activity, equals: [A, B, D]}]\n"
    )
    assert tracecloak("release", config) == 0
    assert digests(tmp_path / "out" / "run_id=r1") == digests(tmp_path / "out2" / "run_id=r1")
    assert tracecloak("release", config, "--guessing_advantage", "0.3") == 2  # a flag wins


def test_the_plan_tells_all_and_writes_nothing(
    common: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(tmp_path)
    assert tracecloak("plan", *common[1:], "--full") == 0
    printed = capsys.readouterr().out
    assert files(tmp_path) == before
    for told in (
        "log.csv",
        "case_id, activity, timestamp",
        "0.8109",
        "No finite epsilon",
        "Costs\n  Cases: on average at most 0.6 are copied",
        "  Times: the noise of a step has a mean size of at most 1.43 times the range",
        "log/part-00000",
    ):
        assert told in printed
    assert "case-1" not in printed


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["relese"], "unknown command 'relese'; did you mean release?"),
        (["nothing"], "unknown command 'nothing'; tracecloak --help lists all"),
        (["release"], "method: required"),
        (["release", "--method", "amun"], "output: required"),
        (["release", "--method", "amun", "--output", "o"], "log is missing"),
        (
            ["release", "--method", "nope"],
            f"method must be one of {', '.join(sorted(METHODS))}, got 'nope'",
        ),
        (["release", "--guesing_advantage", "1"], "unknown flag --guesing_advantage"),
        (["release", "missing.yaml"], "cannot be read"),
        (["sample", "--cases", "3", "--output", "x.txt"], "format"),
        (["sample", "--cases", "3", "--patients", "0", "--output", "x.csv"], "patients must be"),
        (["sample", "--cases", "3", "--patients", "2", "--output", "x.jsonl"], "a file of csv"),
        (["evaluate", "--log", "x"], "required: RELEASE"),
        (["key", "make", "--output", "pyproject.toml"], "never overwritten"),
    ],
)  # fmt: skip
def test_usage_errors_say_the_mend_and_exit_with_2(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tracecloak(*arguments) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--guessing_advantage", "1"], "guessing_advantage: must be below 1, got '1'"),
        (["--mode", "both"], "mode: "),
        (["--release_id", "../up"], "release_id must consist of"),
        (["--shards", "0"], "shards: "),
        (["--time_zone", "Mars/Olympus"], "is no time zone such as"),
        (["--where", "activity"], "where must be"),
        (["--formats", "pdf"], "formats.0: "),
        (["--direct_running_mode=multi_threading", "--runner", "FnApiRunner"], "loses data"),
        (["--streaming"], "takes no flags of Beam"),
    ],
)  # fmt: skip
def test_wrong_values_are_named_before_anything_runs(
    common: list[object], out: Path, flags: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tracecloak(*common, *flags) == 2
    assert told in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("command", [["release"], ["plan"], ["attack", "config"]])
def test_a_parameter_that_the_method_lacks_is_told_with_those_that_it_has(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Catches the nearest flag of Beam, such as --region for --epsilon."""
    (tmp_path / "c.yaml").write_text("log: x\noutput: y\nmethod: amun\n")
    flags = ["--log", "x", "--output", "y"]
    lacks = "method amun has no parameter --epsilon; its parameters are --guessing_adv"
    for given, more, told in (
        ([tmp_path / "c.yaml"], ["--epsilon", "1"], lacks),
        ([*flags, "--method", "amun"], ["--epsilon=1"], lacks),
        (flags, ["--epsilon", "1"], "unknown flag --epsilon; a flag of a method's needs --method"),
        ([tmp_path / "c.yaml"], ["--epsilom", "1"], "unknown flag --epsilom"),
    ):
        report = ["--report", "r.json"] if command[0] == "attack" else []
        assert tracecloak(*command, *given, *report, *more) == 2
        shown = capsys.readouterr().err
        assert told in shown and "region" not in shown


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        (["release", "--log=a.csv", "--log", "b.csv"], "--log"),
        (["stream", "--end_activity", "A", "--end_activity=B"], "--end_activity"),
        (["evaluate", "folder", "--log=a.csv", "--log=b.csv"], "--log"),
        (["release", "--method=private-log", "--holidays=2026-12-25", "--holidays="], "--holidays"),
    ],
)
def test_a_list_that_is_given_twice_is_refused_as_one_would_be_lost(
    arguments: list[str], flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tracecloak(*arguments) == 2
    assert f"{flag} is given twice: give it once, separated by" in capsys.readouterr().err


def test_unknown_and_repeated_keys_of_the_configuration_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "c.yaml"
    for more, told in (
        ("params: {gessing: 1}\nshard: 3\n", "shard: unknown key; did you mean shards?"),
        ("params: {gessing: 1}\n", "gessing: unknown key; amun has guessing_advantage, mode, "),
        ("method: amun\n", "given twice: method"),
    ):
        config.write_text(f"log: x\nmethod: amun\noutput: y\n{more}")
        assert tracecloak("release", config) == 2
        assert told in capsys.readouterr().err


def test_a_failure_inside_the_pipeline_ends_with_6_and_quotes_no_data(
    common: list[object],
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("patient case-7 is odd")

    monkeypatch.setattr("tracecloak.anonymizers.amun.method.Amun.apply", fail)
    for runner in ("InMemory", "FnApiRunner"):
        assert tracecloak(*common, "--release_id", "r1", "--runner", runner) == 6
        error = capsys.readouterr().err
        assert "ValueError" in error
        assert "case-7" not in error
        assert files(out) == set()


def test_the_folder_of_a_report_is_made_or_refused_before_the_work(
    tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--log", log, "--methods", "privtree", "--epsilons", "1", "--repetitions", "1"]
    assert tracecloak("compare", *flags, "--output", tmp_path / "new" / "page.html") == 0
    assert (tmp_path / "new" / "page.html").read_text().startswith("<!doctype html>")
    (tmp_path / "file").write_text("")
    wrong = tmp_path / "file" / "page.html"
    for command in (
        ["compare", *flags, "--output", wrong],
        ["evaluate", "--log", log, tmp_path, "--output", wrong],
        ["attack", "config", "--log", log, "--method", "variant-histogram", "--epsilon", "1",
         "--report", wrong],
    ):  # fmt: skip
        assert tracecloak(*command) == 2
        assert "cannot be written" in capsys.readouterr().err


def test_a_new_key_is_64_hex_digits_for_its_owner_only(tmp_path: Path) -> None:
    from tracecloak.transforms.keys.wrapping import KeyReference

    path = tmp_path / "k" / "release.key"
    assert tracecloak("key", "make", "--output", path) == 0
    assert path.stat().st_mode & 0o077 == 0
    assert KeyReference(f"file:{path}").resolve().hex() == path.read_text()
    assert tracecloak("key", "make", "--output", path) == 2


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "tracecloak", "catalogue"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=60)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_published_digest_tells_no_filters_value(tmp_path: Path, out: Path) -> None:
    log = csv_log(tmp_path / "log.csv", [(f"c{i}", "AB"[i % 2], "2026-01-01") for i in range(9)])
    said = []
    for number, where in enumerate(([], ["--where", "activity = A"], ["--where", "activity = B"])):
        own = f"r{number}"
        released(tmp_path, log, "--method", "amun", "--release_id", own, *where)
        said.append(manifest(out / f"run_id={own}"))
    assert len({body["config_digest"] for body in said}) == 1
