"""Sensitivities of the integer statistics: how far one privacy unit can move them, exactly.

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

from dataclasses import dataclass

from tracecloak.schemas.errors import UsageError


@dataclass(frozen=True)
class Sensitivity:
    """The largest distances between an integer statistic on neighbouring logs.

    Attributes:
        l0: Cells that differ.
        l1: Sum of the absolute differences.
        l2_squared: Sum of the squared differences.
        linf: Largest absolute difference of one cell.
    """

    l0: int
    l1: int
    l2_squared: int
    linf: int

    def _of_cases(self, max_cases: int) -> Sensitivity:
        """That of an individual, where this is that of a case; see the module."""
        m = _at_least_1("max_cases", max_cases)
        return Sensitivity(m * self.l0, m * self.l1, m**2 * self.l2_squared, m * self.linf)


def of_variants(max_cases: int = 1) -> Sensitivity:
    """Numbers of cases by variant: each case adds 1 to one cell.

    Args:
        max_cases: Cases of a privacy unit.

    Raises:
        UsageError: Below 1.
    """
    return _ONE_CELL._of_cases(max_cases)


def of_trace_lengths(max_cases: int = 1) -> Sensitivity:
    """Numbers of cases by length: each case adds 1 to one cell.

    Args:
        max_cases: Cases of a privacy unit.

    Raises:
        UsageError: Below 1.
    """
    return _ONE_CELL._of_cases(max_cases)


def of_norms(max_cases: int = 1) -> Sensitivity:
    """Numbers of cases by bucket of their norm (`CaseNorms`): each case adds 1 to one cell.

    Args:
        max_cases: Cases of a privacy unit.

    Raises:
        UsageError: Below 1.
    """
    return _ONE_CELL._of_cases(max_cases)


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
    n = _at_least_1("max_trace_length", max_trace_length)
    return Sensitivity(n + 1, n + 1, (n - 1) ** 2 + 2, max(n - 1, 1))._of_cases(max_cases)


def of_pair_presence(max_trace_length: int, max_cases: int = 1) -> Sensitivity:
    """Numbers of cases that have an arc at all, START and END included (`cases_with_pairs`).

    A case of n events has at most n + 1 distinct arcs and adds 1 to the cell of each; so L0, L1 and
    L2^2 are n + 1, and Linf is 1.

    Args:
        max_trace_length: Events of a case.
        max_cases: Cases of a privacy unit.

    Raises:
        UsageError: One of them is below 1.
    """
    n = _at_least_1("max_trace_length", max_trace_length)
    return Sensitivity(n + 1, n + 1, n + 1, 1)._of_cases(max_cases)


def of_clipped_flows(l2_clip: int, max_cases: int = 1) -> Sensitivity:
    """Clipped occurrences of arcs in lattice units (`ClippedFlows`), for cases of any length.

    A case adds integers w with a sum of squares of at most C^2, C the clip. Integers are at most
    their squares, so L0 and L1 are at most C^2 too; a case of C^2 distinct arcs has a norm of C
    occurrences and becomes C^2 ones, which attains all three. Linf is C - 1: a case has a START and
    an END arc beside, so an arc that it takes x times is at most floor(C x / sqrt(x^2 + 2)) < C,
    and is C - 1 where a long case repeats one activity.

    Args:
        l2_clip: The clip in lattice units, at least 2, as for `ClippedFlows.from_traces`.
        max_cases: Cases of a privacy unit.

    Raises:
        UsageError: `l2_clip` is below 2 or `max_cases` below 1.
    """
    if l2_clip < 2:
        raise UsageError(f"l2_clip must be at least 2 lattice units, got {l2_clip}")
    return Sensitivity(l2_clip**2, l2_clip**2, l2_clip**2, l2_clip - 1)._of_cases(max_cases)


def of_activities(max_activities: int, max_cases: int = 1) -> Sensitivity:
    """Numbers of cases that have an activity, among the chosen ones (`distinct_activities`).

    A case adds 1 to at most `max_activities` cells, which is L0, L1 and L2^2; Linf is 1.

    Args:
        max_activities: Activities chosen of a case.
        max_cases: Cases of a privacy unit.

    Raises:
        UsageError: One of them is below 1.
    """
    c = _at_least_1("max_activities", max_activities)
    return Sensitivity(c, c, c, 1)._of_cases(max_cases)


_ONE_CELL = Sensitivity(1, 1, 1, 1)


def _at_least_1(name: str, value: int) -> int:
    if value < 1:
        raise UsageError(f"{name} must be at least 1, got {value}")
    return value
