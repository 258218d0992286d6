"""What the whole log says of each indicator: by hand, and one case at a time in plain Python."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.indicator_logs import Case, Event, log_of
from tests.support.logs import MINUTE
from tests.support.releasing import fix_key, tracecloak
from tracecloak.anonymizers.indicators.declared import Indicator
from tracecloak.anonymizers.indicators.params import IndicatorParams
from tracecloak.examination.evaluation.indicators import (
    coverage_of,
    errors_of,
    figure_rows,
    furthest_line,
    judged,
    judged_rows,
    params_of,
    report_of,
    truths_of,
)
from tracecloak.schemas.errors import InputSchemaError, UsageError
from tracecloak.schemas.published.figures import IndicatorRow, ReleasedIndicators

HOUR = 60 * MINUTE
DAY = 24 * HOUR
NEW_YEAR = 1_704_067_200_000_000  # 2024-01-01 UTC, a Monday


@cache
def indicator(text: str) -> Indicator:
    params = IndicatorParams.model_validate(
        {"epsilon": "1", "delta": "0.000001", "indicators": [text], "service_times": True}
    )
    return params.indicators[0]


def truths(
    text: str, groups: Sequence[str | None], cases: Sequence[Case], zone: str = "UTC"
) -> list[float | None]:
    return truths_of(indicator(text), groups, log_of(cases), zone)


def case(
    text: str, start: int = NEW_YEAR, *, kind: str | None = None, amount: str | None = None
) -> Case:
    """`A0 B30` has A at the start and B after half an hour."""
    events = [Event(word[0], start + int(word[1:]) * MINUTE) for word in text.split()]
    return Case(tuple(events), kind, amount)


TINY = [
    case("A0 B30", kind="web", amount="10"),
    case("A0 B10 A20 B90", NEW_YEAR + 40 * DAY, kind="web", amount="1e3"),
    case("B0 A6000", NEW_YEAR + 40 * DAY, kind="shop", amount="ten"),
    case("C0", NEW_YEAR + 400 * DAY, amount="4"),
]


@pytest.mark.parametrize(
    ("text", "groups", "numbers"),
    [
        ("cases", [None], [4]),
        ("cases by=month", ["2024-01", "2024-02", "2024-03"], [1, 2, 0]),
        ("cases by=year", ["2024", "2025"], [3, 1]),
        ("cases by=case:kind groups=web|shop|fax", ["web", "shop", "fax"], [2, 1, 0]),
        ("cases where.occurs=A", [None], [3]),
        # 30, 90, 6000 and 0 minutes, of which one is beyond the bound of an hour.
        ("throughput at_most=1h", [None], [6120 * 60 / 4]),
        ("throughput of=0.25|0.75|0.9 at_most=1h", ["0.25", "0.75", "0.9"], [0, 5400, 360_000]),
        ("throughput of=histogram n_bins=2 at_most=1h",
         ["0 seconds to 30 minutes", "30 minutes to 1 hour"], [1, 3]),
        # The longest time was chosen on the log, and stands in the last bin.
        ("throughput of=histogram n_bins=2",
         ["0 seconds to 1 day 2 hours", "1 day 2 hours to 2 days 4 hours"], [3, 1]),
        ("throughput of=0.5|0.75 by=case:kind groups=web|shop at_most=1h",
         ["web, 0.5", "web, 0.75", "shop, 0.5", "shop, 0.75"], [1800, 5400, 360_000, 360_000]),
        ("within limit=30m", [None], [0.5]),
        ("rework", [None], [0.25]),
        ("rework by=activity groups=A|B|C", ["A", "B", "C"], [0.25, 0.25, 0]),
        ("frequency activity=A at_most=5", [None], [4]),
        ("frequency activity=B", [None], [3]),
        ("waiting activity=A then=B at_most=1m", [None], [(30 + 10) * 60 / 2]),
        ("waiting by=pair groups=A>B|B>A at_most=1d", ["A → B", "B → A"], [1200, 3005 * 60]),
        ("rule template=response activity=A then=B within=15m", [None], [0.25]),
        ("amount attribute=case:amount bounds=0|500", [None], [1014 / 3]),
        ("amount attribute=case:amount bounds=5|15 of=histogram n_bins=2",
         ["5 to 10", "10 to 15"], [1, 2]),
        ("throughput at_most=1h where.occurs=Z", [None], [None]),
        ("cases where.occurs=Z", [None], [0]),
    ],
)  # fmt: skip
def test_a_tiny_log_by_hand(
    text: str, groups: list[str | None], numbers: list[float | None]
) -> None:
    assert truths(text, groups, TINY) == pytest.approx(numbers)


def test_a_period_is_by_the_clock_of_its_place() -> None:
    late = [case("A0", NEW_YEAR - HOUR)]
    assert truths("cases by=year", ["2023", "2024"], late) == [1, 0]
    assert truths("cases by=year", ["2023", "2024"], late, "Europe/Berlin") == [0, 1]


def test_events_by_resource_are_the_first_ones_of_those_that_are_shown() -> None:
    who = ["R1", "R2", "R3", "R1", "R1"]
    events = [Event("A", NEW_YEAR + place, resource) for place, resource in enumerate(who)]
    cases = [Case(tuple(events)), Case((Event("B", NEW_YEAR, "R1"), Event("B", NEW_YEAR, None)))]
    text = "workload groups=R1|R3 at_most=2"
    assert truths(text, ["R1", "R3"], cases) == [2, 1]
    assert truths(f"{text} where.occurs=B", ["R1", "R3"], cases) == [1, 0]


def test_a_pair_whose_names_have_arrows_is_the_one_that_the_log_has() -> None:
    events = (Event("A → B", NEW_YEAR), Event("C", NEW_YEAR + MINUTE))
    for groups in ("", " groups='A → B>C'"):
        text = f"waiting by=pair at_most=1h{groups}"
        assert truths(text, ["A → B → C", "B → Z"], [Case(events)]) == [60, None]


BUDGET = {"epsilon": "1", "delta": "0.000001"}
NASTY = "a | b <script>alert(1)</script> `x` [y](z)\n# \u202e"


def row(name: str, value: float, low: float, high: float, group: str | None = None) -> IndicatorRow:
    return IndicatorRow(name, group, value, low, high, "cases", "measured")


JUDGED = [
    judged(row("exact", 10, 8, 12), 10.0),
    judged(row("above", 15, 13, 17), 10.0),
    judged(row("of none", 3, 0, 6), 0.0),
    judged(row("unsure", 30, 0, 90), 10.0),
    judged(row("no truth", 5, 4, 6), None),
]


def test_errors_and_intervals_by_hand() -> None:
    assert [one["error"] for one in JUDGED] == [0, 5, 3, 20, None]
    assert [one["relative_error"] for one in JUDGED] == [0, 0.5, None, 2, None]
    assert [one["is_covered"] for one in JUDGED] == [True, False, True, True, None]
    assert coverage_of(JUDGED) == 0.75
    assert errors_of(JUDGED, [one["value"] for one in JUDGED]) == {
        "indicator_error": 0.5, "usable_indicator_error": 0.25, "worst_indicator_error": 2,
    }  # fmt: skip
    assert errors_of(JUDGED, [10, 11, 12, None, 13])["worst_indicator_error"] == 0.1
    assert coverage_of(JUDGED[4:]) is None
    assert set(errors_of(JUDGED[4:], [1.0]).values()) == {None}


def test_the_last_digit_of_a_released_end_covers() -> None:
    """Released ends have nine digits: a truth at the end is in the interval."""
    third = judged(row("share", 0.333333333, 0.333333333, 0.333333333), 1 / 3)
    assert third["is_covered"]
    assert not judged(row("share", 0.3333, 0.3333, 0.3333), 1 / 3)["is_covered"]


def test_rows_are_judged_by_what_was_asked_for() -> None:
    params = IndicatorParams(**BUDGET, indicators=("cases", "frequency by=activity groups=A|B"))
    traces = log_of([Case((Event("A", 0), Event("B", 1))), Case((Event("A", 0),))])
    released = [
        row("cases", 3, 1, 5),
        row("cases with an activity by activity", 2, 0, 4, "A"),
        row("cases with an activity by activity", 2, 0, 4, "B"),
    ]
    rows, lines = report_of(params, ReleasedIndicators.of(released), traces, traces.take([0, 0]))
    assert [one["truth"] for one in rows] == [2, 2, 1]
    assert lines[0]["worst_indicator_error"] == 1 and lines[0]["indicator_coverage"] == 1
    assert lines[1]["worst_indicator_error"] == 1  # both cases of the bootstrap have B
    assert lines[2]["worst_indicator_error"] == 0
    with pytest.raises(InputSchemaError, match="an indicator that manifest"):
        judged_rows(params, ReleasedIndicators.of([row("other", 1, 0, 2)]), traces)


def test_what_cannot_be_judged_is_refused() -> None:
    with pytest.raises(InputSchemaError, match="are none of private-indicators"):
        params_of({"params": {"epsilon": "1", "indicators": ["no such"]}})
    params = IndicatorParams(**BUDGET, indicators=("working activity=A",), service_times=True)
    traces = log_of([Case((Event("A", 0),))])
    traces.attributes.pop("start_timestamp")
    with pytest.raises(UsageError, match="name their column with start_timestamp"):
        report_of(params, ReleasedIndicators.of([]), traces, traces)


def test_names_do_no_harm_in_the_report() -> None:
    rows = [judged(row(NASTY, 15, 13, 17, NASTY), 10.0)]
    [cells] = figure_rows(rows)
    line = " ".join(cells)
    assert "\\<script\\>" in line and "\\|" in line and "\n" not in line and "\u202e" not in line
    assert "15 cases where the log has 10." in next(furthest_line(rows))
    assert not list(furthest_line([judged(row("unsure", 30, 0, 90), 10.0)]))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRACECLOAK_KEY_STORE", str(tmp_path / "keys"))
    fix_key(monkeypatch)
    lines = [
        f"c{n},{name},2026-0{1 + n % 3}-{1 + n % 28:02d}T{8 + step:02d}:{n % 60:02d}:00Z,{kind}"
        for n, kind in zip(range(300), "xyz" * 100, strict=True)
        for step, name in enumerate("ABC" if n % 5 else "AC")
    ]
    head = "case:concept:name,concept:name,time:timestamp,Kind"
    (tmp_path / "log.csv").write_text("\n".join([head, *lines, ""]))
    assert tracecloak(
        "release", "--log", tmp_path / "log.csv", "--output", tmp_path / "out",
        "--release_id", "r", "--method", "private-indicators", "--epsilon", 4,
        "--runner", "InMemory",
        "--first_date", "2026-01-01", "--last_date", "2026-03-31",
        "--attribute_columns", '{"case:kind": "Kind"}', "--indicators",
        "cases,cases by=month,cases by=case:kind groups=x|y|z,within limit=90m,"
        "throughput at_most=1h,frequency activity=B",
    ) == 0  # fmt: skip
    return tmp_path


def evaluated(place: Path) -> dict[str, Any]:
    assert tracecloak(
        "evaluate", place / "out" / "run_id=r", "--log", place / "log.csv", "--output",
        place / "e.json",
    ) == 0  # fmt: skip
    found: dict[str, Any] = json.loads((place / "e.json").read_text())
    return found


def test_the_command_judges_every_row(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = evaluated(place)
    assert found["publishable"] is False and found["original"] == {"cases": 300, "events": 840}
    rows = found["indicators"]
    truth = {(one["indicator"], one["group"]): one["truth"] for one in rows}
    assert truth["cases", None] == 300
    assert [truth["cases by month", f"2026-0{month}"] for month in (1, 2, 3)] == [100, 100, 100]
    assert [truth["cases by case:kind", kind] for kind in "xyz"] == [100, 100, 100]
    assert truth["share within 1 hour 30 minutes", None] == pytest.approx(0.2)
    # Cases of three events take two hours, beyond the bound that the release has.
    [mean] = [one for one in rows if one["unit"] == "s"]
    assert mean["truth"] == pytest.approx((0.8 * 2 + 0.2) * 3600)
    assert mean["is_covered"] is False and mean["value"] == pytest.approx(3600, rel=0.05)
    assert found["indicator_coverage"] == sum(one["is_covered"] for one in rows) / len(rows)
    assert found["of_the_log"]["worst_indicator_error"] == 0
    assert found["bootstrap"]["indicator_error"] > 0
    printed = capsys.readouterr().out
    assert "coverage of figures" in printed and "for the operator only" in printed
    text = (place / "e.md").read_text()
    assert "INTERNAL" in text and "| cases by month | 2026-01 | 100 |" in text
