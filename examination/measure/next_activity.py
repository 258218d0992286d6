"""How well the next activity of a case is foretold by who learnt it from a release.

A trigram with back-off (Katz, 1987, without discounts) is trained on the release: after the last
two activities of a case it foretells what followed them most often there, or ended the case; after
two that the release does not have together, what followed the last one most often; else what
followed most often at all. It is tested on a fifth of the original's cases ("train on synthetic,
test on real": Esteban, Hyland and Rätsch, 2017).

Pure functions of arrays; both logs are of one vocabulary. Every figure is exact about private data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracecloak.schemas.arrays.hashing import hash_text
from tracecloak.schemas.arrays.merging import sum_by_key
from tracecloak.schemas.events.traces import TraceBatch

_TESTED_IN = 5


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequences of activities with weights: cases, or variants with their numbers of cases.

    Attributes:
        offsets: int64[n + 1], where each begins in `codes`.
        codes: int32[n_positions].
        weights: int64[n].
    """

    offsets: np.ndarray
    codes: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, traces: TraceBatch) -> Sequences:
        """Returns the cases of a log."""
        return cls(traces.offsets, traces.activities, np.ones(traces.n_cases, np.int64))


def fifth_of(traces: TraceBatch) -> TraceBatch:
    """Returns about a fifth of the cases: always the same, by a public hash of their ids."""
    is_tested = hash_text(traces.case_ids) % np.uint64(_TESTED_IN) == 0
    return traces.take(np.flatnonzero(is_tested))


def next_activity_accuracy(trained: Sequences, tested: Sequences, n_names: int) -> float | None:
    """Returns the share of events whose successor, or end of case, is foretold.

    Args:
        trained: Of the release.
        tested: Of the original.
        n_names: Codes are below it.

    Returns:
        From 0 to 1; 0 if nothing was learnt, None if there is no event to test.
    """
    before, last, following, weight = _steps(tested, n_names)
    if not weight.sum():
        return None
    learnt = _steps(trained, n_names)
    width = n_names + 1
    pairs = _Best.of(learnt[0] * width + learnt[1], learnt[2], learnt[3], width)
    single = _Best.of(learnt[1], learnt[2], learnt[3], width)
    always = _Best.of(np.zeros_like(learnt[1]), learnt[2], learnt[3], width)
    guesses = pairs.after(before * width + last)
    guesses = np.where(guesses < 0, single.after(last), guesses)
    guesses = np.where(guesses < 0, always.after(np.zeros_like(last)), guesses)
    return float(weight[guesses == following].sum() / weight.sum())


def _steps(log: Sequences, n_names: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of each event: what came before it, itself, what follows it, and its weight.

    Before the first comes, and after the last follows, the code n_names.
    """
    codes = log.codes.astype(np.int64)
    n = len(codes)
    is_first, is_last = np.zeros(n, bool), np.zeros(n, bool)
    filled = np.diff(log.offsets) > 0
    is_first[log.offsets[:-1][filled]] = True
    is_last[log.offsets[1:][filled] - 1] = True
    before = np.where(is_first, n_names, np.roll(codes, 1))
    following = np.where(is_last, n_names, np.roll(codes, -1))
    return before, codes, following, np.repeat(log.weights, np.diff(log.offsets))


@dataclass(frozen=True, eq=False)
class _Best:
    """What followed most often after each context; of equals the smallest code."""

    contexts: np.ndarray
    following: np.ndarray

    @classmethod
    def of(
        cls, contexts: np.ndarray, following: np.ndarray, weight: np.ndarray, width: int
    ) -> _Best:
        keys, totals = sum_by_key(contexts * width + following, weight)
        keys, totals = keys[totals > 0], totals[totals > 0]
        order = np.lexsort((keys, -totals, keys // width))
        contexts_of = keys[order] // width
        first = np.flatnonzero(np.diff(contexts_of, prepend=-1))
        return cls(contexts_of[first], keys[order][first] % width)

    def after(self, contexts: np.ndarray) -> np.ndarray:
        """int64[n], what is foretold; -1 where the context was not seen."""
        if not len(self.contexts):
            return np.full(len(contexts), -1, np.int64)
        place = np.minimum(np.searchsorted(self.contexts, contexts), len(self.contexts) - 1)
        return np.where(self.contexts[place] == contexts, self.following[place], -1)
