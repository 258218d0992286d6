"""What commands show when they are done: tables, JSON with the keys that it has, or nothing."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.releasing import as_typed, csv_log, small_rows, tracecloak
from tests.support.terminal import shown_on_a_terminal, watch
from tracecloak.pipelines.ledger import caps
from tracecloak.pipelines.screen.results import Result, duration, show


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    csv_log(tmp_path / "log.csv", [*small_rows(), ("c99", "A", "no stamp")])
    monkeypatch.setenv("TRACECLOAK_KEY_STORE", str(tmp_path / "keys"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


RELEASE = [
    "release", "--log", "log.csv", "--output", "out", "--release_id", "r1", "--runner",
    "InMemory", "--method", "laplace-dfg", "--epsilon", "1", "--max_error_ratio", "1",
]  # fmt: skip


def test_durations_have_units() -> None:
    assert list(map(duration, (0.04, 9.94, 9.96, 61, 3600, 3661))) == [
        *("0.0 seconds", "9.9 seconds", "10 seconds", "1 minute 1 second"),
        *("1 hour", "1 hour 1 minute"),
    ]


def test_a_release_says_what_it_promises_costs_leaves_and_where_to_look(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    first_account: Callable[..., Any],
) -> None:
    monkeypatch.setattr(caps, "first_account", first_account)
    watch(monkeypatch)
    line = [*RELEASE, "--method", "private-dfg", "--buy_vocabulary", "--delta", "1e-6"]
    assert tracecloak(*line) == 0
    out = folder / "out" / "run_id=r1"
    printed = capsys.readouterr().out.splitlines()
    rows = {line[:12].strip(): line[12:] for line in printed}
    assert rows["released"] == str(out)
    assert rows["promise"] == (
        "Differential privacy: epsilon 1 and delta 0.000001 hold for any one case."
    )
    assert rows["cost"] == "epsilon 1 and delta 0.000001 of account default"
    assert rows["remains"] == "epsilon 3 and delta 0.000009 in account default"
    assert rows["records"].startswith("38 of 39 records are used (97.4 %); lost: 1 malformed; ")
    assert rows["open first"] == f"{out}/report.html"
    assert rows["took"].endswith("seconds")
    cap = ["--epsilon", "3", "--delta", "1e-5", "--unit", "case", "--by", "me", "--reason", "why"]
    composed = ("--composition", "gaussian")
    assert tracecloak("ledger", "declare", "default", *cap, *composed) == 0
    capsys.readouterr()
    assert tracecloak(*line) == 0
    printed = capsys.readouterr().out.splitlines()
    rows = {line[:18].strip(): line[18:] for line in printed}
    assert rows["already released"] == str(out)
    assert rows["cost"] == "nothing, as it was released before"
    assert rows["remains"].startswith("room for 5 more like this one: 83.5% of squared mu of G")


def test_quiet_shows_nothing_and_errors_all_the_same(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert tracecloak(*RELEASE, "--quiet") == 0
    told = capfd.readouterr()
    assert told.out + told.err == ""
    assert tracecloak(*RELEASE, "--quiet", "--epsilon", "2") == 2
    assert "the configuration changed" in capfd.readouterr().err


# What the JSON of a command has: keys are added, and never removed or renamed.
KEYS: Mapping[str, tuple[list[str], set[str]]] = {
    "sample": (["--cases", "20", "--output", "s.csv"], {"sample", "cases", "vocabulary"}),
    "vocabulary": (
        ["--log", "log.csv"],
        {
            "names", "names_left_out", "names_like_formulas", "records", "records_left_out",
            "reasons",
        },
    ),
    "plan": ([*RELEASE[1:]], {"plan", "verdicts", "is_refused", "least"}),
    "release": (
        [*RELEASE[1:]],
        {
            "status", "release_id", "folder", "manifest", "open_first", "method", "guarantee",
            "came_out", "usability", "operator_folder", "account", "charged", "remaining",
            "names_like_formulas", "elapsed_s",
        },
    ),
    "evaluate": (
        ["--log", "log.csv", "out", "--output", "e.json"],
        {"report", "text", "numbers", "manifest_sha256"},
    ),
    "attack linkage": (
        ["log.csv", "--log", "log.csv", "--report", "l.json"],
        {"report"},
    ),
    "ledger show": ([], {"accounts", "datasets", "entries", "forgotten"}),
    "ledger verify": ([], {"is_sound", "said"}),
    "ledger begin": ([], {"ledger", "entries"}),
    "ledger migrate": ([], {"done"}),
    "ledger list-unfinished": ([], {"said"}),
    "ledger list-cases": ([], {"said"}),
    "ledger erase": (["--by", "me", "--reason", "why"], {"releases"}),
    "ledger withdraw": (
        ["--output", "out", "--release_id", "r1", "--by", "me", "--reason", "why"],
        {"folder", "key_destroyed", "key_stores_elsewhere"},
    ),
    "key make": (["--output", "release.key"], {"key"}),
    "catalogue": (["tlkc"], {"name", "summary", "guarantee", "statement", "example", "params"}),
}  # fmt: skip


def test_json_has_its_keys_and_nothing_else_is_on_standard_output(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The commands in an order in which each finds what it needs."""
    for command, (flags, keys) in KEYS.items():
        assert tracecloak(*command.split(), *flags, "--json") == 0, command
        found = json.loads(capfd.readouterr().out)
        assert set(found) == keys, command
        if command == "release":
            check_release(found, folder)


def check_release(found: dict[str, Any], folder: Path) -> None:
    assert found["status"] == "released"
    assert found["folder"] == str(folder / "out" / "run_id=r1")
    assert set(found["guarantee"]) == {
        "kind", "unit", "adjacency", "epsilon", "delta", "sentence",
    }  # fmt: skip
    assert set(found["charged"]) == {"epsilon", "delta"}
    assert set(found["remaining"]) == {"epsilon", "delta", "shares"}
    # How many records were read or left out is the operator's alone.
    told = {key: found[key] for key in found if key not in ("elapsed_s", "operator_folder")}
    assert "39" not in json.dumps(told).replace(str(folder), "")


_SHOW = """
from tracecloak.pipelines.screen.results import showing_progress
from tracecloak.pipelines.screen.results import Result, show
show(Result([("label", "text [red]of[/red] /a/path"), ("longer label", "x")], {}), "table")
"""


def test_elsewhere_columns_are_aligned_and_rich_is_not_loaded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(Result([("a", "one"), ("longer", "two")], {}, ["above"], ["below"]), "table")
    assert capsys.readouterr().out == "above\na       one\nlonger  two\nbelow\n"
    code = f"import sys\n{_SHOW}\nassert 'rich' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_every_key_of_the_json_is_documented() -> None:
    page = Path(__file__).parents[3] / "docs" / "how-to" / "command-line.md"
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line[:3] == "| `"]
    for command, (_, keys) in KEYS.items():
        [row] = [line for line in rows if f"`{command}`" in line.split("|")[1]]
        assert keys <= set(re.findall(r"`(\w+)`", row.partition("|")[2].partition("|")[2])), command


# --- characters that steer a terminal ---------------------------------------------------------


HARMFUL = "a\x1b[2J\u202eb\x9b\udc80c"
SHOWN = "a\\x1b[2J\\u202eb\\x9b\\udc80c"


def test_no_part_of_a_result_steers_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show(Result([(HARMFUL, f"{HARMFUL}\n")], {}, [HARMFUL], [f"{HARMFUL}\n"]), "table")
    assert capsys.readouterr().out == (f"{SHOWN}\n{SHOWN}  {SHOWN}\\x0a\n{SHOWN}\\x0a\n")


def test_a_result_as_json_steers_none_and_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    show(Result((), {HARMFUL: [HARMFUL, "\n\U000e0001"]}), "json")
    printed = capsys.readouterr().out
    assert printed.replace("\n", "").isprintable()
    assert json.loads(printed) == {HARMFUL: [HARMFUL, "\n\U000e0001"]}


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_nothing_steers_a_terminal_that_somebody_watches(stream: Any) -> None:
    code = {
        "stdout": f"show(Result([('label', {HARMFUL!r})]), 'table')",
        "stderr": "with showing_progress():\n"
        f"    logging.getLogger('tracecloak').warning({HARMFUL!r})\n"
        f"    logging.getLogger('tracecloak').info({HARMFUL!r}, extra={{'stage': 'x'}})\n"
        f"tell({HARMFUL!r})",
    }[stream]
    given = (
        "import logging\n"
        "from tracecloak.pipelines.screen.results import Result, show, tell\n"
        "from tracecloak.pipelines.screen.results import showing_progress\n"
    )
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "200"}
    shown = shown_on_a_terminal(given + code, stream, environment)
    assert SHOWN in shown
    assert "\x1b[2J" not in shown and not {"\u202e", "\x9b"} & set(shown)


def test_a_second_command_in_a_process_logs_each_record_once() -> None:
    found = []
    for _ in range(3):
        assert as_typed("no-such-command") == 2
        found.append(len(logging.getLogger().handlers))
    assert found[0] == found[1] == found[2] > 0
