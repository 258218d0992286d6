"""How well the cases of a log fit a process tree, case by case, from the variants alone.

Each case has a fitness from 0 to 1 that depends on no other case, so replacing one case changes
the sum over all by at most 1. Token replay, whose fitness weighs a case by its tokens, has no such
bound; `token_fitness` is for the paper that has it.

A state is what may still follow (Brzozowski's derivative of the tree), of which equal ones are one.
States are made when a case first comes to them and kept, and all prefixes of the variants, each
looked at once, move by one event at a time as arrays.
"""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from tracecloak.schemas.models import ProcessTree, normalise
from tracecloak.schemas.statistics.variants import PrefixLevels, VariantHistogram

# A case that fits counts so much: shares are rounded down to this lattice, so that sums are exact.
UNITS = 1 << 20
# To which power the choice of a tree takes fitness: a misfit counts much more than what a tree
# allows too much, and no number of a log says what else to take.
FITNESS_POWER = 8

_UNKNOWN, _NOWHERE = -2, -1
# So many prefixes of a length or fewer are looked at one by one: that is as fast as all together.
_FEW = 16


@dataclass(frozen=True, eq=False)
class VariantFit:
    """How far each variant can be replayed.

    Attributes:
        replayed: int64[n_variants], events that the tree allows, those passed over that it does
            not allow where they come.
        is_complete: bool[n_variants], whether the tree may end after them.
        lengths: int64[n_variants], events.
        alternatives: int64[n_variants], the activities that the tree allows, at least one, before
            each event and at the end, added up; None if not asked for.
    """

    replayed: np.ndarray
    is_complete: np.ndarray
    lengths: np.ndarray
    alternatives: np.ndarray | None = None

    @property
    def units(self) -> np.ndarray:
        """int64[n_variants], the share that fits in UNITS: events replayed, and the end as one."""
        return UNITS * (self.replayed + self.is_complete) // (self.lengths + 1)

    def score(self, fitness_power: int) -> np.ndarray:
        """Returns int64[n_variants], fitness and precision of each variant in one, up to UNITS.

        The share that fits, raised to a power, times the reciprocal of the mean number of
        alternatives that the tree leaves along the way: the share of escaping edges (Muñoz-Gama and
        Carmona, "A Fresh Look at Precision in Process Conformance", 2010) of one case by itself. A
        flower model of n activities has 1 / n. All in integers, rounded down, so that the score of
        a variant is the same whatever else is in the log.

        Args:
            fitness_power: At least 1; the higher, the more a misfit costs.

        Raises:
            ValueError: The alternatives were not asked for.
        """
        if self.alternatives is None:
            raise ValueError("the score needs the alternatives of the replay")
        score = UNITS * (self.lengths + 1) // self.alternatives
        for _ in range(fitness_power):
            score = score * self.units // UNITS
        return score


def fitness_sum(tree: ProcessTree, names: Sequence[str], variants: VariantHistogram) -> int:
    """Returns the sum over all cases of their fitness in UNITS, exactly.

    A case counts the share of its events and its end that can be replayed, so 1 if it fits.

    Args:
        tree: With each activity once.
        names: By code of the variants.
        variants: Of the log.

    Raises:
        ValueError: An activity stands in the tree twice, or not among the names.
    """
    return int((replay(tree, names, variants).units * variants.counts).sum())


def interval_of_share(share: float, half_width: float) -> tuple[float, float]:
    """Returns both ends of an interval around a share, cut to 0 … 1."""
    return max(share - half_width, 0.0), min(share + half_width, 1.0)


def token_fitness(tree: ProcessTree, names: Sequence[str], variants: VariantHistogram) -> Fraction:
    """Returns the fitness of token replay over all cases together, from 0 to 1, exactly.

    Token replay (Rozinat and van der Aalst, "Conformance checking of processes based on monitoring
    real behavior", 2008) puts a missing token where an event is not allowed, and so leaves another
    one behind: with m of c tokens missing the fitness is 1 - m / c. Here each event takes one token
    and so does the end; an event that is not allowed where it comes misses one, and so does an end
    that is not allowed. Events of activities that the tree lacks are passed over, as pm4py does.
    Silent steps, which have tokens of a net, have none here.

    A case counts by its events: one case more can change it by any amount. There is a case.

    Raises:
        ValueError: As of `replay`.
    """
    fit = replay(tree, names, variants)
    labels = set(tree.labels)
    is_known = np.array([name in labels for name in names], bool)[variants.codes]
    before = np.concatenate([[0], np.cumsum(is_known)])
    known = np.diff(before[variants.offsets])
    n_tokens = int(((known + 1) * variants.counts).sum())
    return Fraction(int(((fit.replayed + fit.is_complete) * variants.counts).sum()), n_tokens)


def score_sum(
    tree: ProcessTree, names: Sequence[str], variants: VariantHistogram, fitness_power: int
) -> int:
    """Returns the sum over all cases of their score in UNITS, exactly; see `VariantFit.score`.

    A case more adds something from 0 to UNITS, whatever the tree: scores of several trees all move
    in one direction.

    Raises:
        ValueError: As of `replay`.
    """
    fit = replay(tree, names, variants, counts_alternatives=True)
    return int((fit.score(fitness_power) * variants.counts).sum())


def replay(
    tree: ProcessTree,
    names: Sequence[str],
    variants: VariantHistogram,
    *,
    counts_alternatives: bool = False,
) -> VariantFit:
    """Replays every variant; see `VariantFit`.

    An event that the tree does not allow where it comes is passed over and the state stays, which
    is not the best alignment but one. Each prefix of the variants is looked at once, the tree's
    parallel parts apart from each other.

    Raises:
        ValueError: An activity stands in the tree twice, or not among the names.
    """
    twice = [label for label, n in Counter(tree.labels).items() if n > 1]
    if twice:
        raise ValueError(
            "the tree has an activity more than once, and replay cannot tell the two apart"
        )
    code_of = {name: code for code, name in enumerate(names)}
    unknown = set(tree.labels) - set(code_of)
    if unknown:
        raise ValueError("an activity of the tree is not among the names")
    levels = variants.levels
    n_nodes = len(levels.parents)
    # Of each prefix, whether its last event is allowed, and how many activities may come after it.
    is_replayed, n_allowed = np.zeros(n_nodes, bool), np.zeros(n_nodes, np.int64)
    is_complete = np.ones(variants.n_variants, bool)
    whole = normalise(tree)
    # Parallel parts have no activity in common, so a case replays each of them by itself.
    parts = whole.children if whole.operator == "parallel" else (whole,)
    for part in parts:
        automaton = _Automaton(part, code_of, len(names))
        states = _states(automaton, levels, is_replayed)
        is_complete &= automaton.may_end(states[levels.ends])
        if counts_alternatives:
            n_allowed += automaton.n_allowed(states)
    replayed = _along(levels, is_replayed.astype(np.int64))[levels.ends]
    lengths = np.diff(variants.offsets)
    if not counts_alternatives:
        return VariantFit(replayed, is_complete, lengths)
    alternatives = _along(levels, np.maximum(n_allowed, 1))[levels.ends]
    return VariantFit(replayed, is_complete, lengths, alternatives)


def _along(levels: PrefixLevels, values: np.ndarray) -> np.ndarray:
    """int64[n_nodes], the sums of values of prefixes from the empty one to each; in their place."""
    wide = _wide_levels(levels)
    begin, narrow = wide[-1]
    for start, end in wide[1:]:
        values[start:end] += values[levels.parents[start:end]]
    sums = values[begin:].tolist()
    parents = (levels.parents[narrow:] - begin).tolist()
    for node, parent in enumerate(parents, narrow - begin):
        sums[node] += sums[parent]
    values[begin:] = sums
    return values


def _states(automaton: _Automaton, levels: PrefixLevels, is_replayed: np.ndarray) -> np.ndarray:
    """int32[n_nodes], the state after each prefix; notes of which the last event is allowed."""
    states = np.zeros(len(levels.parents), np.int32)
    is_allowed = np.zeros(len(states), bool)
    wide = _wide_levels(levels)
    begin, narrow = wide[-1]
    for start, end in wide[1:]:
        before = states[levels.parents[start:end]]
        further = automaton.after(before, levels.codes[start:end])
        is_allowed[start:end] = further != _NOWHERE
        states[start:end] = np.where(is_allowed[start:end], further, before)
    reached, after_one = states[begin:narrow].tolist(), automaton.after_one
    parents, codes = (levels.parents[narrow:] - begin).tolist(), levels.codes[narrow:].tolist()
    allowed = []
    for parent, code in zip(parents, codes, strict=True):
        state = after_one(reached[parent], code)
        allowed.append(state != _NOWHERE)
        reached.append(state if state != _NOWHERE else reached[parent])
    states[begin:], is_allowed[narrow:] = reached, allowed
    is_replayed |= is_allowed
    return states


def _wide_levels(levels: PrefixLevels) -> list[tuple[int, int]]:
    """Where each level begins and ends, from the root's to the last with more than a few prefixes.

    What follows is quicker prefix by prefix: a single long case has as many levels as events.
    """
    last = max(np.flatnonzero(np.diff(levels.offsets) > _FEW).tolist(), default=0)
    return list(pairwise(levels.offsets[: last + 2]))


@dataclass(frozen=True, eq=False)
class _Rest:
    """What may still follow in a state, and whether that may be nothing.

    Attributes:
        kind: leaf, sequence, exclusive, parallel, or again: any number of times.
        parts: Of a leaf its code, else what it consists of.
        may_end: Whether nothing more need follow.
        first: The activities that may come next, as the bits of an integer.
    """

    kind: str
    parts: Collection[Any]
    may_end: bool
    first: int

    def allows(self, code: int) -> bool:
        """Whether an activity may come next."""
        return bool(self.first >> code & 1)


class _Rests:
    """All that may follow in the states of one tree; equal ones are one object."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Collection[Any]], _Rest] = {}

    def from_tree(self, tree: ProcessTree, code_of: dict[str, int]) -> _Rest:
        """Returns all of a tree; of a silent one an empty sequence."""
        if tree.label is not None:
            code = code_of[tree.label]
            return self._one("leaf", (code,), False, 1 << code)
        parts = [self.from_tree(child, code_of) for child in tree.children]
        if tree.operator == "loop":
            body, back = parts
            further = self.sequence([back, body])
            again = self._one("again", (further,), True, further.first)
            return self.sequence([body, again])
        if tree.operator == "exclusive":
            return self.exclusive(parts)
        return self.parallel(parts) if tree.operator == "parallel" else self.sequence(parts)

    def after(self, rest: _Rest, code: int) -> _Rest:
        """Returns what may follow after an activity that it allows."""
        if rest.kind == "leaf":
            return self.sequence([])
        if rest.kind == "parallel":
            # The parts have no activity in common.
            return self.parallel(
                [self.after(part, code) if part.allows(code) else part for part in rest.parts]
            )
        if rest.kind == "exclusive":
            return self.exclusive([self.after(p, code) for p in rest.parts if p.allows(code)])
        if rest.kind == "again":
            [part] = rest.parts
            return self.sequence([self.after(part, code), rest])
        ways, left = [], tuple(rest.parts)
        for place, part in enumerate(left, 1):
            if part.allows(code):
                ways.append(self.sequence([self.after(part, code), *left[place:]]))
            if not part.may_end:
                break
        return self.exclusive(ways)

    def sequence(self, parts: Iterable[_Rest]) -> _Rest:
        """Returns one part after the other."""
        flat = _flat("sequence", parts)
        first = 0
        for part in flat:
            first |= part.first
            if not part.may_end:
                break
        return self._from_several("sequence", flat, all(part.may_end for part in flat), first)

    def exclusive(self, parts: Iterable[_Rest]) -> _Rest:
        """Returns one of the parts, equal ones once."""
        flat = frozenset(_flat("exclusive", parts))
        may_end = any(part.may_end for part in flat)
        return self._from_several("exclusive", flat, may_end, _any_of(flat))

    def parallel(self, parts: Iterable[_Rest]) -> _Rest:
        """Returns all parts beside each other, but those that are through."""
        left = tuple(part for part in parts if part.first)
        may_end = all(part.may_end for part in left)
        return self._from_several("parallel", left, may_end, _any_of(left))

    def _from_several(
        self, kind: str, parts: Collection[_Rest], may_end: bool, first: int
    ) -> _Rest:
        if len(parts) == 1:
            return next(iter(parts))
        return self._one(kind if parts else "sequence", parts, may_end, first)

    def _one(self, kind: str, parts: Collection[Any], may_end: bool, first: int) -> _Rest:
        return self._known.setdefault((kind, parts), _Rest(kind, parts, may_end, first))


def _flat(kind: str, parts: Iterable[_Rest]) -> tuple[_Rest, ...]:
    """Returns the parts, and those of what is of the kind itself in its place."""
    return tuple(
        inner for part in parts for inner in (part.parts if part.kind == kind else (part,))
    )


def _any_of(parts: Collection[_Rest]) -> int:
    return functools.reduce(operator.or_, (part.first for part in parts), 0)


class _Automaton:
    """States by number, made as they are asked for; 0 is the first."""

    def __init__(self, tree: ProcessTree, code_of: dict[str, int], n_codes: int) -> None:
        self._rests = _Rests()
        self._states: list[_Rest] = []
        self._number: dict[_Rest, int] = {}
        self._next = np.full((64, n_codes), _NOWHERE, np.int32)
        self._number_of(self._rests.from_tree(tree, code_of))

    def after(self, states: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Returns int32[n], the state after each state and activity, or _NOWHERE."""
        width = self._next.shape[1]
        further = np.take(self._next, states * width + codes)
        unknown = np.flatnonzero(further == _UNKNOWN)
        if len(unknown):
            for key in np.unique(states[unknown] * width + codes[unknown]).tolist():
                self._make(*divmod(key, width))
            further[unknown] = self._next[states[unknown], codes[unknown]]
        return further

    def after_one(self, state: int, code: int) -> int:
        """Returns the state after a state and an activity, or _NOWHERE."""
        further = self._next.item(state, code)
        return self._make(state, code) if further == _UNKNOWN else further

    def may_end(self, states: np.ndarray) -> np.ndarray:
        """Returns bool[n], whether the tree may end in each state."""
        return np.array([state.may_end for state in self._states])[states]

    def n_allowed(self, states: np.ndarray) -> np.ndarray:
        """Returns int32[n], how many activities may come next in each state."""
        return np.array([state.first.bit_count() for state in self._states], np.int32)[states]

    def _make(self, number: int, code: int) -> int:
        known = self._number_of(self._rests.after(self._states[number], code))
        self._next[number, code] = known
        return known

    def _number_of(self, state: _Rest) -> int:
        """Returns the number of a state; of a new one, notes what may come next in it."""
        number = self._number.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
            if number == len(self._next):
                self._next = np.concatenate([self._next, np.full_like(self._next, _NOWHERE)])
            width = self._next.shape[1]
            bits = np.frombuffer(state.first.to_bytes(width // 8 + 1, "little"), np.uint8)
            is_allowed = np.unpackbits(bits, bitorder="little")[:width].view(bool)
            self._next[number, is_allowed] = _UNKNOWN
        return number
