"""What `tracecloak doctor` shows: nothing of the data; and what it leaves: nothing."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.releasing import as_typed, csv_log, small_rows, tracecloak

NAMES = "\n".join("ABCD")


def _configured(folder: Path, n_cases: int, **others: Any) -> Path:
    folder.mkdir()
    csv_log(folder / "log.csv", list(small_rows(n_cases)))
    (folder / "names.txt").write_text(NAMES)
    body = {
        "log": "log.csv",
        "method": "private-dfg",
        "params": {"epsilon": 1, "vocabulary": "names.txt", "max_trace_length": 5},
        "output": "out",
        "key_store": "keys",
        "release_id": "visits",
        "new_ledger": True,
        **others,
    }
    (folder / "release.yaml").write_text(yaml.safe_dump(body))
    return folder / "release.yaml"


SCHEDULE = {
    "dataset": "visits", "origin": "2025-12-01", "period": "month", "time_zone": "UTC",
    "by": "close", "max_lifetime": "20d", "gap": "5d", "release_delay": "1d", "horizon": 4,
}  # fmt: skip


def _tree(folder: Path) -> dict[str, tuple[Any, ...]]:
    """What is in a folder: rights, times and content of each file and folder."""
    tree = {}
    for path in sorted(folder.rglob("*")):
        status = path.stat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        tree[str(path.relative_to(folder))] = (status.st_mode, status.st_mtime_ns, content)
    return tree


@pytest.mark.parametrize("others", [{}, {"schedule": SCHEDULE}], ids=["release", "schedule"])
@pytest.mark.parametrize("is_begun", [False, True])
def test_neighbouring_logs_give_the_same_lines_and_nothing_is_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    others: dict[str, Any],
    is_begun: bool,
) -> None:
    shown = []
    for number, n_cases in enumerate((12, 13)):
        path = _configured(tmp_path / str(number), n_cases, **others)
        monkeypatch.chdir(path.parent)
        if is_begun:
            window = ("--window", "2026-01") if others else ()
            assert tracecloak("release", path.name, *window) == 0
        capsys.readouterr()
        before = _tree(path.parent)
        code, table = as_typed("doctor", path.name), capsys.readouterr().out
        as_typed("doctor", path.name, "--json")
        as_json = capsys.readouterr().out
        assert _tree(path.parent) == before
        as_typed("doctor", path.name, "--probe")
        probed = capsys.readouterr().out
        files = {name: what for name, what in _tree(path.parent).items() if what[2]}
        assert files == {name: what for name, what in before.items() if what[2]}
        assert _tree(path.parent).keys() == before.keys()
        shown.append((code, table, json.loads(as_json), probed))
    assert shown[0] == shown[1]
    code, table, data, _ = shown[0]
    assert code == 0 and table.rstrip().splitlines()[-1].startswith("ready: ")
    assert data["verdict"] == "ready" and data["exit_code"] == 0
    assert {line["status"] for line in data["lines"]} <= {"ok", "warning"}


def test_it_asks_for_a_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert as_typed("doctor") == 2
    assert "name it first" in capsys.readouterr().err
