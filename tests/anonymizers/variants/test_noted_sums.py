"""What `joint-variants` notes beside its cases: the sums, under the noise that it drew."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from tests.support.generators import answer_of
from tests.support.keys import randomness
from tests.support.logs import Variant, histogram
from tests.support.silence import Silence
from tracecloak.anonymizers.noise.drawing import Noise
from tracecloak.anonymizers.noise.sums import MeasureRecorder
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.anonymizers.variants.joint_variants import JointVariants
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.published import figures
from tracecloak.schemas.published.figures import ReleasedMeasures
from tracecloak.schemas.published.variants import ReleasedVariants

VOCABULARY = ActivityVocabulary.public(("A", "B", "C"))
LOG: dict[Variant, int] = {("A", "B"): 500, ("A", "C", "B"): 200, ("A", "B", "B"): 100, ("C",): 1}


def noted(noise: Noise, epsilon: int = 2) -> tuple[ReleasedVariants, ReleasedMeasures]:
    noting = MeasureRecorder(noise)
    exact = histogram(LOG, VOCABULARY.names.to_pylist())
    listened = randomness(1).with_noise(noting)
    where = Domain(VOCABULARY, 5, 1)
    made = answer_of(JointVariants(), exact, where, Fraction(epsilon), Fraction(1, 10**6), listened)
    return made, noting.measures


def arcs_of(log: dict[Variant, int]) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for variant, n in log.items():
        for ends in zip(("▶", *variant), (*variant, "■"), strict=True):
            found[ends] += n
    return found


def test_without_noise_the_sums_are_those_of_the_log() -> None:
    """The clip takes a little of the arcs, and of nothing else."""
    made, sums = noted(Silence())
    assert {row.value for row in sums.rows(figures.CASES)} == {801.0}
    released = {tuple(row["variant"]): row["count"] for row in made.to_table().to_pylist()}
    arcs, expected = {row.of: row.value for row in sums.rows(figures.ARC)}, arcs_of(LOG)
    assert set(arcs) == set(arcs_of(released))
    assert all(0.5 * expected[ends] <= value <= expected[ends] for ends, value in arcs.items())
    seen = {row.of: row.value for row in sums.rows(figures.VARIANT)}
    assert seen == {variant: n for variant, n in LOG.items() if n > 1}
    times = {row.of: row.value for row in sums.rows(figures.OCCURRENCES) if row.value}
    assert times["B", "1", "1"] == 700 and times["B", "2", "2"] == 100
    assert times["A", "1", "1"] == 800
    totals = {row.of: row.value for row in sums.rows(figures.ACTIVITY)}
    assert 0.5 * 900 <= totals["B",] <= 900 and totals["__other__",] == 0
    [events] = sums.rows(figures.EVENTS)
    assert 0.5 * 1901 <= events.value <= 1901


def test_a_variant_below_the_threshold_is_never_noted() -> None:
    _, sums = noted(Silence())
    [least] = sums.rows(figures.LEAST_OF_VARIANT)
    assert least.value > 1 and least.deviation == 0
    assert ("C",) not in {row.of for row in sums.rows(figures.VARIANT)}


@pytest.mark.parametrize("epsilon", [1, 4])
def test_the_noise_has_the_deviation_that_is_noted(epsilon: int) -> None:
    """Of sums without noise and with it: their differences, in deviations, are standard normal."""
    exact = {(row.what, row.of): row.value for row in noted(Silence(), epsilon)[1].rows()}
    rows = [row for row in noted(Noise(), epsilon)[1].rows() if row.deviation]
    kinds = {figures.CASES, figures.VARIANT, figures.OCCURRENCES, figures.EVENTS}
    drawn = [
        (row.value - exact[row.what, row.of]) / row.deviation
        for row in rows
        if row.what in kinds and (row.what, row.of) in exact
    ]
    assert len(drawn) > 8
    assert 0.3 < float(np.std(drawn)) < 2
