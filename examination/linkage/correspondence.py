"""How many cases can still be somebody's if two releases of a growing log are laid side by side.

The correspondence attacks of Fung, Wang, Fu and Pei: Anonymity for Continuous Data Publishing (EDBT
2008), on released cases. Somebody knows something of a victim, and finds some cases that match it
in the earlier release and some in the later one. Each case of the earlier release is in the later
one too, so both releases are explained by one assignment of earlier cases to later ones, each later
case taken once. Of all assignments that are possible, the attacker takes that which leaves most
candidates: what is excluded there is excluded in every one.

* *forward*: the victim is in both releases. Of the earlier cases that match, those are candidates
  that are assigned to a later one that matches.
* *cross*: the same of the later cases. Every candidate has one counterpart, so there are as many.
* *backward*: the victim is new in the later release. Candidates are later cases that match and to
  which no earlier one is assigned.
* *either*: nobody knows whether the victim is new. Candidates are later cases that match, but for
  those to which earlier cases are assigned that do not match. That takes what is known to be known
  of the earlier case, too: no case went on after the earlier release.

Which cases can be assigned to which is a forest: a class of earlier cases can be assigned to the
later cases of the same class and of all classes below it. Without a class below another, and with
sensitive values as classes, the numbers are those of the paper: of g1 earlier and g2 later cases of
a class, of which m1 and m2 match, min(m1, m2) are left by the forward and the cross attack, and
m2 - max(0, g1 - (g2 - m2)) by the backward attack. Exact counts; no Beam, no randomness.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracecloak.schemas.errors import UsageError


@dataclass(frozen=True, eq=False)
class Classes:
    """The cases of two releases by class.

    Attributes:
        parents: int64[n], the class right above each one; -1 for none.
        earlier: int64[n], cases of the earlier release.
        later: int64[n], cases of the later release.
        may_vanish: bool[n], whether a case of the earlier release need not be in the later one. It
            holds for all classes or for roots alone.
    """

    parents: np.ndarray
    earlier: np.ndarray
    later: np.ndarray
    may_vanish: np.ndarray

    def __post_init__(self) -> None:
        if not self.may_vanish.all() and (self.parents[self.may_vanish] >= 0).any():
            raise ValueError("may_vanish must hold for all classes or for roots alone")

    @cached_property
    def levels(self) -> list[np.ndarray]:
        """The classes by their distance from the root, the farthest first."""
        depths = np.zeros(len(self.parents), np.int64)
        above = self.parents.copy()
        while (above >= 0).any():
            depths += above >= 0
            above = np.where(above >= 0, self.parents[above], -1)
        return [np.flatnonzero(depths == d) for d in range(depths.max(initial=-1), -1, -1)]


@dataclass(frozen=True, eq=False)
class Left:
    """Candidates that are left, int64[k] each, by piece of knowledge.

    Attributes:
        both: After the forward attack, and as many after the cross attack.
        new: After the backward attack.
        either: Where nobody knows whether the victim is new.
    """

    both: np.ndarray
    new: np.ndarray
    either: np.ndarray


def left(classes: Classes, earlier: np.ndarray, later: np.ndarray) -> Left:
    """Counts the candidates that no assignment of earlier cases to later ones leaves more of.

    Args:
        classes: All cases of the two releases.
        earlier: int64[n, k], those of the earlier release that match each piece, by class.
        later: int64[n, k], those of the later release.

    Raises:
        UsageError: No assignment is possible: the releases are not of one growing log, or were not
            made as it is supposed.
    """
    others = classes.earlier[:, None] - earlier
    n_later = later.sum(axis=0)
    return Left(
        _best(classes, later, earlier, others, 1, 0),
        n_later + _best(classes, later, earlier, others, -1, -1),
        n_later + _best(classes, later, earlier, others, 0, -1),
    )


def _best(
    classes: Classes,
    sought: np.ndarray,
    known: np.ndarray,
    others: np.ndarray,
    of_known: int,
    of_others: int,
) -> np.ndarray:
    """int64[k], the largest total of an assignment.

    An earlier case that is assigned to a later one that is sought counts `of_known` if it matches
    and `of_others` if not, and nothing if it is assigned elsewhere.

    From the leaves to the roots: once the cases of a class and those below it are assigned, what
    matters is how many sought places are left there. The largest total is a concave function of
    that number, which begins at `low` with `total`, rises by 1 for `rise` steps, stays for `flat`
    ones, and falls by 1 for `fall`. Classes side by side add such functions up (a sup-convolution:
    all five numbers add up), and each case that is assigned makes the number of places smaller by
    one or not. What would be fewer than no places, or more than there are, is cut off.
    """
    shape = sought.shape
    low, total = sought.astype(np.int64), np.zeros(shape, np.int64)
    steps = {slope: np.zeros(shape, np.int64) for slope in (1, 0, -1)}
    places = np.repeat(classes.later[:, None], shape[1], axis=1).astype(np.int64)
    # Of those that may vanish each has a place of its own that nobody seeks.
    places += np.where(classes.may_vanish, classes.earlier, 0)[:, None]
    result = np.zeros(shape[1], np.int64)
    for level in classes.levels:
        at, value, left_there = low[level], total[level], places[level]
        rise, flat, fall = (steps[slope][level] for slope in (1, 0, -1))
        for number, gain in ((known[level], of_known), (others[level], of_others)):
            at, value, left_there = at - number, value + gain * number, left_there - number
            rise = rise + number * (gain == -1)
            flat = flat + number * (gain == 0)
            fall = fall + number * (gain == 1)
        missing = np.maximum(-at, 0)
        at = at + missing
        for_rise = np.minimum(missing, rise)
        for_flat = np.minimum(missing - for_rise, flat)
        for_fall = missing - for_rise - for_flat
        rise, flat, fall = rise - for_rise, flat - for_flat, fall - for_fall
        value = value + for_rise - for_fall
        beyond = np.maximum(at + rise + flat + fall - left_there, 0)
        of_fall = np.clip(beyond, 0, np.maximum(fall, 0))
        of_flat = np.minimum(beyond - of_fall, flat)
        of_rise = beyond - of_fall - of_flat
        rise, flat, fall = rise - of_rise, flat - of_flat, fall - of_fall
        if (fall < 0).any() or (rise < 0).any():
            raise UsageError(
                "a case of the earlier release has no counterpart in the later one, so the "
                "releases are not as supposed: give releases of one growing log in the order of "
                "their publication, or suppose less with --suppressed anything"
            )
        parents = classes.parents[level]
        is_root = parents < 0
        result += (value + rise)[is_root].sum(axis=0)
        above = parents[~is_root]
        for sums, of_level in (
            (low, at), (total, value), (places, left_there),
            (steps[1], rise), (steps[0], flat), (steps[-1], fall),
        ):  # fmt: skip
            np.add.at(sums, above, of_level[~is_root])
    return result
