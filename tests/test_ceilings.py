"""How large the product is, and how much of it one run has: under the ceilings of a table.

What a release does not use it does not load, so that who reads one way through the product reads
no other. `tests/ceilings.toml` has the numbers; `pytest -s tests/test_ceilings.py` prints those of
today. A run has one process, which nobody else imports anything into.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.reach import FLOORS, ROOT, RUNS, Reach, n_statements, reach_of

TABLE = tomllib.loads((ROOT / "tests" / "ceilings.toml").read_text())
# So far below its ceiling a number may lie before the ceiling follows it.
SLACK = 0.05


def beyond(found: Mapping[str, int], ceilings: Mapping[str, int], at: str) -> list[str]:
    """What lies above its ceiling, or so far below that the ceiling holds nothing."""
    told = []
    for name, ceiling in ceilings.items():
        number = found[name]
        if number > ceiling:
            told.append(f"{at}: {number:,} {name}, and {ceiling:,} are allowed; see ceilings.toml")
        elif number < (1 - SLACK) * ceiling:
            told.append(f"{at}: {number:,} {name} are far below {ceiling:,}; lower it to them")
    return told


def numbers(of: Mapping[str, int | str]) -> dict[str, int]:
    return {name: number for name, number in of.items() if isinstance(number, int)}


def statements() -> dict[str, int]:
    return {
        floor: sum(n_statements(path.read_text()) for path in (ROOT / floor).rglob("*.py"))
        for floor in FLOORS
    }


def told_by_room(found: Reach) -> str:
    rows = (f"{room:28}{n:7,}{entered:6,}" for room, (n, entered) in found.by_room().items())
    return "\n".join([f"{'room':28}{'lines':>7}{'functions':>11}", *rows])


def test_the_table_is_of_what_there_is() -> None:
    assert set(TABLE["statements"]) == {*FLOORS, "product"}
    assert set(TABLE["runs"]) == set(RUNS)
    for row in [TABLE["statements"], *TABLE["runs"].values()]:
        assert row.get("note") or row is TABLE["statements"]
        for beginning in row.get("without", ()):
            assert list(ROOT.glob(f"{beginning}*")), beginning


def test_the_product_is_no_larger_than_it_may_be() -> None:
    found = statements()
    # Nothing that runs needs what examines.
    found["product"] = sum(n for floor, n in found.items() if floor != "examination")
    print("\nlines of code:", found)  # noqa: T201
    assert not beyond(found, TABLE["statements"], "lines of code")


@pytest.mark.parametrize("run", RUNS)
def test_a_run_loads_and_enters_no_more_than_it_may(run: str, tmp_path: Path) -> None:
    found = reach_of(run, tmp_path)
    own = {"lines": found.n_lines, "functions": found.n_functions, "files": found.n_files}
    # Its own module counts one function at least, and none more than it has.
    assert run != "stream" or found.functions["pipelines/stream/local_run.py"] in range(1, 12)
    print(f"\n{run}: {own}\n{told_by_room(found)}")  # noqa: T201
    row = TABLE["runs"][run]
    told = beyond(own, numbers(row), run)
    unasked = sorted(path for path in found.lines if path.startswith(tuple(row["without"])))
    told += [f"{run} loads {path}, and uses nothing of it" for path in unasked]
    assert not told, "\n".join([*told, told_by_room(found)])


@pytest.mark.parametrize(
    ("number", "word"), [(1001, "are allowed"), (1000, ""), (950, ""), (949, "lower it")]
)
def test_a_number_off_its_ceiling_is_told(number: int, word: str) -> None:
    told = beyond({"lines": number}, {"lines": 1000}, "one run")
    assert len(told) == bool(word) and all(word in one for one in told)


def test_code_is_counted_without_what_is_said_of_it() -> None:
    source = (
        '"""What\nit is."""\n\n# Why.\nA = (\n    1,\n)\n"""Of A."""\n\n\n'
        'def f():\n    """F."""\n    return "a"  # b\n'
    )
    assert n_statements(source) == 5
    assert n_statements('B = """\nnot a\n\ndocstring\n"""\n') == 5
