"""The trace-variant query: a reference prefix by prefix, what one unit changes, and exact laws.

Statistical tests reject at ALPHA = 1e-9 each and name their n and their control.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.generators import budget
from tests.support.keys import randomness
from tests.support.logs import Variant, histogram, variant_counts
from tests.support.privacy_loss import ONE, Law, delta_between
from tests.support.privacy_loss import discrete_laplace as laplace_law
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.queries.prefix_query import (
    LaplaceLevels,
    LevelQuery,
    trace_variant_query,
)
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import ActivityVocabulary

END = "end"  # as a symbol of naive prefixes
ZERO, MILLIONTH = Fraction(0), Fraction(1, 10**6)
NOT_SEEN = -(10**6)


def no_noise(stream: CellStream, numerator: int, denominator: int) -> np.ndarray:
    return np.zeros(len(stream), np.int64)


def asked(
    counts: Mapping[Variant, int],
    query: LevelQuery,
    names: Iterable[str] = "ABC",
    drawn: Randomness | None = None,
) -> dict[tuple[Variant, bool], int]:
    """The answer by (activities, whether they ended); checks its shape on the way."""
    words = sorted(names)
    found = trace_variant_query(
        histogram(counts, words), len(words), query, drawn or randomness(), "query"
    )
    assert found.offsets.dtype == found.counts.dtype == np.int64
    assert found.codes.dtype == np.int32 and found.is_ended.dtype == bool
    text = [words[code] for code in found.codes.tolist()]
    answer = {
        (tuple(text[first:last]), ended): count
        for first, last, ended, count in zip(
            found.offsets[:-1].tolist(),
            found.offsets[1:].tolist(),
            found.is_ended.tolist(),
            found.counts.tolist(),
            strict=True,
        )
    }
    assert len(answer) == len(found.counts)
    return answer


def reference(
    counts: Mapping[Variant, int], query: LevelQuery, names: str, drawn: Randomness
) -> dict[tuple[Variant, bool], int]:
    """The query as it is described: by recursion, each count by itself."""
    answer: dict[tuple[Variant, bool], int] = {}

    def visit(prefix: Variant, cell: np.ndarray) -> None:
        level = len(prefix) + 1
        for number, symbol in enumerate((*names, END)):
            if symbol == END and level == 1:
                continue
            if symbol == END:
                true = counts.get(prefix, 0)
            else:
                true = sum(n for v, n in counts.items() if v[:level] == (*prefix, symbol))
            own = drawn.words("query/prefix", cell, number)
            noise = query.draw(CellStream(drawn, "query/count", own), *query.scale)
            noisy = max(0, true + int(noise[0]))
            last = level == query.max_prefix_length
            spared = (symbol == END or last) and not query.prunes_last
            if noisy < query.threshold and not spared:
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
    st.integers(0, 5),
    st.booleans(),
    st.integers(0, 10**6),
)
@settings(max_examples=60, deadline=None)
def test_it_answers_what_the_reference_answers(
    counts: dict[Variant, int],
    n_levels: int,
    threshold: int,
    prunes_last: bool,
    number: int,
) -> None:
    query = LevelQuery(n_levels, (3, 2), threshold, prunes_last)
    answer = asked(counts, query, "ABC", randomness(number))
    assert answer == reference(counts, query, "ABC", randomness(number))
    again = asked(dict(reversed(counts.items())), query, "ABC", randomness(number))
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


def whole_law(counts: Mapping[Variant, int], query: LevelQuery, names: str, reach: int) -> Law:
    """The law of the answer as a set of (prefix, count), by recursion over the candidates."""

    def below(prefix: Variant) -> Law:
        level = len(prefix) + 1
        made = Law({frozenset(): (ONE, ONE)}, 0)
        for symbol in (*names, END):
            if symbol == END and level == 1:
                continue
            true = levels(counts, level)[level - 1][*prefix, symbol]
            noisy = laplace_law(Fraction(*query.scale), reach, true).map(
                lambda n: n if n >= query.threshold else NOT_SEEN
            )
            grows = symbol != END and level < query.max_prefix_length
            after = below((*prefix, symbol)) if grows else None
            chances: dict[Any, tuple[int, int]] = {}
            rest = noisy.rest
            for n, (low, high) in noisy.chances.items():
                if n == NOT_SEEN:
                    chances[frozenset()] = (low, high)
                elif after is None:
                    chances[frozenset({(*prefix, symbol, n)})] = (low, high)
                else:
                    # The noisy count of what grows is part of what is seen here.
                    for seen, (a, b) in after.chances.items():
                        outcome = seen | {(*prefix, symbol, n)}
                        chances[outcome] = ((low * a) >> 256, -((-high * b) >> 256))
                    rest += after.rest
            made = made.times(Law(chances, rest)).map(lambda pair: pair[0] | pair[1])
        return made

    return below(())


def test_the_whole_answer_loses_epsilon_and_no_less() -> None:
    """All logs of up to 2 cases A or AA, on two levels, with the counts of prefixes seen."""
    domain, epsilon = Domain(ActivityVocabulary(_array("A")), 2, 1), Fraction(4)
    query = query_of(domain, epsilon)
    assert query.scale == (1, 2) and query.threshold == 1
    laws = {
        (one, two): whole_law({("A",): one, ("A", "A"): two}, query, "A", 20)
        for one, two in itertools.product(range(3), repeat=2)
        if one + two <= 2
    }
    least = []
    for one, two in itertools.product(range(2), repeat=2):
        for more in ((one + 1, two), (one, two + 1)):
            if more in laws:
                assert delta_between(laws[one, two], laws[more], epsilon)[1] < 1e-12
                least.append(
                    delta_between(laws[one, two], laws[more], epsilon * Fraction(97, 100))[0]
                )
    assert min(least) > 1e-9


def _array(names: str) -> Any:
    return ActivityVocabulary.of(names).names


def test_too_many_candidates_are_refused_without_their_number() -> None:
    counts = {variant: 100 for variant in itertools.product("ABC", repeat=3)}
    query = LevelQuery(3, (1, 1), 10, max_candidates=35)
    with pytest.raises(UsageError, match="threshold 10 leaves prefixes that have more than 35 "):
        asked(counts, query)
    assert len(asked(counts, replace(query, max_candidates=36))) == 27


def test_or_those_of_the_largest_counts_are_kept() -> None:
    counts = {variant: 100 + 100 * i for i, variant in enumerate(itertools.product("ABC", "ABC"))}
    query = LevelQuery(2, (1, 1), 10, max_candidates=8, when_full="keep largest", draw=no_noise)
    assert {variant[0] for variant, _ in asked(counts, query)} == {"B", "C"}


@pytest.mark.parametrize("name", ["max_prefix_length", "threshold", "max_candidates"])
def test_a_query_out_of_range_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} must be at least"):
        LevelQuery(**{"max_prefix_length": 1, "scale": (1, 1), "threshold": 1, name: -1})


def query_of(domain: Domain, epsilon: Fraction | int) -> LevelQuery:
    means = budget(LaplaceLevels(), epsilon, 0, domain.max_units, domain.max_length).means
    return LaplaceLevels().query(domain, means["levels"])
