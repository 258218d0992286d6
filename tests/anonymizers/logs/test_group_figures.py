"""The graph of groups of a released log: its counts, its intervals, and how often they hold."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.support.generators import answer_of
from tests.support.keys import randomness
from tests.support.logs import Variant, histogram
from tracecloak.anonymizers.logs.log_figures import groups_of_log
from tracecloak.anonymizers.noise.sums import MeasureRecorder
from tracecloak.anonymizers.rigorous.names import Grouping
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.anonymizers.variants.grouped_variants import GroupedVariants
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.published import figures as sums
from tracecloak.schemas.published.figures import Measure, ReleasedMeasures
from tracecloak.schemas.published.graph import ReleasedGroups
from tracecloak.schemas.statistics.variants import VariantHistogram

VOCABULARY = ActivityVocabulary.of(["A1", "A2", "B1"])
MEMBERS = {"A1": "A", "A2": "A", "B1": "B"}
ROWS = [
    *(Measure(sums.GROUP, pair, 0.0, 0.0) for pair in MEMBERS.items()),
    Measure(sums.STEP, ("A", "B"), 98.0, 5.0),
    Measure(sums.STEP, ("▶", "A"), 104.0, 5.0),
    Measure(sums.STEP, ("B", "■"), 90.0, 5.0),
    Measure(sums.STEP, ("A", "A"), 8.0, 20.0),
    Measure(sums.STEP_NOT_SHOWN, (), 7.0, 5.0),
    *(Measure(sums.GROUP_POSITION, (), float(begin), 0.0) for begin in range(4)),
]
LOG: dict[Variant, int] = {("A1", "B1"): 80, ("A1", "A2", "B1"): 20}


def groups_of(clip: float, log: dict[Variant, int] | None = None) -> ReleasedGroups:
    rows = [*ROWS, Measure(sums.GROUP_CLIP, (), clip, 0.0)]
    variants = histogram(LOG if log is None else log, VOCABULARY.names.to_pylist())
    return groups_of_log(ReleasedMeasures.of(rows), variants, VOCABULARY)


def edges_of(groups: ReleasedGroups) -> dict[tuple[str, str], tuple[int, int, int]]:
    rows = groups.to_table().to_pylist()
    return {(r["source"], r["target"]): (r["count"], r["low"], r["high"]) for r in rows}


def test_counts_are_those_of_the_released_log_and_intervals_are_of_the_sums() -> None:
    """Nobody is clipped: 98 with a deviation of 5 is 88 to 108."""
    edges = edges_of(groups_of(100.0))
    assert {ends: count for ends, (count, _, _) in edges.items()} == {
        ("▶", "A"): 100, ("A", "A"): 20, ("A", "B"): 100, ("B", "■"): 100,
    }  # fmt: skip
    assert edges["A", "B"] == (100, 88, 108)
    assert edges["B", "■"] == (100, 80, 100)  # the count is above the interval of 80 to 99.8
    count, low, high = edges["A", "A"]
    assert low == 0 and high == pytest.approx(8 + 1.96 * 20, abs=1) and count == 20


def test_a_step_without_a_sum_has_the_limit_of_those_that_are_not_shown() -> None:
    """Nobody counted how often B leads to A: at most 7 and twice a deviation of 5."""
    edges = edges_of(groups_of(100.0, {**LOG, ("B1", "A1"): 3}))
    assert edges["B", "A"] == (3, 0, 17)


def test_intervals_hold_what_the_original_has() -> None:
    """95 % are meant; of some 60 steps of 8 releases, 53 do with a probability of about .99."""
    names = [f"{group}{i}" for group in "PQR" for i in range(4)]
    vocabulary = ActivityVocabulary.public(names)
    generator = np.random.default_rng(3)
    log: dict[Variant, int] = {}
    for _ in range(400):
        walk = tuple(f"{g}{generator.integers(4)}" for g in ("P", "Q", "QR"[_ % 2], "R"))
        log[walk] = log.get(walk, 0) + 1
    exact = histogram(log, vocabulary.names.to_pylist())
    truth = edges_of_exact(exact, vocabulary)
    generator_of = GroupedVariants(Grouping({name: name[0] for name in names}))
    n_right = n = 0
    for number in range(8):
        noting = MeasureRecorder()
        where = Domain(vocabulary, 6, 1)
        made = answer_of(
            generator_of, exact, where, Fraction(2), Fraction(1, 10**6),
            randomness(number).with_noise(noting),
        )  # fmt: skip
        codes = vocabulary.codes(made.names)[made.codes]
        released = VariantHistogram(encode_sequences(made.offsets, codes), made.counts)
        for ends, (_, low, high) in edges_of(
            groups_of_log(noting.measures, released, vocabulary)
        ).items():
            n += 1
            n_right += low <= truth.get(ends, 0) <= high
    assert n > 40 and n_right / n > 0.88


def edges_of_exact(
    exact: VariantHistogram, names: ActivityVocabulary
) -> dict[tuple[str, str], int]:
    truth: dict[tuple[str, str], int] = {}
    labels, ends = names.names.to_pylist(), exact.offsets.tolist()
    for row, count in enumerate(exact.counts.tolist()):
        of = [labels[code][0] for code in exact.codes[ends[row] : ends[row + 1]]]
        for pair in zip(["▶", *of], [*of, "■"], strict=True):
            truth[pair] = truth.get(pair, 0) + count
    return truth
