"""Contribution bounding: what one privacy unit may contribute at most, before anything is counted.

Every bound is a public number or a public list, and every choice within it is a function of one
unit's own events and the key. So adding or removing a unit changes its own bounded cases and no
other's, and a sensitivity computed for the bounded log (`anonymizers.accounting.sensitivity`) holds
for the log itself. This is the usual front end of user-level differential privacy: Wilson, Zhang,
Lam, Desfontaines, Simmons-Marengo, Gipson: Differentially Private SQL with Bounded User
Contribution, PoPETs 2020.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.schemas.arrays.merging import ranks_within
from tracecloak.schemas.errors import UsageError, check_least
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import INDIVIDUAL_ID, TraceBatch


@dataclass(frozen=True)
class ContributionBounds:
    """Public caps on the cases of a log; None is no cap.

    Does not change times.

    Attributes:
        vocabulary: The public activities; all others become OTHER, and no event is lost.
        max_trace_length: Events of a case, at least 1; those after them are cut off.
        max_cases_per_individual: Cases of an individual, at least 1; of more, so many are sampled.
        closed: Whether there are no others: their events are left out then, wherever they are from.

    Raises:
        UsageError: A cap is below 1.
    """

    vocabulary: tuple[str, ...] | None = None
    max_trace_length: int | None = None
    max_cases_per_individual: int | None = None
    closed: bool = False

    def __post_init__(self) -> None:
        check_least(
            1,
            max_trace_length=self.max_trace_length,
            max_cases_per_individual=self.max_cases_per_individual,
        )

    def bound(self, traces: TraceBatch, randomness: Randomness) -> TraceBatch:
        """Brings the cases of a batch under the caps; cases keep their order.

        Args:
            traces: Complete cases; with `max_cases_per_individual`, of complete individuals.
            randomness: A stream that does not depend on the input (`Randomness.unit_stream`): it
                decides which cases of an individual are sampled, and must decide the same whatever
                else is in the log.

        Raises:
            UsageError: `max_cases_per_individual`, and the cases name no individuals.
        """
        if self.max_cases_per_individual is not None:
            traces = _sample_cases(traces, self.max_cases_per_individual, randomness)
        if self.vocabulary is not None:
            traces = traces.recode_public(ActivityVocabulary.public(self.vocabulary, self.closed))
        if self.max_trace_length is not None:
            traces = traces.truncate(self.max_trace_length)
        return traces


def case_identities(traces: TraceBatch, randomness: Randomness) -> np.ndarray:
    """Returns uint64[n_cases, 2], the keyed identity of each case.

    It is that of the case id where cases stand for themselves, and otherwise that of the pair of
    individual and case id, because one case id may belong to several individuals.
    """
    cases = randomness.identify("case", traces.case_ids)
    if traces.individuals is None:
        return cases
    whose = traces.individuals.dictionary_encode()
    individuals = randomness.identify("individual", whose.dictionary)[np.asarray(whose.indices)]
    # The words of the two kinds are independent, so two pairs agree with chance 2^-128.
    return randomness.words("case of individual", cases ^ individuals)


def distinct_activities(
    traces: TraceBatch, max_activities: int, randomness: Randomness
) -> tuple[np.ndarray, np.ndarray]:
    """Chooses at most so many distinct activities of each case: what a private selection counts.

    Of a case that has more, a uniformly random choice that depends on the case's identity and its
    activities' names alone, not on their codes, which other cases' activities may shift. A case is
    in at most `max_activities` of the activities' counts; an individual with m cases, each with its
    own choice, adds at most m to any of them and m * max_activities to all together
    (`sensitivity.of_activities`).

    Args:
        traces: Complete cases, already within the caps of an individual.
        max_activities: At least 1.
        randomness: A stream that does not depend on the input, as for `ContributionBounds.bound`.

    Returns:
        (int64[n] cases, int32[n] codes), sorted, each pair once.

    Raises:
        UsageError: `max_activities` is below 1.
    """
    check_least(1, max_activities=max_activities)
    width = max(len(traces.vocabulary), 1)
    row = np.repeat(np.arange(traces.n_cases), traces.lengths)
    pairs = np.sort(row * width + traces.activities)
    # Not np.unique, which hashes: forty times slower where most pairs are distinct.
    cases, codes = np.divmod(pairs[np.diff(pairs, prepend=-1) > 0], width)
    has_more = np.bincount(cases, minlength=traces.n_cases) > max_activities
    contested = np.flatnonzero(has_more[cases])
    if len(contested):
        long = np.flatnonzero(has_more)
        identities = case_identities(traces.take(long), randomness)
        names = randomness.identify("activity", traces.vocabulary.names)
        place = np.searchsorted(long, cases[contested])
        words = randomness.words("activities of case", identities[place] ^ names[codes[contested]])
        keep = np.ones(len(cases), bool)
        keep[contested] = _rank_within(cases[contested], words) < max_activities
        cases, codes = cases[keep], codes[keep]
    return cases, codes.astype(np.int32)


def _sample_cases(traces: TraceBatch, max_cases: int, randomness: Randomness) -> TraceBatch:
    """Keeps of every individual the cases with the smallest keyed words: a uniform choice."""
    if traces.individuals is None:
        raise UsageError(
            f"max_cases_per_individual needs the individuals of the cases: map a column to "
            f"{INDIVIDUAL_ID}, or leave the cap out"
        )
    whose: pa.DictionaryArray = traces.individuals.dictionary_encode()
    individuals = np.asarray(whose.indices)
    has_more = np.bincount(individuals, minlength=len(whose.dictionary)) > max_cases
    contested = np.flatnonzero(has_more[individuals])
    if len(contested) == 0:
        return traces
    words = randomness.words(
        "cases of individual", case_identities(traces.take(contested), randomness)
    )
    keep = np.ones(traces.n_cases, bool)
    keep[contested] = _rank_within(individuals[contested], words) < max_cases
    return traces.take(np.flatnonzero(keep))


def _rank_within(groups: np.ndarray, words: np.ndarray) -> np.ndarray:
    """int64[n]: each row's place in the order of the words of its group, from 0."""
    return ranks_within(groups, np.lexsort((words[:, 1], words[:, 0], groups)))
