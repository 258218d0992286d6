"""Correspondence attacks in plain Python: all assignments of a few cases are written out."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def best_of_all(
    earlier: Sequence[bool],
    later: Sequence[bool],
    can_be: Callable[[int, int], bool],
    may_vanish: Callable[[int], bool],
) -> tuple[int, int, int] | None:
    """Returns the most candidates of any assignment: in both, new, and either.

    Args:
        earlier: Of each case of the earlier release, whether it matches what is known.
        later: Likewise of the later release.
        can_be: Whether an earlier case can be a later one, by their places.
        may_vanish: Whether an earlier case need not be in the later release.

    Returns:
        None if there is no assignment.
    """
    best: tuple[int, int, int] | None = None
    taken: dict[int, int] = {}

    def assign(i: int) -> None:
        nonlocal best
        if i == len(earlier):
            both = sum(earlier[one] and later[other] for other, one in taken.items())
            new = sum(found and j not in taken for j, found in enumerate(later))
            either = sum(
                found and (j not in taken or earlier[taken[j]]) for j, found in enumerate(later)
            )
            old = best or (0, 0, 0)
            best = (max(old[0], both), max(old[1], new), max(old[2], either))
            return
        for j in range(len(later)):
            if j not in taken and can_be(i, j):
                taken[j] = i
                assign(i + 1)
                del taken[j]
        if may_vanish(i):
            assign(i + 1)

    assign(0)
    return best
