"""The difference attack: two models, before and after one case, show what the case did.

The attacker may ask for models, but not for the log. He asks before a certain person's case was
in it and again after, and takes what only the second model allows for what the case did
(Schulze, Zisgen, Kirschke, Mohammadi and Koschmider, "Differentially Private Inductive Miner",
section II, after Dwork and Roth, "The Algorithmic Foundations of Differential Privacy", 2014,
section 1).

Here it is a game with a known chance. A case of the log is taken out, and a fair draw says which of
several candidates comes in its place: "nothing" or the case itself, or the case itself or one of
some made-up cases. The attacker sees a tree of the log without it and a tree of the log with the
candidate, and guesses. How often that may be right under a promise of differential privacy is in
`examination.audit.attacks`. The same is played with the inductive miner without noise, which
shows what a method that releases process trees is there to prevent.

That an attacker of this kind fails proves nothing about another one. All results follow from raw
data: they are for the operator.
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
from tracecloak.anonymizers.trees.counts import cases_with_pair
from tracecloak.anonymizers.trees.cuts import Relation, build_tree
from tracecloak.anonymizers.trees.questions import exact_ends
from tracecloak.examination.attack.report import DifferenceFinding, GuessFinding
from tracecloak.examination.attack.views import STEP_US, Variant
from tracecloak.examination.audit.attacks import epsilon_of_guesses, largest_success
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


# A case by the codes of its activities.
Case = tuple[int, ...]
# Two activities one right after the other; None stands for the start and for the end.
Step = tuple[str | None, str | None]
# A function from a log to the tree that is released of it, with new randomness at each call; None
# is a refused release.
Release = Callable[[VariantHistogram], ProcessTree | None]

# So many edits are tried for each made-up case; after that it is left out.
_TRIES = 20


# --- The plain miner and what a tree allows -------------------------------------------------------


def plain_tree(variants: VariantHistogram, names: Sequence[str]) -> ProcessTree:
    """Returns the tree of the inductive miner for relations, from the exact log: no privacy at all.

    Args:
        variants: Of the log.
        names: By code.
    """
    n = len(names)
    relation = Relation.exact(cases_with_pair(variants, n))
    # The counts are exact, so a count that is larger by any number of cases is taken as larger.
    return build_tree(relation, names, 0.5, exact_ends(variants, n), "structural")


@dataclass(frozen=True)
class _Ways:
    """How the words of a tree begin, go on and end; silent steps are not seen."""

    firsts: frozenset[str]
    lasts: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    activities: frozenset[str]
    is_nullable: bool


def steps_of_tree(tree: ProcessTree) -> frozenset[Step]:
    """Returns every step that some word of a tree takes, those from the start and to the end too.

    So it says which activities there are, which may come first and last, and which pairs follow
    each other directly. If the tree can be nothing, the step from start to end is one of them.
    """
    ways = _ways(tree)
    steps: set[Step] = {*ways.pairs}
    steps |= {(None, name) for name in ways.firsts} | {(name, None) for name in ways.lasts}
    if ways.is_nullable:
        steps.add((None, None))
    return frozenset(steps)


def steps_of_case(activities: Sequence[str]) -> frozenset[Step]:
    """Returns the steps of a case, those from the start and to the end too."""
    return frozenset(zip((None, *activities), (*activities, None), strict=True))


def _ways(tree: ProcessTree) -> _Ways:
    if tree.operator is None:
        labels = frozenset(() if tree.label is None else (tree.label,))
        return _Ways(labels, labels, frozenset(), labels, tree.is_nullable)
    children = [_ways(child) for child in tree.children]
    activities = frozenset().union(*(child.activities for child in children))
    pairs = set().union(*(child.pairs for child in children))
    if tree.operator in ("exclusive", "parallel"):
        firsts = frozenset().union(*(child.firsts for child in children))
        lasts = frozenset().union(*(child.lasts for child in children))
        if tree.operator == "parallel":
            for child in children:
                others = frozenset().union(*(c.activities for c in children if c is not child))
                pairs |= _product(child.activities, others)
        return _Ways(firsts, lasts, frozenset(pairs), activities, tree.is_nullable)
    if tree.operator == "sequence":
        return _in_sequence(children, frozenset(pairs), activities)
    body, back = children
    # Going back twice shows every pair that going back any number of times can show, since each
    # pass can leave out what another pass has.
    once = _in_sequence([body, back, body, back, body], frozenset(pairs), activities)
    return _Ways(once.firsts, once.lasts, once.pairs, activities, tree.is_nullable)


def _in_sequence(
    children: Sequence[_Ways], pairs: frozenset[tuple[str, str]], activities: frozenset[str]
) -> _Ways:
    firsts: set[str] = set()
    steps = set(pairs)
    open_ends: set[str] = set()  # what may be the last activity up to here
    is_nullable = True
    for child in children:
        steps |= _product(open_ends, child.firsts)
        if is_nullable:
            firsts |= child.firsts
        open_ends = {*child.lasts, *(open_ends if child.is_nullable else ())}
        is_nullable = is_nullable and child.is_nullable
    return _Ways(frozenset(firsts), frozenset(open_ends), frozenset(steps), activities, is_nullable)


def _product(
    first: set[str] | frozenset[str], second: set[str] | frozenset[str]
) -> set[tuple[str, str]]:
    return {(a, b) for a in first for b in second}


# --- The attacker ---------------------------------------------------------------------------------


def guess(
    before: ProcessTree | None,
    after: ProcessTree | None,
    candidates: Sequence[Sequence[str] | None],
) -> int:
    """Returns which candidate came in between two trees: the first of those that speak most for it.

    The steps of a candidate that only the second tree allows speak for it; those that the second
    tree does not allow speak against it. Nothing speaks for or against None, which stands for no
    case. The guess is the same for the same trees, as the draw of the candidates is fair in itself.

    Args:
        before: The tree without the candidate; None is one that allows nothing.
        after: The tree with it, likewise.
        candidates: Activities of each case, or None for no case.
    """
    steps_before, steps_after = (
        frozenset() if tree is None else steps_of_tree(tree) for tree in (before, after)
    )
    gained = steps_after - steps_before

    def evidence(case: Sequence[str] | None) -> int:
        if case is None:
            return 0
        steps = steps_of_case(case)
        return len(steps & gained) - len(steps - steps_after)

    scores = [evidence(case) for case in candidates]
    return scores.index(max(scores))


# --- The games ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Target:
    """A case of the log, the log without it, and made-up cases.

    Attributes:
        rest: The log without the case.
        case: The case.
        made_up: Cases like those of the log, each with one event too many, too few or out of
            place; distinct, and none is the case.
    """

    rest: VariantHistogram
    case: Case
    made_up: tuple[Case, ...]

    def presence(self, adjacency: Adjacency) -> tuple[Case | None, ...]:
        """Returns the candidates of the question whether the case is in the log.

        Where neighbours have as many cases, one of the most frequent other variant is in its place
        instead of none; if there is no other, the case alone is returned.
        """
        if adjacency == "add_remove":
            return None, self.case
        for i in np.argsort(-self.rest.counts, kind="stable").tolist():
            other = _case(self.rest, i)
            if other != self.case:
                return other, self.case
        return (self.case,)

    @property
    def behaviours(self) -> tuple[Case, ...]:
        """The candidates of the question what the case did."""
        return (self.case, *self.made_up)


def exposed(variants: VariantHistogram, n_activities: int) -> np.ndarray:
    """Returns int64[n]: the variants of one case that takes a step which no other case takes.

    Only these change which steps there are in the log when they are taken out.

    Args:
        variants: Of the log.
        n_activities: Codes are 0 … n_activities - 1.
    """
    is_lone = cases_with_pair(variants, n_activities) == 1
    rows = []
    for i in np.flatnonzero(variants.counts == 1).tolist():
        codes = [*_case(variants, i)]
        if is_lone[[n_activities, *codes], [*codes, n_activities]].any():
            rows.append(i)
    return np.array(rows, np.int64)


def targets(
    variants: VariantHistogram,
    n_activities: int,
    n_made_up: int,
    max_length: int | None,
    randomness: Randomness,
) -> Iterator[Target]:
    """Yields random cases of a log without an end: exposed ones, or any if none is exposed.

    Each is drawn anew from all of them, so that one may come again. Where the log has too little in
    it, a target has fewer made-up cases.

    Args:
        variants: Of the log, at least one case.
        n_activities: Codes are 0 … n_activities - 1.
        n_made_up: Made-up cases of each target.
        max_length: Longest made-up case.
        randomness: Of this attack alone.
    """
    alone = exposed(variants, n_activities)
    upto = np.cumsum(variants.counts)
    drawn = 0

    def draw(bound: int) -> int:
        nonlocal drawn
        drawn += 1
        word = randomness.words("difference attack/targets", cell_numbers(np.array([drawn])))
        return int(below(word[:, 0], bound)[0])

    def any_variant() -> int:
        return int(np.searchsorted(upto, draw(int(upto[-1])), side="right"))

    while True:
        i = int(alone[draw(len(alone))]) if len(alone) else any_variant()
        case = _case(variants, i)
        made_up: dict[Case, None] = {}
        for _ in range(_TRIES * n_made_up):
            edited = _edited(_case(variants, any_variant()), draw)[:max_length]
            if edited and edited != case:
                made_up[edited] = None
            if len(made_up) == n_made_up:
                break
        yield Target(_without(variants, i), case, tuple(made_up))


def with_case(variants: VariantHistogram, case: Case | None) -> VariantHistogram:
    """Returns a log with one case more, or as it is."""
    if case is None:
        return variants
    codes = np.array(case, np.int32)
    more = encode_sequences(offsets_of(np.array([len(codes)])), codes)
    return VariantHistogram.merge([variants, VariantHistogram(more, np.ones(1, np.int64))])


def _case(variants: VariantHistogram, i: int) -> Case:
    first, last = variants.offsets[i : i + 2].tolist()
    return tuple(variants.codes[first:last].tolist())


def _without(variants: VariantHistogram, i: int) -> VariantHistogram:
    """The log without one case of a variant."""
    counts = variants.counts.copy()
    counts[i] -= 1
    left = np.flatnonzero(counts)
    return VariantHistogram(variants.sequences.take(pa.array(left)), counts[left])


def _edited(case: Case, draw: Callable[[int], int]) -> Case:
    """The case with an event repeated, left out, or before the one that it came after."""
    i, edit = draw(len(case)), draw(3)
    if edit == 0:
        return case[: i + 1] + case[i:]
    if edit == 1:
        return case[:i] + case[i + 1 :]
    return case[:i] + case[i : i + 2][::-1] + case[i + 2 :]


def is_guessed(
    target: Target,
    candidates: Sequence[Case | None],
    truth: int,
    before: ProcessTree | None,
    release: Release,
    names: Sequence[str],
) -> bool:
    """Releases the log with the candidate that was drawn, and returns whether it is guessed.

    Args:
        target: What is attacked.
        candidates: What may have come in.
        truth: Which of them did.
        before: The tree of the log without the case, of a release of its own.
        release: What makes the tree of the log with the candidate.
        names: By code.
    """
    after = release(with_case(target.rest, candidates[truth]))
    named = [None if case is None else [names[code] for code in case] for case in candidates]
    return guess(before, after, named) == truth


# --- The attack on a log --------------------------------------------------------------------------


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
