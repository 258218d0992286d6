"""What is released of noisy sums: the truth without noise, and with it intervals that hold it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from tests.support.indicator_logs import AMOUNT, KIND, RESOURCE, Case, Event, log_of
from tests.support.keys import release_key
from tests.support.rounds import run_rounds
from tests.support.silence import Silence
from tracecloak.anonymizers.indicators.errors import PrivateIndicators
from tracecloak.anonymizers.indicators.terms import coarse_grid, grid
from tracecloak.anonymizers.noise.samplers import EXACT, Noise
from tracecloak.schemas.published.figures import IndicatorRow

METHOD = PrivateIndicators()
HOUR, DAY = 3_600_000_000, 24 * 3_600_000_000
FIRST_US = 1_704_067_200_000_000  # 2024-01-01


@lru_cache
def cases() -> tuple[Case, ...]:
    """Three hundred cases of three months, of which some have no kind, amount or resource."""
    rng = np.random.default_rng(5)
    made = []
    for _ in range(300):
        time, events = FIRST_US + int(rng.integers(0, 91)) * DAY, []
        for _ in range(int(rng.integers(1, 7))):
            time += int(rng.choice([0, HOUR, 7 * HOUR, 2 * DAY]))
            activity, who = rng.choice(list("ABC")), rng.choice(["R1", "R2", "R3"])
            start = None if rng.random() < 0.2 else time - int(rng.integers(0, 3)) * HOUR
            events.append(Event(str(activity), time, str(who), start))
        kind = str(rng.choice(["k1", "k2", "k3"])) if rng.random() < 0.9 else None
        amount = f"{rng.normal(60, 30):.2f}" if rng.random() < 0.8 else "none"
        made.append(Case(tuple(events), kind, amount))
    return tuple(made)


@lru_cache
def log() -> Any:
    return log_of(cases(), "ABC")


def rows_of(
    indicators: Sequence[Any], noise: Noise = EXACT, number: int = 0, **others: Any
) -> list[IndicatorRow]:
    """The rows of a release."""
    params = METHOD.Params(
        **{"epsilon": "5", "service_times": True, **others, "indicators": list(indicators)}
    )
    run = run_rounds([log()], METHOD, params, release_key(number), noise=noise)
    return METHOD.products(run.decisions, params).by_name["indicators"].rows()


def clipped(low: float, high: float, numbers: Sequence[float | None]) -> list[float]:
    return [min(max(number, low), high) for number in numbers if number is not None]


def responds(case: Case) -> bool:
    names = case.names
    return all("B" in names[i + 1 :] for i, name in enumerate(names) if name == "A")


def mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


Truth = Callable[[Sequence[Case]], float]
# By an indicator: what it is of some cases, and its unit.
KINDS: dict[str, tuple[Truth, str]] = {
    "cases": (len, "cases"),
    "throughput at_most=3d": (
        lambda some: mean(clipped(0, 3 * DAY, [c.throughput_us for c in some])) / 1e6, "s",
    ),
    "throughput at_most=3d of=sum name=ts": (
        lambda some: sum(clipped(0, 3 * DAY, [c.throughput_us for c in some])) / 1e6, "s",
    ),
    "within limit=1d": (lambda some: mean([c.throughput_us <= DAY for c in some]), "share"),
    "rework": (lambda some: mean([c.repeats for c in some]), "share"),
    "rework activity=A": (lambda some: mean([c.names.count("A") > 1 for c in some]), "share"),
    "frequency activity=B": (lambda some: sum("B" in c.names for c in some), "cases"),
    "frequency activity=B at_most=2": (
        lambda some: sum(min(c.names.count("B"), 2) for c in some), "occurrences",
    ),
    "rule template=response activity=A then=B": (
        lambda some: mean([responds(c) for c in some]), "share",
    ),
    "waiting activity=A then=B at_most=1d": (
        lambda some: mean(clipped(0, DAY, [c.wait_us("A", "B") for c in some])) / 1e6, "s",
    ),
    "waiting activity=A then=B at_most=1d of=sum name=ws": (
        lambda some: sum(clipped(0, DAY, [c.wait_us("A", "B") for c in some])) / 1e6, "s",
    ),
    "working activity=C at_most=2h": (
        lambda some: mean(clipped(0, 2 * HOUR, [c.work_us("C") for c in some])) / 1e6, "s",
    ),
    f"amount attribute={AMOUNT} bounds=-10|100": (
        lambda some: mean(clipped(-10, 100, [c.number for c in some])), "",
    ),
    f"amount attribute={AMOUNT} bounds=-10|100 of=sum name=as": (
        lambda some: sum(clipped(-10, 100, [c.number for c in some])), "",
    ),
}  # fmt: skip
MONTHS = ("2024-01", "2024-02", "2024-03")


def month_of(case: Case) -> str:
    day = (case.events[0].time_us - FIRST_US) // DAY
    return f"2024-0{1 if day < 31 else 2 if day < 60 else 3 if day < 91 else 4}"


GROUPINGS: dict[str, Callable[[Case], str | None]] = {
    "": lambda case: None,
    f" by={KIND} groups=k2|k1": lambda case: case.kind or "",
    " by=month": month_of,
}
FILTERS: dict[str, Callable[[Case], bool]] = {
    "": lambda case: True,
    " where.occurs=C": lambda case: "C" in case.names,
    f" where.attribute={KIND} where.equals=k1": lambda case: case.kind == "k1",
}
DATES = {"first_date": "2024-01-01", "last_date": "2024-03-31"}


def close(value: float, truth: float, unit: str, size: float) -> bool:
    """To nine digits, and to the half of a lattice step that a number was rounded by."""
    if unit in ("cases", "occurrences"):
        return value == truth
    return math.isclose(value, truth, rel_tol=1e-8, abs_tol=size)


@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("where", FILTERS)
def test_without_noise_every_figure_is_the_truth(grouping: str, where: str) -> None:
    if where and grouping and "kind" in where + grouping:
        grouping = grouping.replace("groups=k2|k1", "groups=k1")
    texts = [text + grouping + where for text in KINDS]
    rows = iter(rows_of(texts, Silence(), **(DATES if "month" in grouping else {})))
    labels: Sequence[str | None] = (
        [*MONTHS] if "month" in grouping else grouping.partition("groups=")[2].split("|")
    )
    for text, (truth, unit) in KINDS.items():
        for label in labels if grouping else [None]:
            some = [
                case
                for case in cases()
                if FILTERS[where](case)
                and (label is None or month_of_or_kind(case, grouping) == label)
            ]
            row = next(rows)
            assert (row.group, row.unit) == (label, unit), text
            # Each of the cases is rounded by half a step of its range at most.
            step = {"s": 3 * 86_400, "share": 1, "": 110}.get(unit, 0) / (1 << 20)
            size = step * (len(some) if "of=sum" in text else 1)
            assert close(row.value, truth(some), unit, size), (text, row, truth(some))
            assert row.low <= row.value <= row.high
    assert next(rows, None) is None


def month_of_or_kind(case: Case, grouping: str) -> str | None:
    return next(of for text, of in GROUPINGS.items() if text[:6] == grouping[:6])(case)


STEPS: dict[str, tuple[Sequence[Any], Callable[[Sequence[Case], Any], float]]] = {
    "rework by=activity": ("ABC", lambda some, a: mean([c.names.count(a) > 1 for c in some])),
    "frequency by=activity groups=C|A at_most=3": (
        "CA", lambda some, a: sum(min(c.names.count(a), 3) for c in some),
    ),
    "waiting by=pair groups=A>B|C>C at_most=1d": (
        [("A", "B"), ("C", "C")],
        lambda some, pair: mean(clipped(0, DAY, [c.wait_us(*pair) for c in some])) / 1e6,
    ),
    "working by=activity groups=B at_most=2h": (
        "B", lambda some, a: mean(clipped(0, 2 * HOUR, [c.work_us(a) for c in some])) / 1e6,
    ),
    "workload groups=R3|R1 at_most=2": (
        ["R3", "R1"],
        lambda some, who: sum(c.events_by(["R3", "R1"], 2)[["R3", "R1"].index(who)] for c in some),
    ),
}  # fmt: skip


@pytest.mark.parametrize("where", FILTERS)
def test_without_noise_every_step_is_the_truth(where: str) -> None:
    """The steps of a pair stand with an arrow."""
    texts = [text + where for text in STEPS]
    rows = iter(rows_of(texts, Silence(), vocabulary=("A", "B", "C"), delta="0"))
    some = [case for case in cases() if FILTERS[where](case)]
    for text, (steps, truth) in STEPS.items():
        for step in steps:
            row = next(rows)
            assert row.group == (step if isinstance(step, str) else " → ".join(step))
            assert close(row.value, truth(some, step), row.unit, 0.2), text
    assert next(rows, None) is None


@pytest.mark.parametrize("by", ["", f" by={KIND} groups=k1|k2"])
def test_without_noise_quantiles_hold_the_truth_and_running_ones_to_a_bin(by: str) -> None:
    deciles = "0.1|0.2|0.3|0.4|0.5|0.6|0.7|0.8|0.9"
    texts = [
        f"amount attribute={AMOUNT} bounds=0|100 of=0.25|0.5|0.75{by}",
        f"throughput of=median at_most=20d{by}",
        f"amount attribute={AMOUNT} bounds=0|100 of={deciles} name=running{by}",
    ]
    rows = iter(rows_of(texts, Silence(), epsilon="1", delta="1e-5"))
    for text, points in zip(texts, (grid(), grid(), coarse_grid()), strict=True):
        shares = [s for s in (0.25, 0.5, 0.75)] if "0.25" in text else [0.5]
        shares = [s / 10 for s in range(1, 10)] if "running" in text else shares
        top = 100 if "amount" in text else 20 * 86_400
        for label in ["k1", "k2"] if by else [""]:
            some = [case for case in cases() if not by or case.kind == label]
            numbers = (
                [c.number for c in some]
                if "amount" in text
                else [c.throughput_us / 1e6 for c in some]
            )
            known = sorted(clipped(0, top, numbers))
            for share in shares:
                row, true = next(rows), known[math.ceil(share * len(known)) - 1]
                bin_ = int(np.searchsorted(points, round(true / top * (1 << 20))))
                low, high = points[max(bin_ - 1, 0)], points[bin_]
                if "running" in text:
                    assert low - 1 <= row.value / top * (1 << 20) <= high + 1, (row, true)
                assert row.low <= true * (1 + 1e-6) and true * (1 - 1e-6) <= row.high
                assert row.group == (
                    ", ".join(filter(None, [label, f"{share:g}" * (len(shares) > 1)])) or None
                )
    assert next(rows, None) is None


def test_without_noise_histograms_are_the_counts_of_bins() -> None:
    rows = rows_of(
        [
            f"amount attribute={AMOUNT} bounds=0|100 of=histogram n_bins=4 by={KIND} groups=k1|k2",
            "throughput of=histogram n_bins=5 at_most=5d",
        ],
        Silence(),
    )
    for row, (label, bin_) in zip(rows, itertools.product(["k1", "k2"], range(4)), strict=False):
        numbers = clipped(0, 100, [case.number for case in cases() if case.kind == label])
        count = sum(25 * bin_ <= x < 25 * (bin_ + 1) or (bin_ == 3 and x == 100) for x in numbers)
        assert row.value == count
        assert row.group == f"{label}, {25 * bin_} to {25 * (bin_ + 1)}"
    times = [min(case.throughput_us, 5 * DAY) for case in cases()]
    for day, row in enumerate(rows[8:]):
        assert row.value == sum(min(time // DAY, 4) == day for time in times)
    assert rows[-1].group == "4 days to 5 days"
    assert len(rows) == 13


@pytest.mark.parametrize("others", [{"delta": "0"}, {"epsilon": "1"}], ids=["laplace", "gaussian"])
def test_intervals_hold_the_truth_as_often_as_they_say(others: dict[str, Any]) -> None:
    """Of means and shares of nested populations, in groups of a few dozens of cases."""
    texts = [text + f" by={KIND} groups=k1|k2" for text in KINDS]
    texts += [text + " where.occurs=C" for text in list(KINDS)[::3] if "name=" not in text]
    truths = [row.value for row in rows_of(texts, Silence(), **others)]
    n_keys, holds = 5, 0
    for number in range(n_keys):
        rows = rows_of(texts, number=number, **others)
        holds += sum(row.low <= truth <= row.high for row, truth in zip(rows, truths, strict=True))
        assert all(row.low <= row.value <= row.high for row in rows)
        assert all(0 <= row.low and row.high <= 1 for row in rows if row.unit == "share")
        assert all(row.low >= 0 for row in rows if row.unit in ("cases", "occurrences", "s"))
    n = n_keys * len(truths)
    assert holds / n > 0.95 - 4 * math.sqrt(0.05 * 0.95 / n)


def test_groups_that_were_bought_have_their_labels() -> None:
    texts = [
        "frequency by=activity n_groups=2", "waiting by=pair at_most=1d n_groups=3", "workload",
        f"cases by={KIND}", "throughput",
    ]  # fmt: skip
    rows = rows_of(texts, epsilon="100", delta="1e-5")
    by_indicator: dict[str, list[str | None]] = {}
    for row in rows:
        by_indicator.setdefault(row.indicator, []).append(row.group)
    activities, pairs, staff, kinds, whole = by_indicator.values()
    assert len(activities) == 2 and set(activities) <= set("ABC")
    assert len(pairs) == 3 and all(" → " in str(pair) for pair in pairs)
    assert staff == ["R1", "R2", "R3"] and kinds == ["k1", "k2", "k3"] and whole == [None]
    assert by_indicator.keys() >= {f"events, up to 10 a case by {RESOURCE}"}
    # The longest time was bought: the mean is below it, and all of it is what it says.
    truth = mean([case.throughput_us / 1e6 for case in cases()])
    assert rows[-1].value == pytest.approx(truth, rel=0.05)
