"""What is checked of a list of indicators before any data is read, and what follows from it."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from tracecloak.anonymizers.indicators.figures import parts_of
from tracecloak.anonymizers.indicators.params import IndicatorParams
from tracecloak.schemas.events.events import OTHER


def asked(*indicators: Any, **others: Any) -> IndicatorParams:
    return IndicatorParams(**{"epsilon": "1", **others, "indicators": list(indicators)})


# By what is wrong: the indicators, the other parameters, and a part of the sentence.
REFUSED: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "none": ((), {}, "indicators needs one at least"),
    "two of one name": (("cases", "cases"), {}, "indicators.1: 'cases' is there twice"),
    "two of one given name": (("cases name=a", "rework name=a"), {}, "'a' is there twice"),
    "a name of ours": (("cases name='number of cases'",), {}, "is taken"),
    "a name of a choice": (("rework name='groups by activity'",), {}, "is taken"),
    "a name of a range": (("rework name=time_range",), {}, "is taken"),
    "a name of another's sum": (
        ("throughput name=a at_most=1d", "throughput of=median at_most=1d name='a, sum'"), {},
        "indicators.1: the name 'a, sum' is taken: give it another one",
    ),
    "a name of another's windows": (
        ("throughput of=median name=a at_most=1d", "rework name='a, windows'"), {}, "is taken",
    ),
    "an activity that nobody declared": (
        ("frequency activity=D",), {"vocabulary": ("A", "B")},
        "indicators.0: activity 'D' is not in the vocabulary: correct it, or add it there",
    ),
    "a filter of one that nobody declared": (
        ("cases where.occurs=D",), {"vocabulary": ("A", "B")}, "activity 'D' is not in the",
    ),
    "a rule on one that nobody declared": (
        ("rule template=response activity=A then=D",), {"vocabulary": ("A", "B")}, "'D' is not in",
    ),
    "a pair of one that nobody declared": (
        ("waiting by=pair groups=A>D at_most=1d",), {"vocabulary": ("A", "B")}, "'D' is not in",
    ),
    "work without starts": (("working activity=A",), {}, "indicators.0: working needs the starts"),
    "groups of a case without delta": (("cases by=case:x",), {"delta": 0}, "indicators.0: groups"),
    "activities without delta": (("rework by=activity",), {"delta": 0}, "with a delta: declare"),
    "staff without delta": (("cases", "workload"), {"delta": 0}, "indicators.1: groups are chosen"),
    "one date": (("cases by=month",), {"first_date": "2024-01-01"}, "go together"),
    "dates of nothing": (
        ("cases",), {"first_date": "2024-01-01", "last_date": "2024-02-01"}, "leave it out",
    ),
    "weeks without dates": (("cases by=week",), {}, "by week needs first_date and last_date"),
    "too many days": (
        ("cases by=day",), {"first_date": "2000-01-01", "last_date": "2024-02-01"},
        "by day makes 8,798 periods, and 1,000 are the most",
    ),
    "dates the wrong way round": (
        ("cases by=day",), {"first_date": "2024-02-01", "last_date": "2024-01-01"}, "date",
    ),
    "no time zone": (("cases",), {"calendar_time_zone": "Mars/X"}, "'Mars/X' is no time zone"),
    "columns of nothing": (
        ("cases",), {"attribute_columns": {"case:x": "X"}}, "no indicator reads case:x",
    ),
    "too many activities": (
        ("rework by=activity n_groups=201",), {}, "at most 200 activities or pairs",
    ),
    # Their numbers of cases would be called alike, and have the same noise.
    "other groups of the same attribute": (
        ("cases by=case:x groups=a|b", "rework by=case:x groups=a|c"), {},
        "indicators.1: others by case:x have other groups: declare the same",
    ),
    "groups of the same attribute in another order": (
        ("cases by=case:x groups=a|b", "rework by=case:x groups=b|a"), {}, "in the same order",
    ),
    "groups that are bought and declared": (
        ("cases by=case:x groups=a|b", "rework by=case:x"), {}, "declare the same groups",
    ),
    "an attribute whose name says a filter": (
        ("cases by='case:x, cases with a'", "rework by=case:x where.occurs=a"), {}, "have other",
    ),
    "the case as an attribute": (
        ("cases by=case:concept:name groups=1",), {}, "is the case, the activity or the time",
    ),
    "the time as an attribute": (("workload by=timestamp",), {}, "is the case, the activity or"),
    "a prefix that XES does not have": (("cases by=case:foo:bar",), {}, "prefix of an extension"),
    "control characters in a value": (
        ({"indicator": "cases", "by": "case:x", "groups": ["a\x00"]},), {}, "none for control",
    ),
    "bounds far out": (
        ("amount attribute=case:x bounds=0|9e300",), {}, "bounds must be finite, at most 1e+300",
    ),
    "too many attributes": (
        tuple(f"cases by=case:x{i}" for i in range(101)), {}, "101 attributes, and 100 are",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_go_together_is_refused_with_its_place(name: str) -> None:
    indicators, others, said = REFUSED[name]
    with pytest.raises(pydantic.ValidationError, match="1 validation error") as error:
        asked(*indicators, **others)
    assert said in error.value.errors()[0]["msg"]


def test_steps_are_declared_or_those_of_the_vocabulary_or_bought() -> None:
    rework, frequency, waiting, workload, named = (
        "rework by=activity n_groups=7", "frequency by=activity groups=A|B|C",
        "waiting by=pair at_most=1d", "workload groups=R1|R2", "rework activity=B name=b",
    )  # fmt: skip
    params = asked(rework, frequency, waiting, workload, named)
    steps = [params.steps_of(indicator) for indicator in params.indicators]
    assert steps == [None, ("A", "B", "C"), None, ("R1", "R2"), ("B",)]
    assert [params.n_steps_of(i) for i in params.indicators] == [7, 3, 10, 2, 1]
    assert params.selected_groups == {"activity": 7, "pair": 10}
    public = asked(rework, vocabulary=("B", "A"))
    assert public.steps_of(public.indicators[0]) == ("B", "A")
    assert public.selected_groups == {}


def test_attributes_are_declared_with_all_that_is_asked_of_them() -> None:
    params = asked(
        "cases by=case:x groups=a|b where.attribute=case:y where.equals=1",
        "rework where.attribute=case:x where.equals=c", "workload by=org:group",
        "amount attribute=case:z bounds=-1|2.5 by=case:w",
        attribute_columns={"case:z": "Z", "org:group": "Team"},
    )  # fmt: skip
    declared = {own.name: own.declaration for own in params.declared_attributes}
    assert declared["case:x"].values == ("a", "b", "c")
    assert declared["case:y"].values == ("1",)
    assert declared["case:z"].bounds == (-1, 2.5)
    assert declared["case:z"].column == "Z"
    assert declared["org:group"].column == "Team"
    # What is bought is of no value that is declared.
    assert declared["org:group"].values == declared["case:w"].values == (OTHER,)


def test_names_of_needs_are_distinct_whatever_indicators_are_called() -> None:
    """Two needs of one name would have the noise of one of them."""
    texts = [
        "cases", "cases by=case:x", "throughput", "throughput of=median", "throughput of=0.1|0.9",
        "throughput of=histogram", "waiting by=pair at_most=1d", "workload", "rework by=activity",
        "throughput name='cases: sum'", "rework name='x: sum'", "cases by=month",
    ]  # fmt: skip
    params = asked(*texts)
    parts = parts_of(params)
    names = [need.name for part in parts for need in part.needs]
    assert len(set(names)) == len(names)
    assert len({part.name for part in parts}) == len(parts)
