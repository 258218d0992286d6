"""Mutants differ from their source in one place, and are what runs."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.changes import chosen, mutants_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("x = a < b", ["a <= b"]),
        ("x = a == b", ["a != b"]),
        ("x = 7", ["8", "6"]),
        ("x = a + b", ["a - b"]),
        ("x = a and b", ["a or b"]),
        ("x = math.ceil(a)", ["a"]),
        ("f(a)", ["pass"]),
        ("if a:\n    b", ["if not a:"]),
        ("x = a if b else c", ["c if b else a"]),
        ("x = -a", ["a"]),
        ("x: int = a", []),
        ("x = True", []),
        ("raise ValueError(a + 1)", []),
        ('"""a < b"""\nx = f"{a + b}"', []),
        ("def f(a: int = 3) -> int: ...", []),
    ],
)
def test_each_slip_is_made(source: str, changes: list[str]) -> None:
    assert [mutant.what.split(" -> ")[1] for mutant in mutants_of("a.py", source)] == changes


def test_a_mutant_is_the_source_with_one_change() -> None:
    source = "def f(a):\n    return a * 2 < 3\n\ndef g(a):\n    return a - 1\n"
    found = list(mutants_of("a.py", source))
    whole = ast.unparse(ast.parse(source)).splitlines()
    assert len({mutant.source for mutant in found}) == len(found) == 9
    for mutant in found:
        pairs = zip(whole, mutant.source.splitlines(), strict=True)
        assert sum(a != b for a, b in pairs) == 1
    assert {mutant.line for mutant in mutants_of("a.py", source, "g")} == {5}


def test_the_choice_follows_from_the_seed() -> None:
    sources = [("anonymizers/noise/published.py", ""), ("anonymizers/noise/sums.py", "")]
    first, again, other = (chosen(ROOT, sources, 8, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert sum(mutant.path.endswith("sums.py") for mutant in first) == 4


@pytest.mark.slow
def test_the_tool_kills_some(tmp_path: Path) -> None:
    """Three mutants against one module of tests: the whole way, from the change to the report."""
    report = tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants.run", "--n", "3", "--jobs", "1", "--report", report,
         "--within", "anonymizers/noise/randomness.py",
         "tests/anonymizers/noise/test_randomness.py"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text())
    assert found["killed"] + found["survived"] == len(found["mutants"]) == 3
    assert found["killed"] > 0
