"""How well the cases of a log fit a process tree, case by case, from the variants alone.

Each case has a fitness from 0 to 1 that depends on no other case, so replacing one case changes
the sum over all by at most 1. Token replay, whose fitness weighs a case by its tokens, has no such
bound; `token_fitness` is for the paper that has it.

A state is what may still follow (Brzozowski's derivative of the tree). As every activity stands
in one leaf only, the state of a parallel node is one of each child, of a sequence one of the child
that is at work, and only a loop of which body and way back can both be nothing keeps alternatives.
States are made when a case first comes to them and kept, and all prefixes of the variants, each
looked at once, move by one event at a time as arrays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from tracecloak.schemas.arrays.sequences import PrefixLevels
from tracecloak.schemas.models import ProcessTree, normalise
from tracecloak.schemas.statistics.variants import VariantHistogram

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

    A case counts by its events: one case more can change it by any amount.

    Raises:
        ValueError: As of `replay`; there is no case.
    """
    fit = replay(tree, names, variants)
    labels = set(tree.labels)
    is_known = np.array([name in labels for name in names], bool)[variants.codes]
    before = np.concatenate([[0], np.cumsum(is_known)])
    known = np.diff(before[variants.offsets])
    n_tokens = int(((known + 1) * variants.counts).sum())
    if not n_tokens:
        raise ValueError("fitness needs at least one case")
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


# What may still follow at a node: _NEW where none of its events came yet. Then for a leaf, and for
# a sequence and an exclusive that are through, _DONE; for these before that (number of the child
# at work, its state); for a parallel the children's states; for a loop a frozenset of (0 for the
# body, 1 for the way back; its state). So a choice of many activities has one state after each.
_State = Any
_NEW: _State = None
_DONE: _State = ()


class _Automaton:
    """States by number, made as they are asked for; 0 is the first."""

    def __init__(self, tree: ProcessTree, code_of: dict[str, int], n_codes: int) -> None:
        self._root = _compiled(tree, code_of)
        self._states: list[_State] = []
        self._number: dict[_State, int] = {_NEW: 0}
        self._may_end: list[bool] = []
        self._n_allowed: list[int] = []
        self._next = np.full((64, n_codes), _NOWHERE, np.int32)
        self._add(_NEW)

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
        if further == _UNKNOWN:
            self._make(state, code)
            further = self._next.item(state, code)
        return further

    def may_end(self, states: np.ndarray) -> np.ndarray:
        """Returns bool[n], whether the tree may end in each state."""
        return np.array(self._may_end)[states]

    def n_allowed(self, states: np.ndarray) -> np.ndarray:
        """Returns int32[n], how many activities may come next in each state."""
        return np.array(self._n_allowed, np.int32)[states]

    def _add(self, state: _State) -> None:
        """Notes a state with what may come next; nothing else leads on from it."""
        number = len(self._states)
        allowed = self._root.following(state)
        self._states.append(state)
        self._may_end.append(self._root.ends(state))
        self._n_allowed.append(allowed.bit_count())
        if number == len(self._next):
            self._next = np.concatenate([self._next, np.full_like(self._next, _NOWHERE)])
        width = self._next.shape[1]
        bits = np.frombuffer(allowed.to_bytes(width // 8 + 1, "little"), np.uint8)
        is_allowed = np.unpackbits(bits, bitorder="little")[:width].view(bool)
        self._next[number, is_allowed] = _UNKNOWN

    def _make(self, number: int, code: int) -> None:
        state = self._root.after(self._states[number], code)
        known = self._number.setdefault(state, len(self._states))
        if known == len(self._states):
            self._add(state)
        self._next[number, code] = known


class _Node:
    """A node. No state after an activity is new, so `after` gives _NEW where it may not come.

    A node of which nothing can follow any more is _DONE, whatever it was.
    """

    def __init__(self, codes: frozenset[int], children: tuple[_Node, ...]) -> None:
        self.codes = codes
        self.children = children
        self.child_of = {
            code: number for number, child in enumerate(children) for code in child.codes
        }
        self.may_be_nothing = self.may_end(_NEW)
        self.first = self.allowed(_NEW)

    def after(self, state: _State, code: int) -> _State:
        """Returns the state after an activity of the node."""
        raise NotImplementedError

    def ends(self, state: _State) -> bool:
        """Whether nothing more need follow."""
        return self.may_be_nothing if state is _NEW else self.may_end(state)

    def may_end(self, state: _State) -> bool:
        """Works out what `ends` returns."""
        raise NotImplementedError

    def following(self, state: _State) -> int:
        """Returns the activities that may come next, as the bits of an integer."""
        return self.first if state is _NEW else self.allowed(state)

    def allowed(self, state: _State) -> int:
        """Works out what `following` returns."""
        raise NotImplementedError


class _Leaf(_Node):
    def after(self, state: _State, code: int) -> _State:
        return _DONE if state is _NEW else _NEW

    def may_end(self, state: _State) -> bool:
        return state is not _NEW or not self.codes

    def allowed(self, state: _State) -> int:
        return sum(1 << code for code in self.codes) if state is _NEW else 0


class _Exclusive(_Node):
    def after(self, state: _State, code: int) -> _State:
        number = self.child_of[code]
        if state is not _NEW and (state is _DONE or state[0] != number):
            return _NEW
        further = self.children[number].after(_NEW if state is _NEW else state[1], code)
        return further if further is _NEW or further is _DONE else (number, further)

    def may_end(self, state: _State) -> bool:
        if state is _NEW:
            return any(child.may_be_nothing for child in self.children)
        return state is _DONE or self.children[state[0]].ends(state[1])

    def allowed(self, state: _State) -> int:
        if state is _NEW:
            return sum(child.first for child in self.children)
        return 0 if state is _DONE else self.children[state[0]].following(state[1])


class _Sequence(_Node):
    def after(self, state: _State, code: int) -> _State:
        if state is _DONE:
            return _NEW
        number = self.child_of[code]
        at, inner = (0, _NEW) if state is _NEW else state
        if number < at:
            return _NEW
        if number > at:
            if not self._ends(at, inner, number):
                return _NEW
            inner = _NEW
        further = self.children[number].after(inner, code)
        if further is _NEW:
            return _NEW
        is_last = number == len(self.children) - 1
        return _DONE if is_last and further is _DONE else (number, further)

    def _ends(self, at: int, inner: _State, until: int) -> bool:
        return self.children[at].ends(inner) and all(
            child.may_be_nothing for child in self.children[at + 1 : until]
        )

    def may_end(self, state: _State) -> bool:
        if state is _DONE:
            return True
        at, inner = (0, _NEW) if state is _NEW else state
        return self._ends(at, inner, len(self.children))

    def allowed(self, state: _State) -> int:
        if state is _DONE:
            return 0
        at, inner = (0, _NEW) if state is _NEW else state
        codes = self.children[at].following(inner)
        if self.children[at].ends(inner):
            for child in self.children[at + 1 :]:
                codes |= child.first
                if not child.may_be_nothing:
                    break
        return codes


class _Parallel(_Node):
    def after(self, state: _State, code: int) -> _State:
        number = self.child_of[code]
        states = self._states(state)
        further = self.children[number].after(states[number], code)
        if further is _NEW:
            return _NEW
        return (*states[:number], further, *states[number + 1 :])

    def _states(self, state: _State) -> tuple[_State, ...]:
        return (_NEW,) * len(self.children) if state is _NEW else state

    def may_end(self, state: _State) -> bool:
        both = zip(self.children, self._states(state), strict=True)
        return all(child.ends(inner) for child, inner in both)

    def allowed(self, state: _State) -> int:
        both = zip(self.children, self._states(state), strict=True)
        return sum(child.following(inner) for child, inner in both)


class _Loop(_Node):
    """Body, then way back and body any number of times."""

    def after(self, state: _State, code: int) -> _State:
        wanted = self.child_of[code]
        child = self.children[wanted]
        states = set()
        for at, inner in ((0, _NEW),) if state is _NEW else state:
            if at == wanted:
                states.add(child.after(inner, code))
            if self._begins(wanted, at, inner):
                states.add(child.after(_NEW, code))
        states.discard(_NEW)
        return frozenset((wanted, inner) for inner in states) or _NEW

    def _begins(self, wanted: int, at: int, inner: _State) -> bool:
        """Whether a part may begin: it is the other one's turn or that may be nothing."""
        is_over = self.children[at].ends(inner)
        return is_over and (at != wanted or self.children[1 - at].may_be_nothing)

    def may_end(self, state: _State) -> bool:
        body = self.children[0]
        return any(
            self.children[at].ends(inner) and (at == 0 or body.may_be_nothing)
            for at, inner in (((0, _NEW),) if state is _NEW else state)
        )

    def allowed(self, state: _State) -> int:
        codes = 0
        for at, inner in ((0, _NEW),) if state is _NEW else state:
            codes |= self.children[at].following(inner)
            for wanted, child in enumerate(self.children):
                if self._begins(wanted, at, inner):
                    codes |= child.first
        return codes


_KINDS: dict[str | None, type[_Node]] = {
    None: _Leaf,
    "sequence": _Sequence,
    "exclusive": _Exclusive,
    "parallel": _Parallel,
    "loop": _Loop,
}


def _compiled(tree: ProcessTree, code_of: dict[str, int]) -> _Node:
    children = tuple(_compiled(child, code_of) for child in tree.children)
    labels = [code_of[tree.label]] if tree.label is not None else []
    return _KINDS[tree.operator](frozenset(labels).union(*(c.codes for c in children)), children)
