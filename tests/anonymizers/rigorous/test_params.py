"""What all rigorous methods take: budgets, delta, vocabularies and groups of activities."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.anonymizers import registry
from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.anonymizers.graphs.private_dfg import PrivateDfg, PrivateDfgParams
from tracecloak.anonymizers.noise.samplers import LARGEST_SCALE
from tracecloak.anonymizers.registry import method_named
from tracecloak.anonymizers.rigorous.names import Grouping
from tracecloak.anonymizers.rigorous.params import RigorousParams, drawable
from tracecloak.anonymizers.variants.method import VariantHistogramMethod, VariantHistogramParams
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import ActivityVocabulary

Method = PrivateDfg | VariantHistogramMethod
METHODS: tuple[Method, ...] = (VariantHistogramMethod(), PrivateDfg())


@given(st.decimals(Decimal("1e-300"), 1000, allow_nan=False, allow_infinity=False))
def test_a_number_is_kept_exactly_or_refused(number: Decimal) -> None:
    is_short = len(number.normalize().as_tuple().digits) <= 12
    for written in (number, str(number)):
        try:
            params = RigorousParams(epsilon=written)
        except pydantic.ValidationError as error:
            assert "12 significant digits" in str(error)
            assert not is_short
        else:
            assert is_short
            assert params.budget[0] == Fraction(number)
            assert RigorousParams(**params.resolved()) == params
            assert Fraction(decimal_text(params.budget[0])) == Fraction(number)


@pytest.mark.parametrize(
    ("epsilon", "said"),
    [
        (True, "Decimal input"),
        (None, "Decimal input"),
        ("", "must be a decimal number"),
        ([1], "must be a decimal number"),
        ("0,1", "must be a decimal number"),
        ("nan", "must be finite"),
        ("-inf", "must be finite"),
        ("0.1234567890123", "12 significant digits"),
        ("0", "greater than 0"),
        ("-1", "greater than 0"),
        ("1001", "less than or equal to 1000"),
        ("1e-301", "between 1e-300 and 1e300"),
        ("1e-999999999", "between 1e-300 and 1e300"),  # as a fraction, a gigabyte of digits
    ],
)
def test_what_is_no_budget_is_refused(epsilon: Any, said: str) -> None:
    for Params in (VariantHistogramParams, PrivateDfgParams):  # noqa: N806  # types
        with pytest.raises(pydantic.ValidationError, match=said) as raised:
            Params(epsilon=epsilon)
        assert raised.value.errors()[0]["loc"] == ("epsilon",)


@pytest.mark.by_day(6)
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
@pytest.mark.parametrize(
    ("max_cases", "delta", "is_refused"),
    [
        (None, "1e-5", False),
        (None, "1.00000000001e-5", True),
        (10, "0.1", False),
        (10, "0.100000000001", True),
        (3, "0.333333333333", False),
        (3, "0.333333333334", True),
        (10**9, "1e-9", False),
        (10**9, "1.1e-9", True),
        (10**9, "1e-6", True),  # the default too, if many cases are declared
        (1, "0.5", False),
        (1, "0.6", True),
    ],
)
def test_delta_is_bounded_by_the_declared_number_of_cases(
    method: Method, max_cases: int | None, delta: str, is_refused: bool
) -> None:
    given: dict[str, Any] = {"epsilon": "1", "delta": delta, "max_cases": max_cases}
    given |= {"vocabulary": ("A",), "allow_large_delta": True}
    if is_refused:
        with pytest.raises(pydantic.ValidationError, match=r"delta|0\.5") as raised:
            method.Params(**given)
        said = "max_cases is not declared" if max_cases is None else "1/max_cases"
        assert said in str(raised.value) or max_cases == 1
        return
    params = method.Params(**given)
    assert params.budget == (1, Fraction(delta))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
@pytest.mark.parametrize("delta", ["1.00000000001e-5", "0.001", "0.5"])
def test_a_large_delta_is_permitted_by_a_flag_that_the_statement_repeats(
    method: Method, delta: str
) -> None:
    """`--delta 0.5 --max_cases 2` must not be called rigorous without a word."""
    given: dict[str, Any] = {"epsilon": "1", "delta": delta, "max_cases": 2, "vocabulary": ("A",)}
    for permission in ({}, {"allow_large_delta": False}):
        with pytest.raises(pydantic.ValidationError, match="or set allow_large_delta"):
            method.Params(**given, **permission)
    params = method.Params(**given, allow_large_delta=True)
    said = method.guarantee(params).not_covered[0]
    assert said.startswith(f"Delta {decimal_text(Fraction(delta))} is above 1e-5")
    assert params.resolved()["allow_large_delta"] is True

    # Where it permits nothing, it says nothing, and what was released before stays as it was.
    small = method.Params(**{**given, "delta": "1e-5"})
    assert not any("above 1e-5" in sentence for sentence in method.guarantee(small).not_covered)
    assert "allow_large_delta" not in small.resolved()


def test_a_scale_up_to_the_samplers_limit_is_drawable() -> None:
    assert drawable((LARGEST_SCALE, 1)) == (LARGEST_SCALE, 1)
    with pytest.raises(UsageError, match="raise epsilon or delta"):
        drawable((LARGEST_SCALE + 1, 1))
    with pytest.raises(UsageError, match="raise epsilon or delta"):
        drawable((2 * LARGEST_SCALE + 1, 2))


@pytest.mark.parametrize(
    ("method", "given_"),
    [
        (METHODS[0], {"epsilon": "1e-13"}),
        (METHODS[0], {"epsilon": "1e-10", "max_cases_per_individual": 1000}),
        (METHODS[1], {"epsilon": "1e-7", "l2_clip": 100_000, "vocabulary": ("A",)}),
        (METHODS[1], {"epsilon": "1e-7", "max_cases_per_individual": 1000, "vocabulary": ("A",)}),
        (
            METHODS[1],
            {"epsilon": "1e-7", "delta": "1e-300", "max_activities": 1000, "buy_vocabulary": True},
        ),
        (
            METHODS[1],
            {"epsilon": "1e-9", "delta": "0", "vocabulary": ("A",), "max_trace_length": 5000},
        ),
    ],
)
def test_noise_that_is_too_wide_is_refused_by_the_promise(
    method: Method, given_: dict[str, Any]
) -> None:
    params = method.Params(**given_)
    with pytest.raises(UsageError, match="raise epsilon"):
        method.guarantee(params)


LISTED = ("private-log", "private-dfg", "process-tree", "markov-log", "privtree")


@pytest.mark.parametrize("name", LISTED)
@pytest.mark.parametrize(
    ("epsilon", "found"),
    [("1", "finds activities of about [0-9]+ .* and of [0-9]+"), ("1e-13", "finds no activity")],
)
def test_a_vocabulary_that_is_not_declared_is_refused_at_any_epsilon(
    name: str, epsilon: str, found: str
) -> None:
    """With what buying would find, even if nothing could be bought."""
    with pytest.raises(pydantic.ValidationError, match=f"vocabulary is not declared.*{found}"):
        registry.METHODS[name].Params(epsilon=epsilon)


NAMES = ("01_HOOFD_010", "01_HOOFD_020", "02_DRZ_010", "done")
GROUP_METHODS = pytest.mark.parametrize("name", ["joint-variants", "private-log"])


def params_of(name: str, **given: Any) -> Any:
    return method_named(name).Params(**{"epsilon": "1", "vocabulary": NAMES, **given})


@pytest.mark.parametrize(
    ("depth", "groups"),
    [
        (1, ["01", "01", "02", "done"]),
        (2, ["01_HOOFD", "01_HOOFD", "02_DRZ", "done"]),
        (3, list(NAMES)),
    ],
)
def test_a_rule_takes_the_first_parts_of_a_name(depth: int, groups: list[str]) -> None:
    rule = Grouping(None, "_", depth)
    assert [rule.group(name) for name in NAMES] == groups
    made = rule.of(ActivityVocabulary.public(NAMES))
    labels = made.names.names.to_pylist()
    assert [labels[code] for code in made.codes] == [*groups[:3], "__other__", "done"]


def test_a_rule_never_gives_the_name_of_an_activity_of_another_group() -> None:
    names = ("a", "a_b", "a_b_c", "b", "_", "_a", "a__b")
    for depth in (1, 2, 3):
        rule = Grouping(None, "_", depth)
        groups = {rule.group(name) for name in names}
        assert all(group and rule.group(group) == group for group in groups)


@GROUP_METHODS
def test_a_plan_says_which_activities_are_groups_by_themselves(name: str) -> None:
    method = method_named(name)
    groups = {"01_HOOFD_010": "H", "01_HOOFD_020": "H", "gone": "H"}
    [sentence] = [
        text for text in method.explain(params_of(name, groups=groups)) if text[:6] == "groups"
    ]
    assert "3 of 4 declared activities" in sentence and "'02_DRZ_010', 'done'" in sentence
    assert "'gone', which no declared activity is" in sentence
    assert not any(text.startswith("groups") for text in method.explain(params_of(name)))
    bought = params_of(
        name, vocabulary=None, buy_vocabulary=True, group_separator="_", group_depth=2
    )
    assert any("bought name" in text for text in method.explain(bought))
