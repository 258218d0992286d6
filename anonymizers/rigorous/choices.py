"""Choices that spend epsilon and no delta, such as that of a quantile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from tracecloak.anonymizers.accounting.sensitivity import (
    of_count,
)
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.drawing import select
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.rigorous.budget import Choice
from tracecloak.anonymizers.rigorous.parts_method import Given, Part

_BESIDE = 20


def choose_quantile(
    cases: np.ndarray,
    epsilon: Fraction,
    quantile: Fraction,
    max_units: int,
    randomness: Randomness,
    purpose: str,
    shift: int | None = None,
    most_lost: int | None = None,
) -> int:
    """Returns the place on a public grid that about a share `quantile` of the cases reaches.

    Of a large log it is the place that all but `most_lost` cases reach, if that is further.

    Permute-and-flip. The score of g is 0 if #{values below g's bucket} <= quantile n <=
    #{values <= g}, and else minus the number of cases that it lacks to that. With
    -|#{values <= g} - quantile n| in its place, every g above a value that most cases share would
    be as good as any other, up to the largest of the grid. One case more changes each of the two
    differences, and so their maximum with 0, by at most max(quantile, 1 - quantile); with
    `most_lost`, where one case more raises the goal by up to 1, by at most 1. Spends epsilon and no
    delta.

    With a shift, what lies beyond all cases on its side can be chosen, too: for a lower rank the
    first place, whose score lacks all cases below the rank, and for a higher one the last. It
    counts twenty times as often as all places together, so where ranks cannot be told, such as of
    few cases, it is chosen rather than any place between.

    Args:
        cases: int64[n_grid+1], cases in each bucket of the grid; the last lie above it.
        epsilon: What the choice spends.
        quantile: The share; its denominator times the number of cases is below 2^63.
        max_units: Cases of one unit.
        randomness: The release's.
        purpose: What the choice is for; one of its own for each.
        shift: By how many cases the rank that is looked for is higher, not 0; public. None: by
            none, and nothing beyond all cases can be chosen.
        most_lost: See above; public. None: the share is all that counts.
    """
    q, scale = quantile.numerator, quantile.denominator
    reached = scale * np.cumsum(cases[:-1])
    before = np.concatenate([[0], reached[:-1]])
    total = int(cases.sum())
    goal = q * total if most_lost is None else max(q * total, scale * (total - most_lost))
    goal += scale * (shift or 0)
    scores = -np.maximum(np.maximum(before - goal, goal - reached), 0)
    n_beside = 0 if shift is None else _BESIDE * len(scores)
    beside = np.full(n_beside, -max(goal if (shift or 0) < 0 else scale * total - goal, 0))
    scores = np.concatenate([scores, beside])
    stream = CellStream(randomness, purpose, cell_numbers(np.arange(len(scores))))
    of_one = max(q, scale - q) if most_lost is None else scale
    changed = of_count(of_one).of_cases(max_units)
    place = select(stream, scores, epsilon, Fraction(changed.linf))
    if place < len(reached):
        return place
    return 0 if (shift or 0) < 0 else len(reached) - 1


def choice_part(
    name: str,
    sentence: str,
    decide: Callable[[Given], Any],
    counters: Mapping[str, contract.Counter],
    share: Fraction,
    round_name: str = "",
) -> Part:
    """Returns a part that chooses something without a delta.

    Args:
        name: What is chosen; the name of its round too, unless one is given.
        sentence: What it does.
        decide: Chooses.
        counters: What is counted for it.
        share: Of epsilon.
        round_name: Where it is chosen.
    """
    needs, chosen = (Choice(name, share),), name.replace("_", " ")
    return Part(
        name, needs, lambda means: sentence, decide, counters, round_name or name, chosen=chosen
    )
