"""From variants to counts of pairs, and from a directly-follows relation to a tree by cuts.

The inductive miner's cuts (Leemans, Fahland and van der Aalst, 2013) by two sets of rules: those of
DPIM (Schulze et al., algorithms 3 to 5), and the structural ones for relations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from tracecloak.schemas import models
from tracecloak.schemas.arrays.merging import distinct_counts, sum_groups
from tracecloak.schemas.statistics.variants import VariantHistogram

# --- Counts from which a process tree is mined: by case, and from the variants alone. -------------
# All of them are linear in the events of the variants, and none looks at a case twice for one
# cell, so that one case more or less changes each cell by at most 1.


Part = tuple[int, ...]


# Lattice steps of one case: a case that is scaled down loses less than a step in each pair.
PAIR_UNITS = 1024


def cases_with_pair(variants: VariantHistogram, n_activities: int) -> np.ndarray:
    """Returns int64[n+1, n+1]: the cases in which an activity comes right after another.

    The binary directly-follows relation of DPIM: however often a pair occurs in a case, the case
    counts once. Row n is the artificial start, column n the artificial end; a case without events,
    which there is not, would be (n, n).

    Args:
        variants: Of the log.
        n_activities: n; codes are 0 … n - 1.
    """
    row, pair = _distinct_pairs(variants, n_activities)
    width = n_activities + 1
    return sum_groups(pair, variants.counts[row], width * width).reshape(width, width)


def clipped_pairs(
    variants: VariantHistogram, n_activities: int, max_pairs: int, norm: Literal[1, 2]
) -> np.ndarray:
    """Returns int64[n+1, n+1]: the cases with each pair, in PAIR_UNITS, those of many scaled down.

    A case of k distinct pairs counts for PAIR_UNITS in each of them if k is at most `max_pairs`,
    and for less, the same in each, if it is more. So a case more changes all sums by a vector of
    length at most PAIR_UNITS max_pairs (norm 1) or PAIR_UNITS sqrt(max_pairs) (norm 2), exactly.

    Args:
        variants: Of the log.
        n_activities: n; codes are 0 … n - 1, and n is the start and the end.
        max_pairs: Distinct pairs of a case that count fully.
        norm: Which length is bounded.
    """
    row, pair = _distinct_pairs(variants, n_activities)
    n_pairs = np.bincount(row, minlength=variants.n_variants)
    ratios = [PAIR_UNITS**norm * max_pairs // max(k, max_pairs) for k in n_pairs.tolist()]
    weights = np.array(ratios if norm == 1 else [math.isqrt(r) for r in ratios], np.int64)
    width = n_activities + 1
    values = (weights * variants.counts)[row]
    return sum_groups(pair, values, width * width).reshape(width, width)


def numbers_of_pairs(variants: VariantHistogram, n_activities: int) -> np.ndarray:
    """Returns int64[n_variants], how many distinct pairs a case of each variant has.

    Args:
        variants: Of the log.
        n_activities: n; codes are 0 … n - 1.
    """
    row, _ = _distinct_pairs(variants, n_activities)
    return np.bincount(row, minlength=variants.n_variants)


def _distinct_pairs(variants: VariantHistogram, n_activities: int) -> tuple[np.ndarray, np.ndarray]:
    """int64[m] twice: each variant's number with each of its pairs, once."""
    width, offsets = n_activities + 1, variants.offsets
    row = np.repeat(np.arange(variants.n_variants), np.diff(offsets) + 1)
    codes = variants.codes.astype(np.int64)
    sources, targets = (np.insert(codes, at, n_activities) for at in (offsets[:-1], offsets[1:]))
    keys, _ = distinct_counts((row * width + sources) * width + targets)
    row, pair = np.divmod(keys, width * width)
    return row, pair


def cases_by_ends(
    variants: VariantHistogram, n_activities: int, parts: Sequence[Part]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns int64[n] twice: the cases by the first and by the last of their events of a part.

    The activities of each part are looked at apart from all others. A case counts once for each
    part of which it has an event: one case more changes either array by at most the number of
    parts in total, and replacing one by at most twice as much.

    Args:
        variants: Of the log.
        n_activities: n; codes are 0 … n - 1.
        parts: Disjoint sets of codes; activities of none count nowhere.
    """
    part_of = np.full(n_activities, -1, np.int64)
    for number, part in enumerate(parts):
        part_of[list(part)] = number
    n_parts = max(len(parts), 1)
    part_of_event = part_of[variants.codes]
    places = np.flatnonzero(part_of_event >= 0)
    row = np.repeat(np.arange(variants.n_variants), np.diff(variants.offsets))[places]
    group = row * n_parts + part_of_event[places]
    first = np.full(variants.n_variants * n_parts, -1, np.int64)
    last = first.copy()
    # If several values are for one place, numpy keeps the last one, which is the first in this
    # order.
    first[group[::-1]] = places[::-1]
    last[group] = places
    ends = []
    for place in (first, last):
        group = np.flatnonzero(place >= 0)
        codes = variants.codes[place[group]]
        ends.append(sum_groups(codes, variants.counts[group // n_parts], n_activities))
    return ends[0], ends[1]


# --- Cuts of a directly-follows relation: into a sequence, a choice, parallel parts or a loop. ----
# As in Leemans, "Robust Process Mining with Guarantees", 2017. They look at which pairs there are
# and not at their counts.


def sequence_cut(follows: np.ndarray) -> list[Part] | None:
    """Returns the parts of a sequence in their order, or None.

    From each part every later one can be reached, and none earlier.

    Args:
        follows: bool[m, m], whether the second activity comes right after the first.
    """
    reached = _reachable(follows)
    # Two of them belong together if each can reach the other, and also if neither can.
    parts = _components(reached == reached.T)
    if len(parts) == 1:
        return None
    n_before = reached.sum(axis=0)
    return sorted(parts, key=lambda part: (n_before[part[0]], part))


def exclusive_cut(follows: np.ndarray) -> list[Part] | None:
    """Returns the parts between which no pair leads, or None."""
    parts = _components(follows | follows.T)
    return parts if len(parts) > 1 else None


def parallel_cut(follows: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> list[Part] | None:
    """Returns parts of which all activities follow those of the others both ways, or None.

    A part without a start or without an end is put together with its neighbour in the order of
    sizes, as pm4py does.

    Args:
        follows: bool[m, m].
        starts: bool[m], activities that may come first.
        ends: bool[m], activities that may come last.
    """
    both = follows & follows.T
    np.fill_diagonal(both, True)
    parts = sorted(_components(~both), key=lambda part: (len(part), part))
    i = 0
    while i < len(parts) and len(parts) > 1:
        if starts[list(parts[i])].any() and ends[list(parts[i])].any():
            i += 1
            continue
        part = parts.pop(i)
        neighbour = max(i - 1, 0)
        parts[neighbour] = tuple(sorted(parts[neighbour] + part))
    return sorted(parts) if len(parts) > 1 else None


def loop_cut(follows: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> list[Part] | None:
    """Returns the body of a loop and then the ways back, or None.

    The ways back begin after every end of the body if after any, end before every start if before
    any, and touch nothing else of it.

    Args:
        follows: bool[m, m].
        starts: bool[m], activities that may come first.
        ends: bool[m], activities that may come last.
    """
    is_border = starts | ends
    if not starts.any() or not ends.any() or is_border.all():
        return None
    rest = np.flatnonzero(~is_border)
    inner = follows[np.ix_(rest, rest)]
    body = np.flatnonzero(is_border).tolist()
    back: list[Part] = []
    for component in _components(inner | inner.T):
        part = rest[list(component)]
        into, out_of = follows[:, part], follows[part, :]
        enters, leaves = into[ends], out_of[:, starts]
        is_back = (
            enters.any()
            and leaves.any()
            and not into[starts & ~ends].any()
            and not out_of[:, ends & ~starts].any()
            and (enters.all(axis=0) | ~enters.any(axis=0)).all()
            and (leaves.all(axis=1) | ~leaves.any(axis=1)).all()
        )
        if is_back:
            back.append(tuple(part.tolist()))
        else:
            body += part.tolist()
    return [tuple(sorted(body)), *back] if back else None


def _components(linked: np.ndarray) -> list[Part]:
    """Returns the connected parts of an undirected graph, in the order of their first members."""
    first = _reachable(linked).argmax(axis=1)
    return [tuple(np.flatnonzero(first == own).tolist()) for own in np.unique(first)]


def _reachable(follows: np.ndarray) -> np.ndarray:
    """Returns bool[m, m], whether the second can be reached from the first, or is it (Warshall)."""
    reached = follows | np.eye(len(follows), dtype=bool)
    for way in range(len(follows)):
        reached[reached[:, way]] |= reached[way]
    return reached


# --- From a directly-follows relation to a process tree, by cuts, without a look at the log. ------
# The inductive miner (Leemans, Fahland, van der Aalst: "Discovering Block-Structured Process Models
# from Event Logs", 2013; cut detection as in Leemans, "Robust Process Mining with Guarantees",
# 2017)
# splits the activities by a sequence, exclusive, parallel or loop cut and mines each part. DPIM
# (Schulze, Zisgen, Kirschke, Mohammadi, Koschmider: "Differentially Private Inductive Miner",
# algorithms 3 to 5) does so on one noisy relation. All here is a function of that relation, and of
# what a callback answers about the ends of parallel and loop parts, so it costs no privacy of its
# own.
#
# Two sets of rules. `published` is DPIM's: an activity or a cut is optional where its noisy count
# is clearly below the number of cases, wherever in the tree it stands; every loop cut is
# optional; the parts of a parallel cut lose the pairs that were removed as loops. `structural` is
# the inductive miner's for relations: a part of a sequence is optional if a pair leads past it, a
# way back if a pair leads from an end to a start.


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


EndsOfParts = Callable[[Sequence[Part]], tuple[np.ndarray, np.ndarray]]
"""From the parts of a parallel or loop cut to bool[n] twice: what may come first and last in its
own part."""


@dataclass(frozen=True, eq=False)
class _Place:
    """A set of activities to be mined.

    Attributes:
        part: The activities, sorted.
        follows: bool[n, n], the pairs that are left.
        starts: bool[n], those of the part that may come first.
        ends: bool[n], those that may come last.
        n_cuts: All cuts around it.
    """

    part: Part
    follows: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    n_cuts: int = 0

    def within(self, part: Part, starts: np.ndarray, ends: np.ndarray) -> _Place:
        """Returns the place of a part one cut further in."""
        is_in = _mask(part, len(starts))
        return replace(
            self, part=part, starts=starts & is_in, ends=ends & is_in, n_cuts=self.n_cuts + 1
        )

    def entered(self, part: Part) -> _Place:
        """Returns the place of a part that begins where pairs from the others lead into it."""
        if len(part) == 1:  # nothing is asked about the ends of a leaf
            return self.within(part, self.starts, self.ends)
        inside = _mask(part, len(self.starts))
        others = _mask(self.part, len(self.starts)) & ~inside
        starts = self.starts | self.follows[others].any(axis=0)
        ends = self.ends | self.follows[:, others].any(axis=1)
        return self.within(part, starts, ends)


@dataclass(frozen=True, eq=False)
class TreeBuilder:
    """Makes the process tree of a relation (BuildT).

    Where the published rules leave something open: a sequence's parts begin where pairs lead into
    them, and end where pairs lead out; the occurrences of an activity are the sum over all pairs
    that it begins, those with the end too, or every last activity would be optional; a loop without
    a way back (of which algorithm 4 has an empty part) is tried where pairs lead from ends to
    starts, and mined without these; it and the ends of ways back need no answer of the callback.
    Activities without a pair are left out.

    Attributes:
        relation: What to mine.
        names: By code, distinct.
        tolerance: By how many cases a noisy count must be below another one to be less, and above
            to be more; positive.
        ends_of_parts: Asked once for each parallel cut, and by the published rules each loop cut,
            of which some part is not yet a leaf; parents before children.
        is_published: Whether the rules are those of the paper; else the structural ones.
        begins_anew: Whether a part without a cut, of which pairs lead to what may come first, is a
            loop around what is left without these pairs; else it becomes a flower at once.
    """

    relation: Relation
    names: Sequence[str]
    tolerance: float
    ends_of_parts: EndsOfParts
    is_published: bool = True
    begins_anew: bool = False

    @property
    def n(self) -> int:
        """Number of activities."""
        return self.relation.n_activities

    @cached_property
    def counts(self) -> np.ndarray:
        """int64[n+1, n+1], of the pairs that hold."""
        return np.where(self.relation.holds, self.relation.counts, 0)

    @property
    def n_cases(self) -> int:
        """DP-ESize."""
        return int(self.counts[self.n].sum())

    def tree(self) -> models.ProcessTree:
        """Returns the tree, normalised."""
        holds, n = self.relation.holds, self.n
        part = tuple(np.flatnonzero(holds[:, :n].any(axis=0) | holds[:n].any(axis=1)).tolist())
        place = _Place(part, holds[:n, :n], holds[n, :n], holds[:n, n])
        return models.normalise(self.mined(place) if part else models.SILENT)

    def mined(self, place: _Place) -> models.ProcessTree:
        """Returns the tree of a place."""
        if len(place.part) == 1:
            return self.build_activity(place.part[0])
        if place.n_cuts >= MAX_CUTS:
            return self.build_flower(place)
        rows = np.ix_(place.part, place.part)
        follows = place.follows[rows]
        starts, ends = place.starts[list(place.part)], place.ends[list(place.part)]
        cuts: tuple[tuple[models.Operator, Callable[[], list[Part] | None]], ...] = (
            ("sequence", lambda: sequence_cut(follows)),
            ("exclusive", lambda: exclusive_cut(follows)),
            ("parallel", lambda: parallel_cut(self.without_loops(follows, rows), starts, ends)),
        )
        for operator, cut in cuts:
            if (groups := cut()) is not None:
                return self.build_cut(operator, place, _outer(groups, place))
        returns = place.ends[:, None] & place.starts[None, :] & place.follows
        np.fill_diagonal(returns, False)
        once = replace(place, follows=place.follows & ~returns)
        goes_straight = bool(returns[rows].any())
        loop_parts = loop_cut(follows, starts, ends)
        if loop_parts is not None:
            return self.build_loop(once, _outer(loop_parts, place), goes_straight)
        if goes_straight:
            return self.build_loop(once, [place.part], goes_straight)
        into_starts = place.follows & place.starts[None, :]
        np.fill_diagonal(into_starts, False)
        if self.begins_anew and into_starts[rows].any():
            inside = _mask(place.part, self.n)
            last = place.ends | (inside & into_starts[:, inside].any(axis=1))
            once = replace(place, follows=place.follows & ~into_starts, ends=last)
            return self.build_loop(once, [place.part], True)
        return self.build_flower(place)

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
        counts, holds = self.counts[: self.n, : self.n], self.relation.holds[: self.n, : self.n]
        is_loop = holds & holds.T & (counts + counts.T >= self.n_cases + self.tolerance)
        np.fill_diagonal(is_loop, False)
        return is_loop

    def build_flower(self, place: _Place) -> models.ProcessTree:
        """Returns any order of the activities."""
        return models.flower(self.names[activity] for activity in place.part)

    def build_activity(self, activity: int) -> models.ProcessTree:
        """Returns a leaf, repeated or left out as the relation says."""
        name = models.leaf(self.names[activity])
        follows_itself = self.relation.holds[activity, activity]
        tree = models.loop(name, models.SILENT) if follows_itself else name
        return _optional(tree, self.is_rare((activity,)))

    def is_rare(self, part: Part) -> bool:
        """Whether activities begin fewer pairs than there are cases (DP-ActC and DP-ESize)."""
        occurrences = self.counts[list(part)].sum()
        return self.is_published and bool(occurrences <= self.n_cases - self.tolerance)

    def build_cut(
        self, operator: models.Operator, place: _Place, parts: list[Part]
    ) -> models.ProcessTree:
        """Returns the trees of the parts of a cut under its operator."""
        if operator == "parallel":
            follows = self.without_loops(place.follows) if self.is_published else place.follows
            places = self.asked(replace(place, follows=follows), parts)
        else:
            places = [place.entered(part) for part in parts]
        can_be_passed = operator == "sequence" and not self.is_published
        passed = _passed(place, parts) if can_be_passed else [False] * len(parts)
        children = tuple(map(_optional, map(self.mined, places), passed))
        return _optional(models.ProcessTree(operator, None, children), self.is_rare(place.part))

    def build_loop(
        self, place: _Place, parts: list[Part], goes_straight: bool
    ) -> models.ProcessTree:
        """Returns a loop of a body and ways back; of these one is empty if it goes straight."""
        places = list(map(place.entered, parts))
        # How cases begin and end says nothing about the ways back of a loop, nor about a part that
        # is repeated as a whole.
        if self.is_published and len(parts) > 1:
            places[0] = self.asked(place, parts)[0]
        first, *ways = map(self.mined, places)
        back = models.exclusive(*[models.SILENT] * goes_straight, *ways)
        return _optional(models.loop(first, back), self.is_published)

    def asked(self, place: _Place, parts: list[Part]) -> list[_Place]:
        """Returns the places of the parts, as the callback answers if one is to be mined."""
        is_asked = max(map(len, parts)) > 1
        starts, ends = self.ends_of_parts(parts) if is_asked else (place.starts, place.ends)
        return [place.within(part, starts, ends) for part in parts]


def _optional(tree: models.ProcessTree, is_optional: bool) -> models.ProcessTree:
    return models.optional(tree) if is_optional else tree


def _passed(place: _Place, parts: list[Part]) -> list[bool]:
    """Whether a pair, a start or an end leads past each part of a sequence."""
    n = len(parts)
    number = np.full(len(place.starts), -1)
    for i, part in enumerate(parts):
        number[list(part)] = i
    sources, targets = np.nonzero(place.follows & (number[:, None] >= 0) & (number >= 0))
    starts, ends = number[place.starts], number[place.ends]
    leaves = np.concatenate([number[sources], np.full(len(starts), -1), ends])
    enters = np.concatenate([number[targets], starts, np.full(len(ends), n)])
    return [bool(((leaves < i) & (i < enters)).any()) for i in range(n)]


def _outer(parts: list[Part], place: _Place) -> list[Part]:
    """Returns parts of positions within a place as parts of activities."""
    return [tuple(place.part[i] for i in part) for part in parts]


def _mask(codes: Collection[int], n: int) -> np.ndarray:
    mask = np.zeros(n, bool)
    mask[list(codes)] = True
    return mask
