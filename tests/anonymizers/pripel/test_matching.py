"""Released sequences are matched with cases of the log at the smallest sum of edits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from tests.support.logs import Variant, histogram, read_variants, variant_counts
from tracecloak.anonymizers.queries import pripel
from tracecloak.schemas.errors import UsageError

NAMES = "ABC"


def edits(a: Variant, b: Variant) -> int:
    """Levenshtein's distance by its recursion, row by row."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above = row
        row = [i]
        for j, y in enumerate(b, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (x != y)))
    return row[-1]


def smallest_cost(released: Mapping[Variant, int], raw: Mapping[Variant, int]) -> int:
    """By a matrix of all sequences by all cases, as PRIPEL's authors do it."""
    uses = -(-sum(released.values()) // sum(raw.values()))
    rows = [v for v, n in released.items() for _ in range(n)]
    columns = [v for v, n in raw.items() for _ in range(n * uses)]
    matrix = np.array([[edits(a, b) for b in columns] for a in rows])
    return int(matrix[linear_sum_assignment(matrix)].sum())


def check(
    found: pripel.VariantMatching,
    released: Mapping[Variant, int],
    raw: Mapping[Variant, int],
) -> None:
    """Every sequence is matched once, no case too often, and the cost is that of the pairs."""
    ours, theirs = (list(read_variants(histogram(side), NAMES)) for side in (released, raw))
    uses = -(-sum(released.values()) // sum(raw.values()))
    sent: Counter[Variant] = Counter()
    taken: Counter[Variant] = Counter()
    cost = 0
    for j, i, n in zip(found.raw, found.released, found.cases, strict=True):
        assert n > 0
        sent[ours[i]] += int(n)
        taken[theirs[j]] += int(n)
        cost += int(n) * edits(ours[i], theirs[j])
    assert dict(sent) == dict(released)
    assert all(n <= uses * raw[variant] for variant, n in taken.items())
    assert cost == found.cost
    pairs = list(zip(found.raw.tolist(), found.released.tolist(), strict=True))
    assert pairs == sorted(set(pairs))


@given(
    variant_counts(max_length=6).filter(lambda counts: 0 < sum(counts.values()) < 40),
    variant_counts(max_length=6).filter(lambda counts: 0 < sum(counts.values()) < 30),
)
def test_the_sum_of_edits_is_that_of_an_optimal_assignment_of_cases(
    released: dict[Variant, int], raw: dict[Variant, int]
) -> None:
    found = pripel.match_variants(histogram(released), histogram(raw))
    check(found, released, raw)
    assert found.cost == smallest_cost(released, raw)


@pytest.mark.parametrize("limit", ["MAX_PAIRS", "MAX_DISTANCES"])
def test_too_many_pairs_are_refused_without_a_number_of_the_log(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    released = {("A",) * n: 1 for n in range(1, 8)}
    raw = {("B",) * n: 1 for n in range(1, 8)}
    monkeypatch.setattr(pripel, limit, 7 * 7)
    pripel.match_variants(histogram(released), histogram(raw))
    monkeypatch.setattr(pripel, limit, 3)
    with pytest.raises(UsageError, match=r"raise p_harmful or epsilon, or lower") as raised:
        pripel.match_variants(histogram(released), histogram(raw))
    assert "49" not in str(raised.value)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_transport_is_optimal_for_any_costs(seed: int) -> None:
    """Costs that are no distances, and few columns to spare, so that prices must move."""
    draw = np.random.default_rng(seed)
    n, m = draw.integers(1, 9, 2)
    supply = draw.integers(1, 6, n)
    capacity = draw.integers(1, 6, m)
    capacity[0] += max(int(supply.sum() - capacity.sum()) + int(draw.integers(0, 3)), 0)
    costs = draw.integers(0, 50, (n, m))
    rows, columns = np.divmod(np.arange(n * m), m)
    sent = pripel.transport(pripel.CandidatePairs(rows, columns, costs.ravel()), supply, capacity)
    flows = sent.reshape(n, m)
    assert (flows >= 0).all()
    assert (flows.sum(axis=1) == supply).all()
    assert (flows.sum(axis=0) <= capacity).all()
    matrix = np.repeat(np.repeat(costs, supply, axis=0), capacity, axis=1)
    assert (flows * costs).sum() == matrix[linear_sum_assignment(matrix)].sum()
