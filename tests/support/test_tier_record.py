"""The record of a tier's last run, and the table that the page on testing has of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from docs.hooks import tiers
from tests.support.reach import ROOT
from tests.support.tier_record import record
from tests.support.tiers import at_night

CONFTEST = """
from pathlib import Path
from tests.support import tier_record

HERE = Path(__file__).parent

def pytest_configure(config):
    code = (HERE / "code").read_text()
    tier_record.configure(config, "engines", code, HERE / "build", HERE / "tiers.json")
"""
TESTS = """
import os
import signal
import time
from pathlib import Path
import pytest

HERE = Path(__file__).parent

def ran(name):
    with open(HERE / "ran", "a") as file:
        file.write(name)

@pytest.fixture
def lent():
    yield
    assert (HERE / "mended").exists()

def test_a():
    ran("a")

def test_b():
    ran("b")
    pytest.skip()

def test_c(lent):
    ran("c")

def test_d():
    ran("d")
    if (HERE / "stays").exists():
        return
    while "test_a" not in (HERE / "build" / "tier-engines.jsonl").read_text():
        time.sleep(0.01)
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    os.kill(os.getppid() if is_worker else os.getpid(), signal.SIGKILL)

def test_e():
    ran("e")
"""


def test_the_last_run_of_each_tier_is_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tiers.json"
    record("slow", ["passed", "failed"], 100, file)
    record("engines", ["passed", "skipped", "passed", "passed"], 1800, file)
    record("slow", ["passed", "failed", "failed", "passed"], 7200, file)
    assert list(json.loads(file.read_text())) == ["engines", "slow"]
    monkeypatch.setattr(tiers, "FILE", file)
    text = tiers.with_table("Before.\n\n<!-- last runs of tiers.json -->\n\nAfter.")
    rows = [row.split(" | ") for row in text.splitlines() if row.startswith("| `")]
    assert [(row[0], *row[2:6]) for row in rows] == [
        ("| `make test-engines`", "3", "0", "1", "30"),
        ("| `make test-slow`", "2", "2", "0", "120"),
    ]
    assert "Flink" in rows[0][6] and "Flink" not in rows[1][6] and "Python" in rows[1][6]
    assert tiers.with_table("no table") == "no table"


@pytest.mark.parametrize("n_workers", [at_night(0), 2])
def test_a_tier_that_is_cut_off_goes_on_where_it_was(tmp_path: Path, n_workers: int) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "test_some.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (tmp_path / "code").write_text("one", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", str(n_workers)]
    result = tmp_path / "tiers.json"

    def sitting() -> tuple[str, list[int]]:
        """The tests that ran, in order of their names, and the counts of the record."""
        (tmp_path / "ran").unlink(missing_ok=True)
        # A worker that runs this test has that in its environment; what runs there is no worker.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        environment["PYTHONPATH"] = str(ROOT)
        subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
        last = json.loads(result.read_text())["engines"] if result.exists() else {}
        counts = [last[name] for name in ("passed", "failed", "skipped")] if last else []
        return "".join(sorted((tmp_path / "ran").read_text())), counts

    seen, counts = sitting()
    assert "d" in seen and not counts
    (tmp_path / "stays").touch()
    seen_next, counts = sitting()
    assert "a" in seen and "a" not in seen_next
    assert set(seen_next) >= set("bcd") and counts == [3, 1, 1]
    # The test that failed runs again, though under another name, and the one that was skipped.
    (tmp_path / "test_some.py").write_text(TESTS.replace("test_c", "test_of_c"), encoding="utf-8")
    (tmp_path / "mended").touch()
    assert sitting() == ("bc", [4, 0, 1])
    assert not list((tmp_path / "build").iterdir())
    (tmp_path / "mended").unlink()
    assert sitting() == ("abcde", [3, 1, 1])
    (tmp_path / "code").write_text("another", encoding="utf-8")
    assert sitting() == ("abcde", [3, 1, 1])
