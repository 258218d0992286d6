"""`laplace-variants`: what each profile asks, what it costs by exact laws, and what an audit finds.

Statistical tests reject at 1e-9 each or less and name their control.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pydantic
import pytest

from tests.support.keys import release_key
from tests.support.logs import Variant, trace_batch
from tests.support.privacy_loss import (
    ONE,
    Law,
    delta_between,
    integer_part_of_laplace,
)
from tests.support.privacy_loss import discrete_laplace as laplace_law
from tracecloak.anonymizers.accounting.composition import total
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.queries import prefix_method
from tracecloak.anonymizers.queries.prefix_query import PrefixCounts
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.variants import ReleasedVariants

METHOD = prefix_method.LaplaceVariants()
PUBLISHED: dict[str, Any] = {"epsilon": "1", "max_prefix_length": 3, "p_harmful": 4}
WITH_NAMES: dict[str, Any] = {**PUBLISHED, "vocabulary": ("A", "B")}


def params_of(**given: Any) -> prefix_method.LaplaceVariantsParams:
    return prefix_method.LaplaceVariantsParams(**given)


def released(
    log: TraceBatch, params: prefix_method.LaplaceVariantsParams, number: int = 0
) -> dict[Variant, int]:
    made = anonymise([log], METHOD, params, release_key(number), "release", "configuration")
    variants: ReleasedVariants = made.products.by_name["variants"]
    [cases] = made.traces
    assert cases.n_cases == variants.n_cases
    rows = variants.to_table().to_pylist()
    found = {tuple(row["variant"]): row["count"] for row in rows}
    assert len(found) == len(rows)
    return found


def log_of(counts: Mapping[str, int]) -> TraceBatch:
    texts = itertools.chain.from_iterable([variant] * n for variant, n in counts.items())
    return trace_batch({f"c{i}": " ".join(text) for i, text in enumerate(texts)})


def test_only_the_reference_spares_what_ended_and_the_last_level() -> None:
    """Counts below the threshold of 60 come out in the reference alone."""
    log = log_of({"A": 30, "AB": 500})
    for number in range(5):
        spared = released(log, params_of(**{**PUBLISHED, "p_harmful": 60}), number)
        assert 0 < spared["A",] < 60
        pruned = released(log, params_of(**{**PUBLISHED, "p_harmful": 60}, profile="paper"), number)
        assert set(pruned) == {("A", "B")}


def test_too_many_candidates_are_refused_with_the_mend_and_without_a_number_of_them() -> None:
    names = tuple(f"a{i}" for i in range(300))
    wide = params_of(epsilon="0.01", max_prefix_length=5, p_harmful=1, vocabulary=names)
    with pytest.raises(
        UsageError, match="p_harmful 1 leaves prefixes that have more than 4,194,304 continuations"
    ):
        released(log_of({"A": 5}), wide)


def test_a_log_of_too_many_events_is_refused_with_the_mend_and_without_their_number() -> None:
    none, words = np.zeros(0, np.int64), ActivityVocabulary.of("A")
    wide = PrefixCounts(np.array([0, 3]), np.zeros(3, np.int32), np.array([10**9]), none == 0)
    params = params_of(epsilon="1", max_prefix_length=3, p_harmful=1)
    with pytest.raises(UsageError, match=r"those of more than 67,108,864 events, .*raise the prun"):
        prefix_method.decision_of(wide, words, params, None)
    near = replace(wide, counts=np.array([10**7]))
    assert prefix_method.decision_of(near, words, params, None).variants.n_cases == 10**7


def test_an_honest_budget_is_not_refused_by_its_noise() -> None:
    """As many cases come out as there is room for, in proportion, and then without intervals."""
    words = ActivityVocabulary.of(["A", "B"])
    counts = np.array([10**9, 3 * 10**9, 5])
    codes = np.array([0, 0, 1, 1, 1], np.int32)
    wide = PrefixCounts(np.array([0, 2, 4, 5]), codes, counts, np.zeros(3, bool))
    given = {"epsilon": "1", "max_prefix_length": 2, "p_harmful": 1, "vocabulary": ("A", "B")}
    params = params_of(**given, budget="honest")
    assert params.query.when_full == "keep largest"
    made = prefix_method.decision_of(wide, words, params, 4).variants
    assert made.n_cases == 10**7
    assert made.n_variants == 2 and made.lows is None
    assert made.counts[0] == pytest.approx(3 * made.counts[1], rel=1e-6)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({**PUBLISHED, "budget": "honest"}, "honest needs a public vocabulary"),
        ({**PUBLISHED, "p_harmful": 0}, "p_harmful"),
        ({**PUBLISHED, "max_prefix_length": 0}, "max_prefix_length"),
        ({**PUBLISHED, "epsilon": "0"}, "epsilon"),
        ({**PUBLISHED, "max_cases_per_individual": 0}, "max_cases_per_individual"),
    ],
)
def test_parameters_out_of_range_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=told):
        params_of(**given)


def positive_law(scale: Fraction, reach: int, count: int) -> Law:
    """A count with discrete Laplace noise, given that it comes out above 0."""
    law = laplace_law(scale, reach, count)
    kept = {n: chance for n, chance in law.chances.items() if n > 0}  # type: ignore[operator]
    low = sum(a for a, _ in kept.values())
    high = sum(b for _, b in kept.values()) + law.rest
    return Law(
        {n: (a * ONE // high, -(-b * ONE // low)) for n, (a, b) in kept.items()},
        -(-law.rest * ONE // low),
    )


FORMS: dict[str, Callable[[Fraction, int, int], Law]] = {
    "discrete": laplace_law,
    "truncated": integer_part_of_laplace,
    "positive": positive_law,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
def test_a_level_costs_what_is_said_and_hardly_less(form: Any, epsilon: str) -> None:
    """All counts up to 4 and one case more, by the exact laws; 2 % less would not hold."""
    params = params_of(**{**WITH_NAMES, "epsilon": epsilon, "max_prefix_length": 1})
    stated = prefix_method.epsilon_in_all(params, form)
    scale = Fraction(*params.scale)
    reach = math.ceil(60 * scale)
    laws = [FORMS[form](scale, reach, count) for count in range(6)]
    missed = []
    for law, more in itertools.pairwise(laws):
        assert delta_between(law, more, stated)[1] < 1e-20
        missed.append(delta_between(law, more, stated * Fraction(98, 100))[0])
    assert max(missed) > 1e-5


@pytest.mark.parametrize("form", FORMS)
def test_cases_of_one_unit_and_levels_add_up(form: Any) -> None:
    """A unit of two cases in one count or in two, on two levels, as products of the exact laws."""
    params = params_of(**{**WITH_NAMES, "max_prefix_length": 2, "max_cases_per_individual": 2})
    scale = Fraction(*params.scale)
    law = [FORMS[form](scale, 80, count) for count in range(3)]
    stated = prefix_method.epsilon_in_all(params, form)
    per_level = stated / 2
    assert delta_between(law[0], law[2], per_level)[1] < 1e-12
    apart = law[1].times(law[1]), law[0].times(law[0])
    assert delta_between(*apart, per_level)[1] < 1e-12
    if form == "truncated":  # attained: both counts come out as 0, or both as 1
        assert delta_between(*apart, per_level * Fraction(98, 100))[0] > 1e-4


def test_the_stated_epsilons() -> None:
    """10 and 23 levels at epsilon 1: 10 and 23, or 16.9 and 38.9 with noise cut off."""

    def held(profile: str, levels: int, **more: Any) -> float:
        given = {**WITH_NAMES, "max_prefix_length": levels, "profile": profile, **more}
        guarantee = METHOD.guarantee(params_of(**given))
        assert guarantee.kind == "published" and guarantee.epsilon is not None
        assert total(METHOD.spends(params_of(**given)))[0] == pytest.approx(
            Fraction(guarantee.epsilon)
        )
        return guarantee.epsilon

    assert held("paper", 10) == 10
    assert held("paper", 23) == 23
    assert held("reference", 10) == pytest.approx(16.931, abs=1e-3)
    assert held("reference", 23) == pytest.approx(38.942, abs=1e-3)
    assert held("reference", 23, epsilon="0.1") == pytest.approx(18.242, abs=1e-3)
    assert held("paper", 10, max_cases_per_individual=3) == pytest.approx(10)
