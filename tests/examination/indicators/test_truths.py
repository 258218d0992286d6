"""What the whole log says of each indicator: by hand, and one case at a time in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache

import pytest
from hypothesis import given, settings

from tests.support.indicator_logs import (
    AMOUNT,
    KIND,
    RESOURCE,
    Case,
    Event,
    case_lists,
    log_of,
)
from tests.support.logs import MINUTE
from tracecloak.anonymizers.indicators.declared import Indicator
from tracecloak.anonymizers.indicators.params import IndicatorParams
from tracecloak.examination.evaluation.indicators import OriginalLog, truths_of
from tracecloak.schemas.events.events import OTHER

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
    text: str,
    groups: Sequence[str | None],
    cases: Sequence[Case],
    zone: str = "UTC",
) -> list[float | None]:
    return truths_of(indicator(text), groups, OriginalLog(log_of(cases), zone))


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
        ("cases by=quarter", ["2024-Q1", "2025-Q1"], [3, 1]),
        ("cases by=year", ["2024", "2025"], [3, 1]),
        ("cases by=case:kind groups=web|shop|fax", ["web", "shop", "fax"], [2, 1, 0]),
        ("cases where.occurs=A", [None], [3]),
        ("cases where.attribute=case:kind where.equals=web", [None], [2]),
        # 30, 90, 6000 and 0 minutes, of which one is beyond the bound of an hour.
        ("throughput at_most=1h", [None], [6120 * 60 / 4]),
        ("throughput of=sum at_most=1h", [None], [6120 * 60]),
        ("throughput of=median at_most=1h", [None], [30 * 60]),
        ("throughput of=0.25|0.75|0.9 at_most=1h", ["0.25", "0.75", "0.9"], [0, 5400, 360_000]),
        (
            "throughput of=histogram n_bins=2 at_most=1h",
            ["0 seconds to 30 minutes", "30 minutes to 1 hour"],
            [1, 3],
        ),
        # The longest time was chosen on the log, and stands in the last bin.
        (
            "throughput of=histogram n_bins=2",
            ["0 seconds to 1 day 2 hours", "1 day 2 hours to 2 days 4 hours"],
            [3, 1],
        ),
        (
            "throughput of=0.5|0.75 by=case:kind groups=web|shop at_most=1h",
            ["web, 0.5", "web, 0.75", "shop, 0.5", "shop, 0.75"],
            [1800, 5400, 360_000, 360_000],
        ),
        ("within limit=30m", [None], [0.5]),
        ("rework", [None], [0.25]),
        ("rework activity=C", [None], [0]),
        ("rework by=activity groups=A|B|C", ["A", "B", "C"], [0.25, 0.25, 0]),
        ("frequency activity=A", [None], [3]),
        ("frequency activity=A at_most=5", [None], [4]),
        ("frequency by=activity groups=A|C", ["A", "C"], [3, 1]),
        ("waiting activity=A then=B at_most=1m", [None], [(30 + 10) * 60 / 2]),
        ("waiting by=pair groups=A>B|B>A at_most=1d", ["A → B", "B → A"], [1200, 3005 * 60]),
        ("waiting activity=A then=C at_most=1m", [None], [None]),
        ("rule template=response activity=A then=B", [None], [0.75]),
        ("rule template=response activity=A then=B within=15m", [None], [0.25]),
        ("amount attribute=case:amount bounds=0|500", [None], [1014 / 3]),
        ("amount attribute=case:amount bounds=0|500 of=sum", [None], [1014]),
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


NAMES = ["A", "B", "C"]
Numbers = Callable[[Case], float | None]


def mean(numbers: Iterable[float]) -> float | None:
    listed = list(numbers)
    return math.fsum(listed) / len(listed) if listed else None


def seconds(micros: int | None) -> float | None:
    return None if micros is None else micros / 1e6


# Each a text, its group, and the number of a case in plain Python; None counts for nothing.
OF_A_CASE: list[tuple[str, str | None, Numbers]] = [
    ("throughput at_most=1h", None, lambda c: seconds(c.throughput_us)),
    ("within limit=2h", None, lambda c: float(c.throughput_us <= 2 * HOUR)),
    ("rework by=activity groups=A|B", "B", lambda c: float(c.names.count("B") > 1)),
    ("waiting activity=A then=B at_most=1h", None, lambda c: seconds(c.wait_us("A", "B"))),
    ("waiting activity=A then=A at_most=1h", None, lambda c: seconds(c.wait_us("A", "A"))),
    ("working activity=C at_most=1h", None, lambda c: seconds(c.work_us("C"))),
    (f"amount attribute={AMOUNT} bounds=0|100", None, lambda c: c.number),
    (
        f"throughput at_most=1h by={KIND} groups=k1|k2",
        "k1",
        lambda c: seconds(c.throughput_us) if c.kind == "k1" else None,
    ),
    (
        "throughput at_most=1h where.occurs=B",
        None,
        lambda c: seconds(c.throughput_us) if "B" in c.names else None,
    ),
]


@settings(max_examples=30)
@given(case_lists())
def test_means_are_those_of_plain_python(cases: list[Case]) -> None:
    for text, group, number in OF_A_CASE:
        numbers = [n for n in map(number, cases) if n is not None]
        assert truths(text, [group], cases) == [pytest.approx(mean(numbers))], text
    without = [c for c in cases if OTHER not in c.names]
    assert truths("rework", [None], without) == [mean(float(c.repeats) for c in without)]


@settings(max_examples=30)
@given(case_lists())
def test_counts_and_quantiles_are_those_of_plain_python(cases: list[Case]) -> None:
    counts = [sum(min(c.names.count(name), 2) for c in cases) for name in NAMES]
    text = "frequency by=activity groups=A|B|C at_most=2"
    assert truths(text, list(NAMES), cases) == counts
    values = ["R1", "R3"]
    by = [sum(column) for column in zip(*(c.events_by(values, 3) for c in cases), strict=True)]
    text = f"workload by={RESOURCE} groups=R1|R3 at_most=3"
    assert truths(text, list(values), cases) == (by or [0, 0])
    times = sorted(c.throughput_us / 1e6 for c in cases)
    for share, found in zip(
        ("0.1", "0.5", "0.9"),
        truths("throughput of=0.1|0.5|0.9 at_most=1h", ["0.1", "0.5", "0.9"], cases),
        strict=True,
    ):
        reached = [t for t in times if sum(u <= t for u in times) >= Fraction(share) * len(times)]
        assert found == (min(reached) if reached else None)
