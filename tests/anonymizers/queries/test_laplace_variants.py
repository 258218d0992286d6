"""The trace-variant query against a reference, what a unit changes, what each profile costs."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.generators import budget
from tests.support.keys import randomness
from tests.support.logs import Variant, histogram, log_of, variant_counts
from tests.support.privacy_loss import (
    ONE,
    Law,
    delta_between,
    integer_part_of_laplace,
)
from tests.support.privacy_loss import discrete_laplace as laplace_law
from tests.support.rounds import released_variants
from tracecloak.anonymizers.accounting.composition import total
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.queries import prefix_method
from tracecloak.anonymizers.queries.prefix_query import (
    LaplaceLevels,
    LevelQuery,
    trace_variant_query,
)
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.variants import VariantHistogram

END = "end"  # as a symbol of naive prefixes
ZERO, MILLIONTH = Fraction(0), Fraction(1, 10**6)


def no_noise(stream: CellStream, numerator: int, denominator: int) -> np.ndarray:
    return np.zeros(len(stream), np.int64)


def asked(
    counts: Mapping[Variant, int],
    query: LevelQuery,
    names: Iterable[str] = "ABC",
    drawn: Randomness | None = None,
    judge: Any = None,
) -> dict[tuple[Variant, bool], int]:
    """The answer by (activities, whether they ended); checks its shape on the way."""
    words = sorted(names)
    found = trace_variant_query(
        histogram(counts, words), len(words), query, drawn or randomness(), "query", judge
    )
    assert found.counts.dtype == np.int64
    text = [words[code] for code in found.codes.tolist()]
    prefixes = [tuple(text[a:b]) for a, b in itertools.pairwise(found.offsets.tolist())]
    ended = [len(prefix) < query.max_prefix_length for prefix in prefixes]
    return dict(zip(zip(prefixes, ended, strict=True), found.counts.tolist(), strict=True))


def odd_judge(
    prefixes: np.ndarray, cells: np.ndarray, is_candidate: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Harmful is what has an odd sum of codes; of that, what is odd in its last code counts."""
    last = np.tile(np.arange(4), len(prefixes))
    sums = np.repeat(prefixes.sum(axis=1), 4) + last
    is_harmful = is_candidate & (sums % 2 == 1)
    return is_harmful, is_candidate & (~is_harmful | (last % 2 == 1))


def reference(
    counts: Mapping[Variant, int], query: LevelQuery, drawn: Randomness, is_judged: bool
) -> dict[tuple[Variant, bool], int]:
    """The query as it is described: by recursion, each count by itself."""
    answer: dict[tuple[Variant, bool], int] = {}

    def visit(prefix: Variant, cell: np.ndarray) -> None:
        level = len(prefix) + 1
        for number, symbol in enumerate((*"ABC", END)):
            if symbol == END and level == 1:
                continue
            is_harmful = is_judged and (sum(map("ABC".index, prefix)) + number) % 2 == 1
            is_counted = not is_harmful or number % 2 == 1
            if not is_counted and not query.keeps_uncounted:
                continue
            if symbol == END:
                true = counts.get(prefix, 0)
            else:
                true = sum(n for v, n in counts.items() if v[:level] == (*prefix, symbol))
            own = drawn.words("query/prefix", cell, number)
            noise = query.draw(CellStream(drawn, "query/count", own), *query.scale)
            noisy = max(0, true + int(noise[0]) * is_counted)
            last = level == query.max_prefix_length
            spared = (symbol == END or last) and not query.prunes_last
            if noisy < (query.harmful_threshold if is_harmful else query.threshold):
                if not spared:
                    continue
            if symbol == END:
                answer[prefix, True] = noisy
            elif last:
                answer[(*prefix, symbol), False] = noisy
            else:
                visit((*prefix, symbol), own)

    visit((), cell_numbers(np.zeros(1, np.int64)))
    return answer


@given(
    variant_counts(max_length=5),
    st.integers(1, 4),
    st.tuples(st.integers(0, 5), st.integers(0, 6)),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
    st.integers(0, 10**6),
)
@settings(max_examples=100, deadline=None)
def test_it_answers_what_the_reference_answers(
    counts: dict[Variant, int],
    n_levels: int,
    thresholds: tuple[int, int],
    flags: tuple[bool, bool, bool],
    number: int,
) -> None:
    """With the judge of SaCoFa or one like it, and without any."""
    prunes_last, keeps_uncounted, is_judged = flags
    query = LevelQuery(
        n_levels,
        (3, 2),
        thresholds[0],
        prunes_last,
        harmful_threshold=thresholds[1],
        keeps_uncounted=keeps_uncounted,
    )
    judge = odd_judge if is_judged else None
    answer = asked(counts, query, "ABC", randomness(number), judge)
    assert answer == reference(counts, query, randomness(number), is_judged)
    again = asked(dict(reversed(counts.items())), query, "ABC", randomness(number), judge)
    assert list(answer.items()) == list(again.items())


def levels(counts: Mapping[Variant, int], n_levels: int) -> list[Counter[Any]]:
    """The true counts of all possible candidates, level by level."""
    found: list[Counter[Any]] = [Counter() for _ in range(n_levels)]
    for variant, n in counts.items():
        for level, counter in enumerate(found, 1):
            if level <= len(variant):
                counter[variant[:level]] += n
            elif level == len(variant) + 1:
                counter[*variant, END] += n
    return found


def small_logs(n_cases: int, max_length: int) -> Iterator[Counter[Variant]]:
    variants = [
        variant
        for length in range(1, max_length + 1)
        for variant in itertools.product("AB", repeat=length)
    ]
    for cases in itertools.combinations_with_replacement(variants, n_cases):
        yield Counter(cases)


@pytest.mark.parametrize("units", [1, 2])
def test_a_unit_spends_the_budget_if_it_is_as_long_as_there_are_levels(units: int) -> None:
    """All units of up to 2 cases over 2 activities, of up to 3 events, beside another case."""
    domain = Domain(ActivityVocabulary.public("AB"), 3, units)
    query = query_of(domain, 1)
    assert query is not None
    per_count = 1 / Fraction(*query.scale)
    worst = ZERO
    before = Counter({("A", "B"): 1})
    for unit in small_logs(units, 3):
        changes = [
            sum(abs(after[cell] - b[cell]) for cell in after.keys() | b.keys())
            for after, b in zip(levels(before + unit, 3), levels(before, 3), strict=True)
        ]
        assert all(change <= units for change in changes)
        spent = sum(changes) * per_count
        assert spent <= 1
        if min(map(len, unit)) >= 2:  # its end or its last event is on the last level
            assert spent == 1
        worst = max(worst, spent)
    assert worst == 1


def test_too_many_candidates_are_refused_without_their_number() -> None:
    counts = {variant: 100 for variant in itertools.product("ABC", repeat=3)}
    query = LevelQuery(3, (1, 1), 10, max_candidates=35)
    with pytest.raises(UsageError, match="threshold 10 leaves prefixes that have"):
        asked(counts, query)
    assert len(asked(counts, replace(query, max_candidates=36))) == 27


def test_or_those_of_the_largest_counts_are_kept() -> None:
    counts = {variant: 100 + 100 * i for i, variant in enumerate(itertools.product("ABC", "ABC"))}
    query = LevelQuery(2, (1, 1), 10, max_candidates=8, when_full="keep largest", draw=no_noise)
    assert {variant[0] for variant, _ in asked(counts, query)} == {"B", "C"}


def query_of(domain: Domain, epsilon: Fraction | int) -> LevelQuery:
    means = budget(LaplaceLevels(), epsilon, 0, domain.max_units, domain.max_length).means
    return LaplaceLevels().query(domain, means["levels"])


METHOD = prefix_method.LaplaceVariants()
PUBLISHED: dict[str, Any] = {"epsilon": "1", "max_prefix_length": 3, "p_harmful": 4}
WITH_NAMES: dict[str, Any] = {**PUBLISHED, "vocabulary": ("A", "B")}


def params_of(**given: Any) -> prefix_method.LaplaceVariantsParams:
    return prefix_method.LaplaceVariantsParams(**given)


def released(
    log: TraceBatch, params: prefix_method.LaplaceVariantsParams, number: int = 0
) -> dict[Variant, int]:
    return released_variants(METHOD, log, params, number)


def test_only_the_reference_spares_what_ended_and_the_last_level() -> None:
    """Counts below the threshold of 60 come out in the reference alone."""
    log = log_of({"A": 30, "AB": 500})
    for number in range(5):
        spared = released(log, params_of(**{**PUBLISHED, "p_harmful": 60}), number)
        assert 0 < spared["A",] < 60
        pruned = released(log, params_of(**{**PUBLISHED, "p_harmful": 60}, profile="paper"), number)
        assert set(pruned) == {("A", "B")}


def test_a_log_of_too_many_events_is_refused_with_the_mend_and_without_their_number() -> None:
    words, one = ActivityVocabulary.of("A"), histogram({tuple("AAA"): 1}, "A")
    wide = VariantHistogram(one.sequences, np.array([10**9]))
    params = params_of(epsilon="1", max_prefix_length=3, p_harmful=1)
    with pytest.raises(UsageError, match=r"those of more than 67,108,864 events,"):
        prefix_method.decision_of(wide, words, params)
    near = VariantHistogram(one.sequences, np.array([10**7]))
    assert prefix_method.decision_of(near, words, params).variants.n_cases == 10**7


def test_an_honest_budget_is_not_refused_by_its_noise() -> None:
    """As many cases come out as there is room for, in proportion, and then without intervals."""
    words = ActivityVocabulary.of(["A", "B"])
    some = histogram({tuple("AA"): 1, ("B",): 1, tuple("BB"): 1}, "AB")
    wide = VariantHistogram(some.sequences, np.array([10**9, 5, 3 * 10**9]))
    given = {"epsilon": "1", "max_prefix_length": 2, "p_harmful": 1, "vocabulary": ("A", "B")}
    params = params_of(**given, budget="honest")
    assert params.query.when_full == "keep largest"
    made = prefix_method.decision_of(wide, words, params).variants
    assert made.n_cases == 10**7
    assert made.n_variants == 2 and made.lows is None
    assert made.counts[0] == pytest.approx(3 * made.counts[1], rel=1e-6)


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


class OfForm(prefix_method.LaplaceVariantsParams):
    law: Any

    @property
    def form(self) -> Any:
        return self.law


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
def test_a_level_costs_what_is_said_and_hardly_less(form: Any, epsilon: str) -> None:
    """All counts up to 4 and one case more, by the exact laws; 2 % less would not hold."""
    params = OfForm(**{**WITH_NAMES, "epsilon": epsilon, "max_prefix_length": 1}, law=form)
    stated = prefix_method.epsilon_in_all(params)
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
    more = {"max_prefix_length": 2, "max_cases_per_individual": 2}
    params = OfForm(**{**WITH_NAMES, **more}, law=form)
    scale = Fraction(*params.scale)
    law = [FORMS[form](scale, 80, count) for count in range(3)]
    stated = prefix_method.epsilon_in_all(params)
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
