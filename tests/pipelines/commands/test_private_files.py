"""What is for the operator only is a file that nobody else reads, whatever the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.releasing import csv_log, small_rows, tracecloak
from tests.support.tiers import at_night


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    csv_log(tmp_path / "log.csv", [*small_rows(), ("c99", "A", "no stamp")])
    (tmp_path / "names.txt").write_text("A\nB\n")
    monkeypatch.setenv("TRACECLOAK_KEY_STORE", str(tmp_path / "keys"))
    monkeypatch.chdir(tmp_path)
    before = os.umask(0)
    yield tmp_path
    os.umask(before)


RELEASE = [
    "release", "--log", "log.csv", "--output", "out", "--release_id", "r", "--runner", "InMemory",
    "--method", "laplace-dfg", "--epsilon", "1", "--max_error_ratio", "1", "--new_ledger",
]  # fmt: skip


def open_to_others(folder: Path) -> list[str]:
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if stat.S_IMODE(path.stat().st_mode) & 0o077
    )


def test_a_release_leaves_its_output_alone_to_others_and_a_report_nothing(folder: Path) -> None:
    before = open_to_others(folder)
    assert tracecloak(*RELEASE) == 0
    assert (folder / "keys" / "operator").is_dir()
    made = [name for name in open_to_others(folder) if name not in before]
    assert made and all(name == "out" or name.startswith("out/") for name in made)
    # Also where the key store knows nothing of the release.
    assert tracecloak("report", "--log", "log.csv", "out", "--key_store", "others") == 0
    assert list((folder / "others" / "operator").glob("*/report.html"))
    assert not [name for name in open_to_others(folder) if name.startswith("others")]


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        (["vocabulary", "--log", "log.csv", "--output", "v/x.txt"], {"v/x.txt"}),
        (
            ["evaluate", "--log", "log.csv", "out", "--output", "e.json"],
            {"e.json", "e.md", "e.html"},
        ),
        (["report", "--log", "log.csv", "out", "--output", "page.html"], {"page.html"}),
        at_night(
            ["attack", "config", "--log", "log.csv", "--method", "private-dfg", "--epsilon", "1",
             "--vocabulary", "names.txt", "--releases", "20", "--report", "a.json"],
            {"a.json", "a.md", "a.html"},
        ),
        (
            ["compare", "--log", "log.csv", "--output", "c.html", "--methods", "private-dfg",
             "--epsilons", "1", "--repetitions", "1"],
            {"c.html", "c.json", "c.jsonl"},
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)  # fmt: skip
def test_what_is_computed_on_a_log_is_for_the_owner_only(
    folder: Path, arguments: list[str], files: set[str]
) -> None:
    assert tracecloak(*RELEASE) == 0
    for name in files:  # one that was there may have been open to others
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("")
    before = open_to_others(folder)
    assert files <= set(before)
    assert tracecloak(*arguments) == 0
    assert all((folder / name).stat().st_size for name in files)
    assert not files & set(open_to_others(folder))
