"""What is made up beside the variants that a histogram shows."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.support.keys import randomness
from tests.support.logs import Variant, histogram
from tracecloak.anonymizers.variants.auto import completed
from tracecloak.anonymizers.variants.generator import Domain, released
from tracecloak.schemas.events.vocabulary import ActivityVocabulary

NAMES = ("A", "B", "C", "D", "E")
VOCABULARY = ActivityVocabulary.public(NAMES)


def made(seen: Mapping[Variant, int], n_missing: float, max_length: int = 6) -> dict[Variant, int]:
    exact = histogram(seen, VOCABULARY.names.to_pylist())
    domain = Domain(VOCABULARY, max_length, 1)
    found = completed(exact, 15, n_missing, domain, randomness(), "test")
    rows = released(found, VOCABULARY).to_table().to_pylist()
    return {tuple(row["variant"]): row["count"] for row in rows}


SKIPS: dict[Variant, int] = {tuple("ABCDE"): 600, tuple("ACDE"): 200, tuple("ABCE"): 200}


def test_missing_cases_go_other_ways_through_what_was_seen() -> None:
    """B and D were skipped, never both: a case may skip both, and nothing else is new."""
    found = made(SKIPS, 100)
    assert {v: n for v, n in found.items() if v in SKIPS} == SKIPS
    others = {v: n for v, n in found.items() if v not in SKIPS}
    assert set(others) == {tuple("ACE")}
    assert others[tuple("ACE")] == pytest.approx(75, abs=1)


@pytest.mark.parametrize("n_missing", [0, -50, -1e9])
def test_where_nothing_is_missing_nothing_is_made_up(n_missing: float) -> None:
    assert made(SKIPS, n_missing) == SKIPS


def test_a_line_has_no_other_way() -> None:
    assert made({tuple("ABCDE"): 10}, 100) == {tuple("ABCDE"): 10}
    assert made({}, 100) == {}


def test_nothing_is_longer_than_cases_may_be() -> None:
    loop: dict[Variant, int] = {("A", "B", "A", "B"): 50, ("A", "B"): 100}
    assert max(len(v) for v in made(loop, 1000, max_length=5)) <= 5
