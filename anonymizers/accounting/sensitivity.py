"""Sensitivities of the integer statistics: how far one privacy unit can move them, exactly.

Every scale of noise is made for one of these values (`anonymizers.accounting.calibration`), and
tests enumerate small logs to see that the statistic which gets the noise moves so far and no
farther.

A unit is a case, or an individual with at most `max_cases` cases; neighbouring logs differ by
adding or removing one. The statistics are sums over cases and bounding lets no unit change
another's cases (`anonymizers.contract.bounding`), so the two values differ by the sum of the unit's
own case vectors: by one vector v of a case, or by up to m of them. With m cases, all alike, L1, L2
and Linf are m times those of one case and the squared L2 norm is m^2 times; with m cases in m
disjoint sets of cells, m times as many cells change. No case can do more, so each number is
attained, in a large enough vocabulary, though not all by the same case. An individual's cases may
all fall into one cell: nothing here takes them to be distinct (sqrt(m) in place of m would need
that).

Numbers are those of the sum, not of what is computed from it: cumulative sums of a histogram, for
instance, have other ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from tracecloak.schemas.errors import UsageError, check_least

# An irrational L2 norm is rounded up to multiples of one by this, before it is multiplied.
_ROOT_FINENESS = 1 << 20


@dataclass(frozen=True)
class Sensitivity:
    """The largest distances between an integer statistic on neighbouring logs.

    Attributes:
        l0: Cells that differ.
        l1: Sum of the absolute differences.
        l2_squared: Sum of the squared differences.
        linf: Largest absolute difference of one cell.
        factor: `l2_squared` is the square of it times what is rounded to have a root.
    """

    l0: int
    l1: int | Fraction
    l2_squared: int | Fraction
    linf: int | Fraction
    factor: int | Fraction = field(default=1, compare=False)

    @property
    def l2(self) -> Fraction:
        """The root of `l2_squared`, rounded up by less than a millionth of `factor`."""
        # Rounded up to a multiple of one by `_ROOT_FINENESS`.
        square = self.l2_squared / Fraction(self.factor) ** 2 * _ROOT_FINENESS**2
        return Fraction(math.isqrt(math.ceil(square) - 1) + 1, _ROOT_FINENESS) * self.factor

    @property
    def l2_whole(self) -> int:
        """The root of `l2_squared`, rounded up to a whole number."""
        return math.isqrt(math.ceil(self.l2_squared) - 1) + 1

    def of_cases(self, max_cases: int) -> Sensitivity:
        """Returns the sensitivity to an individual, if this is the one to a case; see the module.

        Raises:
            UsageError: `max_cases` is below 1.
        """
        check_least(1, max_cases=max_cases)
        scaled = self.times(max_cases)
        return Sensitivity(
            max_cases * self.l0, scaled.l1, scaled.l2_squared, scaled.linf, scaled.factor
        )

    def times(self, factor: int | Fraction) -> Sensitivity:
        """Returns the sensitivity of the statistic times a number, such as steps of a lattice."""
        return Sensitivity(
            self.l0,
            self.l1 * factor,
            self.l2_squared * factor**2,
            self.linf * factor,
            self.factor * factor,
        )

    def beside(self, other: Sensitivity) -> Sensitivity:
        """Returns the sensitivity of two statistics of a case side by side, in separate cells."""
        return Sensitivity(
            self.l0 + other.l0,
            self.l1 + other.l1,
            self.l2_squared + other.l2_squared,
            max(self.linf, other.linf),
        )


def of_count(change: int | Fraction = 1) -> Sensitivity:
    """One number that a unit changes by at most so much, or a vector whose norm it is.

    Args:
        change: In steps of the lattice, above 0.

    Raises:
        UsageError: It is no exact number above 0.
    """
    if isinstance(change, bool | float) or not change > 0:
        raise UsageError(f"a change must be an exact number above 0, got {change!r}")
    return Sensitivity(1, change, change**2, change, change)


def of_one_cell(max_cases: int = 1) -> Sensitivity:
    """Numbers of cases by what each has one of: a variant, a length, a norm, a value.

    Each case adds 1 to one cell, as it does to the number of all cases.

    Args:
        max_cases: Cases of a privacy unit.

    Raises:
        UsageError: Below 1.
    """
    return of_distinct_cells(1, max_cases)


def of_distinct_cells(n_cells: int, max_cases: int = 1) -> Sensitivity:
    """Numbers of cases by what each has several of, counted once each.

    Activities (`distinct_activities`), directly-follows pairs whatever their number, prefixes of
    each length, a date and an hour of the week. A case adds 1 to at most `n_cells` cells, which is
    L0, L1 and L2^2; Linf is 1.

    Args:
        n_cells: Cells of a case.
        max_cases: Cases of a privacy unit.

    Raises:
        UsageError: One of them is below 1.
    """
    check_least(1, n_cells=n_cells)
    return Sensitivity(n_cells, n_cells, n_cells, 1).of_cases(max_cases)


def of_steps(max_trace_length: int, max_cases: int = 1) -> Sensitivity:
    """Steps between events, by source and target, by target, and by position in some variants.

    A case of n events has n - 1 steps, each of which counts in two cells, and if its variant is one
    of those, in a third that no other step of the case has. The squares of the others add up to the
    most where all steps are of one pair and bin. A case of one event has none and changes nothing;
    it is taken to change one cell, as noise needs a scale.

    Args:
        max_trace_length: Events of a case.
        max_cases: Cases of a privacy unit.

    Raises:
        UsageError: One of them is below 1.
    """
    check_least(1, max_trace_length=max_trace_length)
    n = max_trace_length - 1
    if not n:
        return of_one_cell(max_cases)
    return Sensitivity(3 * n, 3 * n, 2 * n**2 + n, n).of_cases(max_cases)


def of_directly_follows(max_trace_length: int, max_cases: int = 1) -> Sensitivity:
    """Occurrences of directly-follows arcs, START and END included (`DirectlyFollows`).

    A case of n events takes n + 1 arcs: one from START, n - 1 between activities, one to END. All
    distinct, they are n + 1 cells and the L1 distance is n + 1 in any case. The START and the END
    arc are cells of their own with a 1 each. The squares of the n - 1 others add up to the most
    where all are one arc, that of a repeated activity: L2^2 = (n - 1)^2 + 2, and not n + 1, which
    would hold for distinct arcs only. That arc has Linf = n - 1, or 1 if n = 1. All of it grows
    with n, so n is `max_trace_length`.

    Args:
        max_trace_length: Events of a case.
        max_cases: Cases of a privacy unit.

    Raises:
        UsageError: One of them is below 1.
    """
    check_least(1, max_trace_length=max_trace_length)
    n = max_trace_length
    return Sensitivity(n + 1, n + 1, (n - 1) ** 2 + 2, max(n - 1, 1)).of_cases(max_cases)


def of_order(max_events: int, n_activities: int, max_cases: int = 1) -> Sensitivity:
    """Cases by which activity comes before which, by activity and by first activity.

    Of at most k events, a case has each of at most k (k - 1) / 2 pairs and at most k activities
    once (`ActivityRelations`), and begins with one of them.

    Args:
        max_events: k, events of a case.
        n_activities: Activities that there are.
        max_cases: Cases of a privacy unit.

    Raises:
        UsageError: One of them is below 1.
    """
    check_least(1, max_events=max_events, n_activities=n_activities)
    k, n = max_events, n_activities
    return of_distinct_cells(min(n * n, k * (k - 1) // 2) + min(n, k) + 1, max_cases)


def of_clipped_cells(l2_clip: int, max_cases: int = 1) -> Sensitivity:
    """Clipped counts in lattice units (`ClippedCells`), for cases of any length.

    A case adds integers w with a sum of squares of at most C^2, C the clip. Integers are at most
    their squares, so L0 and L1 are at most C^2 too; a case of C^2 distinct cells has a norm of C
    occurrences and becomes C^2 ones, which attains all three. All in one cell, it adds C there.

    Args:
        l2_clip: The clip in lattice units.
        max_cases: Cases of a privacy unit.

    Raises:
        UsageError: One of them is below 1.
    """
    check_least(1, l2_clip=l2_clip)
    c = l2_clip
    return Sensitivity(c**2, c**2, c**2, c, c).of_cases(max_cases)


def of_clipped(clip_units: int, max_cases: int, *, is_pure: bool) -> Sensitivity:
    """Counts of cells that are clipped in L2, or in L1 where delta is 0.

    Args:
        clip_units: Largest norm of a case in lattice units.
        max_cases: Cases of a privacy unit.
        is_pure: Whether delta is 0.
    """
    if is_pure:
        return of_count(clip_units).of_cases(max_cases)
    return of_clipped_cells(clip_units, max_cases)


def of_clipped_flows(l2_clip: int, max_cases: int = 1) -> Sensitivity:
    """Clipped occurrences of arcs in lattice units (`ClippedFlows`), for cases of any length.

    As of `of_clipped_cells`, but Linf is C - 1: a case has a START and an END arc beside, so an arc
    that it takes x times is at most floor(C x / sqrt(x^2 + 2)) < C, and is C - 1 where a long case
    repeats one activity.

    Args:
        l2_clip: The clip in lattice units, at least 2, as for `ClippedFlows.from_traces`.
        max_cases: Cases of a privacy unit.

    Raises:
        UsageError: `l2_clip` is below 2 or `max_cases` below 1.
    """
    check_least(2, l2_clip=l2_clip)
    c = l2_clip
    return Sensitivity(c**2, c**2, c**2, c - 1, c).of_cases(max_cases)


def of_scaled_pairs(max_pairs: int, units: int, norm: int, max_cases: int = 1) -> Sensitivity:
    """Cases by distinct pair, those of many pairs scaled down (`trees.counts.clipped_pairs`).

    A case of p pairs adds u = `units` to each if p is at most k = `max_pairs`, else less, so that
    its norm is at most u k (norm 1) or u sqrt(k) (norm 2). As lattice steps are whole, it can have
    up to u k pairs, or u^2 k, before it adds nothing to any. The norm that is not bounded is
    stated for what the other one allows.

    Args:
        max_pairs: k.
        units: Lattice steps of a case.
        norm: 1 or 2.
        max_cases: Cases of a privacy unit.

    Raises:
        UsageError: A number is below 1.
    """
    check_least(1, max_pairs=max_pairs, units=units)
    k, u = max_pairs, units
    most = u * k if norm == 1 else u**2 * k
    return Sensitivity(most, most, u**2 * k, u, u).of_cases(max_cases)


def of_shares(units: int, max_cases: int = 1) -> Sensitivity:
    """What of each case is of one kind and what of the other, in parts of a case.

    A case adds its two shares, which sum to `units`; one of them may be all.

    Args:
        units: Lattice steps of a case.
        max_cases: Cases of a privacy unit.

    Raises:
        UsageError: One of them is below 1.
    """
    check_least(1, units=units)
    return Sensitivity(2, units, units**2, units, units).of_cases(max_cases)
