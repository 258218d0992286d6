"""The difference attack on the operator's log, of a method that releases process trees.

The games of `examination.audit.difference_attack` are played on the log as it is within the
method's bounds: the same targets for the method, whose promise says how often a guess may be right,
and for the inductive miner without noise, which shows what the method is there to prevent.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.contract.in_memory import decide
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.noise.randomness import Randomness, below, cell_numbers
from tracecloak.anonymizers.noise.release_key import ReleaseKey
from tracecloak.examination.attack.findings import DifferenceFinding, GuessFinding
from tracecloak.examination.attack.views import STEP_US, Variant
from tracecloak.examination.audit.difference_attack import (
    Case,
    Release,
    Target,
    exposed,
    is_guessed,
    plain_tree,
    targets,
)
from tracecloak.examination.audit.guess_bounds import epsilon_of_guesses, largest_success
from tracecloak.schemas.arrays.merging import offsets_of, ranges
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.models.process_tree import ProcessTree
from tracecloak.schemas.published.guarantee import Adjacency
from tracecloak.schemas.published.tree import ReleasedTree
from tracecloak.schemas.statistics.variants import VariantHistogram

# Whether a case is in the log, and what it did.
N_QUESTIONS = 2
_MOST_GAMES = 100
_FEWEST_GAMES = 16
_N_MADE_UP = 3
_TIMED_RELEASES = 2


def releases_trees(method: Anonymizer, params: Any) -> bool:
    """Whether what is released is a process tree."""
    return "tree" in method.writes(params)


@dataclass(frozen=True)
class _Question:
    """What is asked about a target.

    Attributes:
        asked: In words.
        n_candidates: Equally likely answers.
        are_neighbours: Whether the logs of any two of them are neighbours.
        of: The answers that there are for a target, as many or fewer.
    """

    asked: str
    n_candidates: int
    are_neighbours: bool
    of: Callable[[Target], Sequence[Case | None]]

    def can_be_asked(self, target: Target) -> bool:
        """Whether the log had enough in it for as many answers."""
        return len(self.of(target)) == self.n_candidates


def _questions(adjacency: Adjacency) -> tuple[_Question, ...]:
    replaces = adjacency == "replace_one"
    k = 1 + _N_MADE_UP
    return (
        _Question(
            f"whether a case is in the log{', or another in its place' if replaces else ''}",
            2,
            True,
            lambda target: target.presence(adjacency),
        ),
        _Question(f"which of {k} things a case did", k, replaces, lambda target: target.behaviours),
    )


def difference_attack(
    counts: Mapping[Variant, int],
    method: Anonymizer,
    params: Any,
    confidence: float,
    seconds: float,
    keys: Iterator[ReleaseKey],
    most_games: int = _MOST_GAMES,
) -> DifferenceFinding:
    """Attacks cases of a log; see the module.

    Each case counts as a unit of its own: no individual has two.

    Args:
        counts: Cases of each variant of the log, within the method's bounds.
        method: One that releases a tree.
        params: Its parameters.
        confidence: Of each bound.
        seconds: That the releases may take; the number of games, from 16 on, follows from the time
            that a few releases take, never from what they show.
        keys: Fresh ones: for each release, and for targets and draws.
        most_games: Of each question, at least 1.
    """
    if not counts:
        return DifferenceFinding(0, ())
    names = sorted({name for variant in counts for name in variant})
    variants = histogram_of(counts, names)
    guarantee = method.guarantee(params)
    questions = _questions(guarantee.adjacency)
    randomness = Randomness(next(keys), "difference attack", "", "")
    release = releases_of(method, params, names, keys)
    n_games = most_games
    if math.isfinite(seconds):
        begun = time.perf_counter()
        for _ in range(_TIMED_RELEASES):
            release(variants)
        each = (1 + len(questions)) * (time.perf_counter() - begun) / _TIMED_RELEASES
        n_games = min(most_games, max(int(seconds / each), _FEWEST_GAMES))
    longest = method.bounds(params).max_trace_length
    drawn = targets(variants, len(names), _N_MADE_UP, longest, randomness)
    attacked = list(itertools.islice(drawn, n_games))

    def plain(log: VariantHistogram) -> ProcessTree:
        return plain_tree(log, names)

    right_plain = _n_right(attacked, questions, plain, names, randomness, "without noise")
    right = _n_right(attacked, questions, release, names, randomness, "method")
    delta = guarantee.delta or 0.0
    guesses = []
    for i, question in enumerate(questions):
        n_played = sum(map(question.can_be_asked, attacked))
        if not n_played:
            continue
        k, are_near = question.n_candidates, question.are_neighbours
        allowed = None
        if guarantee.epsilon is not None:
            allowed = largest_success(guarantee.epsilon, delta, k, are_neighbours=are_near)
        proved = epsilon_of_guesses(
            right[i], n_played, k, delta, confidence, are_neighbours=are_near
        )
        guesses.append(
            GuessFinding(question.asked, k, n_played, right_plain[i], right[i], allowed, proved)
        )
    return DifferenceFinding(len(exposed(variants, len(names))), tuple(guesses))


def _n_right(
    attacked: Sequence[Target],
    questions: Sequence[_Question],
    release: Release,
    names: Sequence[str],
    randomness: Randomness,
    which: str,
) -> list[int]:
    """Plays all games under draws of their own; returns how many were won, by question."""
    right = [0] * len(questions)
    for number, target in enumerate(attacked):
        before = release(target.rest)
        for i, question in enumerate(questions):
            if question.can_be_asked(target):
                cell = cell_numbers(np.array([number * len(questions) + i]))
                word = randomness.words(f"difference attack/draw/{which}", cell)[:, 0]
                truth = int(below(word, question.n_candidates)[0])
                right[i] += is_guessed(target, question.of(target), truth, before, release, names)
    return right


# --- Releases of a log that is given by its variants ----------------------------------------------


def histogram_of(counts: Mapping[Variant, int], names: Sequence[str]) -> VariantHistogram:
    """Returns variants by name as variants by code; a name's code is its place."""
    code = {name: i for i, name in enumerate(names)}
    codes = np.array([code[name] for variant in counts for name in variant], np.int32)
    offsets = offsets_of(np.array([len(variant) for variant in counts], np.int64))
    return VariantHistogram.from_sequences(
        encode_sequences(offsets, codes), np.array([*counts.values()], np.int64)
    )


def releases_of(
    method: Anonymizer, params: Any, names: Sequence[str], keys: Iterator[ReleaseKey]
) -> Release:
    """Returns what releases a log's tree, each time under the next key; None if it is refused.

    Args:
        method: One that releases a tree.
        params: Its parameters.
        names: By code of the logs.
        keys: Fresh ones.
    """

    def release(variants: VariantHistogram) -> ProcessTree | None:
        key = next(keys)
        log = _log_of(variants, names, method, params)
        try:
            _, decisions = decide([log], method, params, key, "audit", "")
        except GuaranteeError:
            return None
        products = method.products(decisions, params).by_name.values()
        (released,) = (product for product in products if isinstance(product, ReleasedTree))
        return released.tree

    return release


def _log_of(
    variants: VariantHistogram, names: Sequence[str], method: Anonymizer, params: Any
) -> TraceBatch:
    """All cases of a log, a minute between their events; each of its own individual."""
    row = np.repeat(np.arange(variants.n_variants), variants.counts)
    lengths = np.diff(variants.offsets)[row]
    codes = variants.codes[ranges(variants.offsets[:-1][row], lengths)]
    offsets = offsets_of(lengths)
    used, activities = np.unique(codes, return_inverse=True)  # names that no case has stay unknown
    ids = pa.array(np.arange(len(row))).cast(pa.string())
    by_individual = method.bounds(params).max_cases_per_individual is not None
    return TraceBatch(
        ids,
        offsets,
        activities.astype(np.int32),
        (np.arange(len(codes)) - np.repeat(offsets[:-1], lengths)) * STEP_US,
        ActivityVocabulary(pa.array([names[code] for code in used.tolist()], pa.string())),
        ids if by_individual else None,
    )
