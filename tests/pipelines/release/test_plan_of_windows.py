"""What a plan says of windows: an example, how late figures come, and what all of them cost."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from tests.support.releasing import csv_log, small_rows
from tests.support.tiers import each_row
from tests.support.windows import MONTHS
from tracecloak.anonymizers.accounting.composition import Spend, decimal_text, total
from tracecloak.pipelines.configuration.plan import load
from tracecloak.pipelines.screen.release_text import plan_lines
from tracecloak.transforms.pages.page import from_template

SECTION: dict[str, Any] = {
    "origin": "2026-01-01", "period": "month", "time_zone": "Europe/Amsterdam",
    "max_lifetime": "90d", "gap": "30d", "end_activity": "D", "horizon": 24,
}  # fmt: skip
SPENDS = (Spend("all", "approximate", Fraction(1), Fraction(1, 10**6)),)


def plan(folder: Path, section: dict[str, Any]) -> str:
    """The plan of a release with that schedule, as one text."""
    csv_log(folder / "log.csv", list(small_rows()))
    body: dict[str, Any] = {
        "log": str(folder / "log.csv"), "output": str(folder / "out"), "method": "private-dfg",
        "params": {"epsilon": 1, "vocabulary": list("ABCD")}, "dataset": "visits",
        "release_id": "r", "schedule": section,
    }  # fmt: skip
    path = folder / "release.yaml"
    path.write_text(yaml.safe_dump(body))
    return "\n".join(plan_lines(load(str(path), {"expected_cases": 100})))


def test_it_shows_one_window_and_when_it_is_due(tmp_path: Path) -> None:
    text = plan(tmp_path, {**SECTION, "partition": "day", "partition_spread": "3d"})
    for said in (
        "24 of a month each, 2026-01 to 2027-12, of data set visits",
        "at its first D, or 30 days after its last event, or 90 days after its first event",
        "from 2026-01-01 00:00+01:00 until 2026-02-01 00:00+01:00.",
        "the events from 2025-07-05 01:00+02:00 until 2026-02-01 00:00+01:00",
        "due at 2026-02-02 00:00+01:00.",
        "whose day is within 3 days of that",
        "due at most 32 days 1 hour after it is over, and it is over at most 90 days (about 3",
        "all 24 windows together cost what the dearest one costs, epsilon 1, delta 0.000001, if",
    ):
        assert said in text, said
    assert "LATE" not in text


@each_row(
    ("changes", "said"),
    [
        ({"by": "first_event"}, "901 DAYS (ABOUT 2.5 YEARS) LATE: a window is due"),
        ({"by": "close"}, "901 DAYS (ABOUT 2.5 YEARS) LATE, OR LATER: neither"),
        ({"by": "first_event", "max_lifetime": "365d"}, "366 DAYS (ABOUT 1 YEAR) LATE"),
        ({"by": "first_event", "max_lifetime": "6h"}, "1 DAY 6 HOURS LATE"),
    ],
)
def test_it_says_plainly_that_figures_come_late(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    waiting = {k: v for k, v in SECTION.items() if k not in ("gap", "end_activity")}
    assert said in plan(tmp_path, {**waiting, "max_lifetime": "900d", **changes})


def told(cases: int | None, shares: bool, spends: tuple[Spend, ...] = SPENDS) -> str:
    release = SimpleNamespace(schedule=MONTHS, spends=spends, windows_add_up=not shares)
    params = SimpleNamespace(resolved=lambda: {"max_cases_per_individual": cases})
    given = {"release": release, "params": params, "total": total, "decimal": decimal_text}
    lines = from_template("tracecloak.pipelines.planning", "composition.txt.j2", **given)
    return " ".join(line.strip() for line in lines)


def test_windows_add_up_only_where_an_individual_pays_for_several() -> None:
    for cases, shares in ((None, False), (None, True), (1, False), (1, True), (3, True)):
        assert "cost what the dearest one costs, epsilon 1, delta 0.000001" in told(cases, shares)
    assert "So windows add up: all 24 of them cost epsilon 24, delta 0.000024." in told(3, False)
    assert "at most j/3 of what is charged" in told(3, True)
