"""The language of indicators: what is read as what, what is refused, and what follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiers import each_row
from tracecloak.anonymizers.indicators.declared import Indicator, OneIndicator
from tracecloak.anonymizers.indicators.figures import parts_of
from tracecloak.anonymizers.indicators.params import IndicatorParams
from tracecloak.schemas.events.events import OTHER

READ = pydantic.TypeAdapter(OneIndicator)


def read(given: Any) -> Indicator:
    return READ.validate_python(given)


def written(indicator: Indicator) -> Any:
    return READ.dump_python(indicator, mode="json")


# By its text: the same as a mapping, its name, and its text in a manifest if that is another.
KINDS: Mapping[str, tuple[dict[str, Any], str, str | None]] = {
    "cases": ({}, "cases", None),
    "cases by=month": ({"by": "month"}, "cases by month", None),
    "cases by=case:kind groups=a|b": (
        {"by": "case:kind", "groups": ["a", "b"]}, "cases by case:kind",
        "cases by=case:kind 'groups=a|b'",
    ),
    "cases where.occurs=A where.attribute=case:kind where.equals=x": (
        {"where": {"occurs": "A", "attribute": "case:kind", "equals": "x"}},
        "cases, cases with A and whose case:kind is x", None,
    ),
    "throughput": ({}, "mean throughput time", None),
    "throughput of=sum at_most=2w": ({"of": "sum", "at_most": "2w"}, "sum throughput time",
                                     "throughput of=sum at_most=14d"),
    "throughput of=median": ({"of": "median"}, "median throughput time", "throughput of=0.5"),
    "throughput of=0.5": ({"of": 0.5}, "median throughput time", None),
    "throughput of=0.9": ({"of": ["0.9"]}, "0.9 quantile of throughput time", None),
    "throughput of=0.1|0.90": (
        {"of": [0.1, "0.9"]}, "quantiles of throughput time", "throughput 'of=0.1|0.9'",
    ),
    "throughput of=histogram n_bins=7 at_most=36h": (
        {"of": "histogram", "n_bins": 7, "at_most": "36h"}, "histogram of throughput time", None,
    ),
    "within limit=1d": ({"limit": "1d"}, "share within 1 day", None),
    "rework": ({}, "share with rework", None),
    "rework activity=A": ({"activity": "A"}, "share with rework of A", None),
    "rework by=activity groups=A|B": (
        {"by": "activity", "groups": ["A", "B"]}, "share with rework by activity",
        "rework by=activity 'groups=A|B'",
    ),
    "frequency activity=A": ({"activity": "A"}, "cases with A", None),
    "frequency activity=A at_most=1000": (
        {"activity": "A", "at_most": 1000}, "occurrences of A, up to 1,000 a case", None,
    ),
    "frequency by=activity": ({"by": "activity"}, "cases with an activity by activity", None),
    "rule template=response activity=A then=B within=14d": (
        {"template": "response", "activity": "A", "then": "B", "within": "14d"},
        "share that keeps response(A, B) within 14 days", None,
    ),
    "rule template=existence activity=A n=2": (
        {"template": "existence", "activity": "A", "n": 2},
        "share that keeps existence(A, 2 times)", None,
    ),
    "waiting activity=A then=B at_most=1h": (
        {"activity": "A", "then": "B", "at_most": "1h"}, "mean wait from A to B",
        "waiting at_most=1h activity=A then=B",
    ),
    "waiting by=pair groups=A>B|B>A at_most=1h": (
        {"by": "pair", "groups": [["A", "B"], ["B", "A"]], "at_most": "1h"},
        "mean wait from one activity to the next by pair",
        "waiting by=pair 'groups=A>B|B>A' at_most=1h",
    ),
    "working activity=A of=sum": ({"activity": "A", "of": "sum"}, "sum working time of A",
                                 "working of=sum activity=A"),
    "working by=activity at_most=1h": (
        {"by": "activity", "at_most": "1h"}, "mean working time of an activity by activity", None,
    ),
    "amount attribute=case:cost bounds=-5|1e3": (
        {"attribute": "case:cost", "bounds": [-5, 1000]}, "mean case:cost",
        "amount attribute=case:cost 'bounds=-5|1000'",
    ),
    "workload": ({}, "events, up to 10 a case by org:resource", None),
    "workload by=org:role groups=x|y at_most=2": (
        {"by": "org:role", "groups": ["x", "y"], "at_most": 2},
        "events, up to 2 a case by org:role", "workload by=org:role 'groups=x|y' at_most=2",
    ),
    "cases name='All of them' priority=0.5 wanted_error=20": (
        {"name": "All of them", "priority": "0.5", "wanted_error": 20}, "All of them",
        "cases 'name=All of them' priority=0.5 wanted_error=20",
    ),
}  # fmt: skip


def test_an_indicator_is_the_same_as_text_and_as_mapping_and_is_written_again() -> None:
    for text in KINDS:
        body, title, again = KINDS[text]
        indicator = read(text)
        assert indicator == read({"indicator": text.split()[0], **body})
        assert indicator.title == title
        assert written(indicator) == (again or text)
        assert read(written(indicator)) == indicator


# Names that somebody may have given to activities and values.
HOSTILE = (
    "a b", "a|b", "a>b", "a=b", "it's", 'say "x"', "$(x)", "a,b", "#", "\\", " a", "a ", "\t",
    "é→√", "cases", "where.occurs=A", "--flag", "[1]", "{}", "A" * 900,
)  # fmt: skip
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(min_size=1, max_size=8))


@given(TEXTS, TEXTS, st.lists(TEXTS, min_size=1, max_size=3, unique=True))
def test_hostile_names_survive_a_manifest(one: str, other: str, groups: list[str]) -> None:
    """What is written reads as the same, as a text where it can, and else as a mapping."""
    where = {"occurs": one, "attribute": f"case:{one}", "equals": other}
    pairs = [[group, one] for group in groups]
    for body in (
        {"indicator": "cases", "name": one[:200], "where": where},
        {"indicator": "cases", "by": "case:kind", "groups": groups},
        {"indicator": "frequency", "by": "activity", "groups": groups},
        {"indicator": "waiting", "by": "pair", "groups": pairs, "at_most": "1h"},
        {"indicator": "waiting", "activity": one, "then": other},
        {"indicator": "rework", "activity": one},
        {"indicator": "workload", "groups": groups},
    ):
        indicator = read(body)
        again = read(written(indicator))
        assert again == indicator
        assert again.title == indicator.title


# By what is wrong: the place of the error under its indicator, and a part of the sentence.
REFUSED: Mapping[Any, tuple[str, str]] = {
    "": ("", "an indicator is a word such as cases"),
    "speed": ("", "does not match any of the expected tags: 'cases'"),
    "cases 'x": ("", "quotes must be closed"),
    "cases x": ("", "each word is KEY=VALUE, got 'x'"),
    "cases x=1": ("cases.x", "Extra inputs are not permitted"),
    "cases name=a name=b": ("", "name is there twice"),
    "cases where.occurs=A where.occurs=B": ("", "occurs is there twice"),
    "cases where=x where.occurs=A": ("cases.where", "valid dictionary"),
    "cases where.attribute=case:x": ("cases.where", "attribute and equals go together"),
    "cases where.attribute=x where.equals=1": ("cases.where", "whose name begins with case:"),
    "cases groups=a": ("cases", "groups needs by"),
    "cases by=hour": ("cases", "by must be day, week, month, quarter, year or an attribute"),
    "rework by=hour": ("rework", "day, week, month, quarter, year, activity or an attribute"),
    "cases by=activity": ("cases", "cases cannot be told apart by activity"),
    "cases by=month groups=a": ("cases", "first_date and last_date say which there are"),
    "cases by=case:x groups=a|a": ("cases", "groups must be distinct"),
    "cases by=case:x groups=a|": ("cases", "groups must not be empty texts"),
    "cases priority=much": ("cases.priority", "must be a decimal number"),
    "throughput at_most=0d": ("throughput", "at_most must be above 0"),
    "throughput at_most=5": ("throughput.at_most", "must be a number with a unit"),
    "throughput at_most=0.5ms": ("throughput.at_most", "whole number of milliseconds"),
    "throughput of=0|0.5": ("throughput.of", "quantiles must lie between 0 and 1"),
    "throughput of=0.5|0.5": ("throughput.of", "quantiles must ascend, each once"),
    "throughput of=0.1234567": ("throughput.of", "multiples of 0.000001"),
    "throughput by=activity at_most=1d": ("throughput", "cannot be told apart by activity"),
    "within limit=-1d": ("within.limit", "must be a number with a unit"),
    "rework activity=": ("rework", "must not be empty"),
    "rework activity=A by=activity": ("rework", "either activity or by=activity"),
    "frequency": ("frequency", "needs either activity or by=activity"),
    "rule template=response activity=A": ("rule", "a rule response needs then"),
    "rule template=first activity=A then=B": ("rule", "a rule first has no then"),
    "rule template=sometimes activity=A": ("rule", "template must be one of existence, absence"),
    "rule template=response activity=A then=A": ("rule", "must be two activities"),
    "rule template=response activity=A then=B n=2": ("rule", "n is for existence and absence"),
    "waiting": ("waiting", "needs either activity or by=pair"),
    "waiting activity=A": ("waiting", "activity and then go together"),
    "waiting activity=A then=B by=pair at_most=1d": ("waiting", "either activity or by=pair"),
    "waiting by=pair": ("waiting", "at_most must be declared where times are told apart by pair"),
    "waiting by=pair groups=A at_most=1d": ("waiting.groups", "[A, B] or in a text A>B"),
    "waiting by=pair groups=A> at_most=1d": ("waiting", "groups must not be empty texts"),
    "working by=activity": ("working", "at_most must be declared"),
    "amount attribute=x bounds=0|1": ("amount", "whose name begins with case:"),
    "amount attribute=case:x bounds=5|1": ("amount", "a smaller and a larger number"),
    "amount attribute=case:x bounds=0|many": ("amount.bounds.1", "must be a decimal number"),
    "amount attribute=case:x bounds=0|inf": ("amount.bounds.1", "must be finite"),
    "workload by=case:x": ("workload", "must be an attribute of events"),
    "workload groups=a|a": ("workload", "groups must be distinct"),
    "throughput wanted_error=3600": ("throughput", "wanted_error needs at_most"),
}  # fmt: skip


def test_what_cannot_be_is_refused_with_its_place_and_the_remedy() -> None:
    for text in REFUSED:
        place, said = REFUSED[text]
        with pytest.raises(pydantic.ValidationError) as error:
            IndicatorParams(epsilon="1", indicators=["rework name=fine", text])
        [first, *others] = error.value.errors()
        where = ".".join(map(str, first["loc"]))
        assert where.startswith("indicators.1")
        assert where.removeprefix("indicators.1").removeprefix(".").startswith(place)
        assert said in " ".join(one["msg"] for one in (first, *others))


def asked(*indicators: Any, **others: Any) -> IndicatorParams:
    return IndicatorParams(**{"epsilon": "1", **others, "indicators": list(indicators)})


OF_TWO = {"vocabulary": ("A", "B")}
OF_GROUPS = "cases by=case:x groups=a|b"
# The indicators, the other parameters, and a part of the sentence.
LIST_REFUSED: tuple[tuple[tuple[Any, ...], dict[str, Any], str], ...] = (
    ((), {}, "indicators needs one at least"),
    (("cases", "cases"), {}, "indicators.1: 'cases' is there twice"),
    (("cases name=a", "rework name=a"), {}, "'a' is there twice"),
    # Names of ours, of a choice, of a range, of another's sum and of another's windows.
    (("cases name='number of cases'",), {}, "is taken"),
    (("rework name='groups by activity'",), {}, "is taken"),
    (("rework name=time_range",), {}, "is taken"),
    (("throughput name=a", "rework name='a, sum'"), {}, "indicators.1: the name 'a, sum' is taken"),
    (("throughput of=median name=a at_most=1d", "rework name='a, windows'"), {}, "is taken"),
    (("frequency activity=D",), OF_TWO, "indicators.0: activity 'D' is not in the vocabulary"),
    (("cases where.occurs=D",), OF_TWO, "activity 'D' is not in the"),
    (("rule template=response activity=A then=D",), OF_TWO, "'D' is not in"),
    (("waiting by=pair groups=A>D at_most=1d",), OF_TWO, "'D' is not in"),
    (("working activity=A",), {}, "indicators.0: working needs the starts"),
    (("cases by=case:x",), {"delta": 0}, "indicators.0: groups"),
    (("rework by=activity",), {"delta": 0}, "with a delta: declare"),
    (("cases", "workload"), {"delta": 0}, "indicators.1: groups are chosen"),
    (("cases by=month",), {"first_date": "2024-01-01"}, "go together"),
    (("cases",), {"first_date": "2024-01-01", "last_date": "2024-02-01"}, "leave it out"),
    (("cases by=week",), {}, "by week needs first_date and last_date"),
    (("cases by=day",), {"first_date": "2000-01-01", "last_date": "2024-02-01"}, "makes 8,798"),
    (("cases by=day",), {"first_date": "2024-02-01", "last_date": "2024-01-01"}, "date"),
    (("cases",), {"calendar_time_zone": "Mars/X"}, "'Mars/X' is no time zone"),
    (("cases",), {"attribute_columns": {"case:x": "X"}}, "no indicator reads case:x"),
    (("rework by=activity n_groups=201",), {}, "at most 200 activities or pairs"),
    # Their numbers of cases would be called alike, and have the same noise.
    ((OF_GROUPS, "rework by=case:x groups=a|c"), {}, "indicators.1: others by case:x have other"),
    ((OF_GROUPS, "rework by=case:x groups=b|a"), {}, "in the same order"),
    ((OF_GROUPS, "rework by=case:x"), {}, "declare the same groups"),
    (("cases by='case:x, cases with a'", "rework by=case:x where.occurs=a"), {}, "have other"),
    (("cases by=case:concept:name groups=1",), {}, "is the case, the activity or the time"),
    (("workload by=timestamp",), {}, "is the case, the activity or"),
    (("cases by=case:foo:bar",), {}, "prefix of an extension"),
    (({"indicator": "cases", "by": "case:x", "groups": ["a\x00"]},), {}, "1000 printable"),
    (("amount attribute=case:x bounds=0|9e300",), {}, "bounds must be finite, at most 1e+300"),
    (tuple(f"cases by=case:x{i}" for i in range(101)), {}, "101 attributes, and 100 are"),
)


@each_row(("indicators", "others", "said"), LIST_REFUSED)
def test_what_does_not_go_together_is_refused_with_its_place(
    indicators: tuple[Any, ...], others: dict[str, Any], said: str
) -> None:
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
