"""From a directly-follows relation to a process tree, by cuts, without a look at the log.

The inductive miner (Leemans, Fahland, van der Aalst: "Discovering Block-Structured Process Models
from Event Logs", 2013; cut detection as in Leemans, "Robust Process Mining with Guarantees", 2017)
splits the activities by a sequence, exclusive, parallel or loop cut and mines each part. DPIM
(Schulze, Zisgen, Kirschke, Mohammadi, Koschmider: "Differentially Private Inductive Miner",
algorithms 3 to 5) does so on one noisy relation. All here is a function of that relation, and of
what a callback answers about the ends of parallel and loop parts, so it costs no privacy of its
own.

Two sets of rules. `published` is DPIM's: an activity or a cut is optional where its noisy count is
clearly below the number of cases, wherever in the tree it stands; every loop cut is optional; the
parts of a parallel cut lose the pairs that were removed as loops. `structural` is the inductive
miner's for relations: a part of a sequence is optional if a pair leads past it, a way back if a
pair leads from an end to a start.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from tracecloak.anonymizers.trees.counts import Part
from tracecloak.anonymizers.trees.graph_cuts import (
    exclusive_cut,
    loop_cut,
    parallel_cut,
    sequence_cut,
)
from tracecloak.schemas.models.process_tree import (
    SILENT,
    Operator,
    ProcessTree,
    exclusive,
    flower,
    leaf,
    loop,
    normalise,
    optional,
)

Rules = Literal["published", "structural"]

# Cuts within one another; what is deeper becomes a flower. Trees stay within what can be read.
MAX_CUTS = 60


# --- The tree ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Relation:
    """A directly-follows relation with artificial start and end, exact or noisy.

    Attributes:
        counts: int64[n+1, n+1] as of `cases_with_pair`; looked at only where `holds`.
        holds: bool[n+1, n+1], the pairs of the relation.
    """

    counts: np.ndarray
    holds: np.ndarray

    @classmethod
    def exact(cls, counts: np.ndarray) -> Relation:
        """Returns the relation of all pairs that occur."""
        return cls(counts, counts > 0)

    @property
    def n_activities(self) -> int:
        """Number of activities, whether or not a pair has them."""
        return len(self.counts) - 1


def top_pairs(relation: Relation, n_pairs: int) -> Relation:
    """Returns the relation of the most frequent pairs that are above 0, at most so many.

    Of equal ones the first are taken, in the order of their codes.
    """
    counts = np.where(relation.holds, relation.counts, 0).ravel()
    order = np.argsort(-counts, kind="stable")[:n_pairs]
    holds = np.zeros(len(counts), bool)
    holds[order] = counts[order] > 0
    return Relation(relation.counts, holds.reshape(relation.holds.shape))


@dataclass(frozen=True)
class PartEnds:
    """What is known of a part of a parallel or loop cut.

    Attributes:
        starts: Activities that may come first in it.
        ends: Activities that may come last in it.
        is_optional: Whether clearly fewer cases have it than have another part of the cut; None:
            nothing is known. Only `structural` rules look at it.
    """

    starts: frozenset[int]
    ends: frozenset[int]
    is_optional: bool | None = None


# (operator, its parts, number of parallel and loop cuts around this one and itself) to what is
# known of each part.
EndsOfParts = Callable[[Operator, Sequence[Part], int], Sequence[PartEnds]]


def build_tree(
    relation: Relation,
    names: Sequence[str],
    tolerance: float,
    ends_of_parts: EndsOfParts,
    rules: Rules = "published",
    *,
    begins_anew: bool = False,
) -> ProcessTree:
    """Returns the process tree of a relation, normalised (BuildT).

    Where the published rules leave something open: a sequence's parts begin where pairs lead into
    them, and end where pairs lead out; the occurrences of an activity are the sum over all pairs
    that it begins, those with the end too, or every last activity would be optional; a loop without
    a way back (of which algorithm 4 has an empty part) is tried where pairs lead from ends to
    starts, and mined without these; it and the ends of ways back need no answer of the callback.
    Activities without a pair are left out.

    Args:
        relation: What to mine.
        names: By code, distinct.
        tolerance: By how many cases a noisy count must be below another one to be less, and above
            to be more; positive.
        ends_of_parts: Asked once for each parallel and loop cut of which some part is not yet a
            leaf (`published`), or for each parallel cut (`structural`); parents before children.
        rules: See the module.
        begins_anew: Whether a part without a cut, of which pairs lead to what may come first, is a
            loop around what is left without these pairs; else it becomes a flower at once.

    Raises:
        ValueError: The tolerance is not positive.
    """
    if not tolerance > 0:
        raise ValueError(f"tolerance must be positive, got {tolerance}")
    builder = _Published if rules == "published" else _Structural
    return normalise(builder(relation, names, tolerance, ends_of_parts, begins_anew).whole())


@dataclass(frozen=True, eq=False)
class _Place:
    """A set of activities to be mined.

    Attributes:
        part: The activities, sorted.
        follows: bool[n, n], the pairs that are left.
        starts: bool[n], those of the part that may come first.
        ends: bool[n], those that may come last.
        n_asking: Parallel and loop cuts around it.
        n_cuts: All cuts around it.
    """

    part: Part
    follows: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    n_asking: int = 0
    n_cuts: int = 0

    def within(self, part: Part, starts: np.ndarray, ends: np.ndarray) -> _Place:
        """Returns the place of a part one cut further in."""
        is_in = _mask(part, len(starts))
        return replace(
            self, part=part, starts=starts & is_in, ends=ends & is_in, n_cuts=self.n_cuts + 1
        )

    def answered(self, part: Part, answer: PartEnds) -> _Place:
        """Returns the place of a part of a parallel or loop cut with the ends that were asked."""
        n = len(self.starts)
        inner = self.within(part, _mask(answer.starts, n), _mask(answer.ends, n))
        return replace(inner, n_asking=self.n_asking + 1)

    def entered(self, part: Part) -> _Place:
        """Returns the place of a part that begins where pairs from the others lead into it."""
        if len(part) == 1:  # nothing is asked about the ends of a leaf
            return self.within(part, self.starts, self.ends)
        inside = _mask(part, len(self.starts))
        others = _mask(self.part, len(self.starts)) & ~inside
        starts = self.starts | self.follows[others].any(axis=0)
        ends = self.ends | self.follows[:, others].any(axis=1)
        return self.within(part, starts, ends)


class _Builder:
    """The recursion, and what both sets of rules share."""

    def __init__(
        self,
        relation: Relation,
        names: Sequence[str],
        tolerance: float,
        ends_of_parts: EndsOfParts,
        begins_anew: bool,
    ) -> None:
        self.begins_anew = begins_anew
        self.names = names
        self.tolerance = tolerance
        self.ends_of_parts = ends_of_parts
        self.n = relation.n_activities
        self.holds = relation.holds
        self.counts = np.where(relation.holds, relation.counts, 0)
        self.n_cases = int(self.counts[self.n].sum())  # DP-ESize

    def whole(self) -> ProcessTree:
        inner = self.holds[: self.n, : self.n]
        is_used = self.holds[:, : self.n].any(axis=0) | self.holds[: self.n].any(axis=1)
        part = tuple(np.flatnonzero(is_used).tolist())
        if not part:
            return SILENT
        return self.mined(
            _Place(part, inner, self.holds[self.n, : self.n], self.holds[: self.n, self.n])
        )

    def mined(self, place: _Place) -> ProcessTree:
        """Returns the tree of a place."""
        if len(place.part) == 1:
            return self.of_activity(place.part[0])
        if place.n_cuts >= MAX_CUTS:
            return self.of_flower(place)
        rows = np.ix_(place.part, place.part)
        follows = place.follows[rows]
        starts, ends = place.starts[list(place.part)], place.ends[list(place.part)]
        cuts: tuple[tuple[Operator, Callable[[], list[Part] | None]], ...] = (
            ("sequence", lambda: sequence_cut(follows)),
            ("exclusive", lambda: exclusive_cut(follows)),
            ("parallel", lambda: parallel_cut(self.without_loops(follows, rows), starts, ends)),
        )
        for operator, cut in cuts:
            if (groups := cut()) is not None:
                return self.of_cut(operator, place, _outer(groups, place))
        returns = place.ends[:, None] & place.starts[None, :] & place.follows
        np.fill_diagonal(returns, False)
        once = replace(place, follows=place.follows & ~returns)
        goes_straight = bool(returns[rows].any())
        loop_parts = loop_cut(follows, starts, ends)
        if loop_parts is not None:
            return self.of_loop(once, _outer(loop_parts, place), goes_straight)
        if goes_straight:
            return self.of_loop(once, [place.part], goes_straight)
        into_starts = place.follows & place.starts[None, :]
        np.fill_diagonal(into_starts, False)
        if self.begins_anew and into_starts[rows].any():
            inside = _mask(place.part, self.n)
            last = place.ends | (inside & into_starts[:, inside].any(axis=1))
            once = replace(place, follows=place.follows & ~into_starts, ends=last)
            return self.of_loop(once, [place.part], True)
        return self.of_flower(place)

    def without_loops(self, follows: np.ndarray, rows: Any = ...) -> np.ndarray:
        """The pairs but those of two activities that follow each other in too many cases.

        Args:
            follows: bool[m, m], of some activities.
            rows: What takes these out of an array of all.
        """
        left: np.ndarray = follows & ~(self.loops[rows] & follows.T)
        return left

    @cached_property
    def loops(self) -> np.ndarray:
        """bool[n, n]: the pairs of two activities that follow each other in too many cases."""
        counts, holds = self.counts[: self.n, : self.n], self.holds[: self.n, : self.n]
        is_loop = holds & holds.T & (counts + counts.T >= self.n_cases + self.tolerance)
        np.fill_diagonal(is_loop, False)
        return is_loop

    def name(self, activity: int) -> ProcessTree:
        return leaf(self.names[activity])

    def of_flower(self, place: _Place) -> ProcessTree:
        return flower(self.names[activity] for activity in place.part)

    def of_activity(self, activity: int) -> ProcessTree:
        name = self.name(activity)
        return loop(name, SILENT) if self.holds[activity, activity] else name

    def of_cut(self, operator: Operator, place: _Place, parts: list[Part]) -> ProcessTree:
        raise NotImplementedError

    def of_loop(self, place: _Place, parts: list[Part], goes_straight: bool) -> ProcessTree:
        """Returns a loop of a body and ways back; of these one is empty if it goes straight."""
        places = self.of_loop_parts(place, parts)
        children = [self.mined(inner) for inner in places]
        ways = [SILENT] * goes_straight + children[1:]
        return loop(children[0], _choice(ways))

    def of_loop_parts(self, place: _Place, parts: list[Part]) -> list[_Place]:
        return [place.entered(part) for part in parts]


class _Published(_Builder):
    """Algorithms 3 and 4 of DPIM."""

    def of_activity(self, activity: int) -> ProcessTree:
        tree = super().of_activity(activity)
        return optional(tree) if self.is_rare((activity,)) else tree

    def is_rare(self, part: Part) -> bool:
        """Whether activities begin fewer pairs than there are cases (DP-ActC and DP-ESize)."""
        return bool(self.counts[list(part)].sum() <= self.n_cases - self.tolerance)

    def of_cut(self, operator: Operator, place: _Place, parts: list[Part]) -> ProcessTree:
        if operator != "parallel":
            places = [place.entered(part) for part in parts]
        else:
            place = replace(place, follows=self.without_loops(place.follows))
            places = self.asked(operator, place, parts)
        tree = ProcessTree(operator, None, tuple(self.mined(inner) for inner in places))
        return optional(tree) if self.is_rare(place.part) else tree

    def of_loop(self, place: _Place, parts: list[Part], goes_straight: bool) -> ProcessTree:
        return optional(super().of_loop(place, parts, goes_straight))

    def of_loop_parts(self, place: _Place, parts: list[Part]) -> list[_Place]:
        places = super().of_loop_parts(place, parts)
        # How cases begin and end says nothing about the ways back of a loop, nor about a part that
        # is repeated as a whole.
        if len(parts) == 1:
            return places
        body = self.asked("loop", place, parts)[0]
        return [body, *(replace(back, n_asking=body.n_asking) for back in places[1:])]

    def asked(self, operator: Operator, place: _Place, parts: list[Part]) -> list[_Place]:
        """Returns the places of the parts, as the callback answers if they are to be mined."""
        if max(map(len, parts)) == 1:
            return [place.within(part, place.starts, place.ends) for part in parts]
        answers = self.ends_of_parts(operator, parts, place.n_asking + 1)
        return [place.answered(part, answer) for part, answer in zip(parts, answers, strict=True)]


class _Structural(_Builder):
    """The inductive miner's rules for relations."""

    def of_cut(self, operator: Operator, place: _Place, parts: list[Part]) -> ProcessTree:
        if operator == "parallel":
            answers = self.ends_of_parts(operator, parts, place.n_asking + 1)
            places = [place.answered(*pair) for pair in zip(parts, answers, strict=True)]
            is_optional = [bool(answer.is_optional) for answer in answers]
        else:
            places = [place.entered(part) for part in parts]
            is_optional = _passed(place, parts) if operator == "sequence" else [False] * len(parts)
        children = map(self.mined, places)
        return ProcessTree(
            operator,
            None,
            tuple(
                optional(child) if is_left_out else child
                for child, is_left_out in zip(children, is_optional, strict=True)
            ),
        )


def _passed(place: _Place, parts: list[Part]) -> list[bool]:
    """Whether a pair, a start or an end leads past each part of a sequence."""
    n = len(parts)
    number = np.full(len(place.starts), -1)
    for i, part in enumerate(parts):
        number[list(part)] = i
    passed = [False] * n
    sources, targets = np.nonzero(place.follows)
    steps = {
        (int(number[a]), int(number[b]))
        for a, b in zip(sources.tolist(), targets.tolist(), strict=True)
        if number[a] >= 0 and number[b] >= 0
    }
    steps |= {(-1, int(number[a])) for a in np.flatnonzero(place.starts)}
    steps |= {(int(number[a]), n) for a in np.flatnonzero(place.ends)}
    for earlier, later in steps:
        for i in range(earlier + 1, later):
            passed[i] = True
    return passed


def _choice(children: list[ProcessTree]) -> ProcessTree:
    return exclusive(*children) if len(children) > 1 else children[0]


def _outer(parts: list[Part], place: _Place) -> list[Part]:
    """Returns parts of positions within a place as parts of activities."""
    return [tuple(place.part[i] for i in part) for part in parts]


def _mask(codes: Collection[int], n: int) -> np.ndarray:
    mask = np.zeros(n, bool)
    mask[list(codes)] = True
    return mask
