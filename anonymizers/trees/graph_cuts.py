"""Cuts of a directly-follows relation: into a sequence, a choice, parallel parts or a loop.

As in Leemans, "Robust Process Mining with Guarantees", 2017. They look at which pairs there are and
not at their counts.
"""

from __future__ import annotations

import numpy as np

from tracecloak.anonymizers.trees.counts import Part


def sequence_cut(follows: np.ndarray) -> list[Part] | None:
    """Returns the parts of a sequence in their order, or None.

    From each part every later one can be reached, and none earlier.

    Args:
        follows: bool[m, m], whether the second activity comes right after the first.
    """
    number, ways_on, ways_back = _reachable(follows)
    n_strong = len(ways_on)
    if n_strong == 1:
        return None
    # Two of them belong together if each can reach the other, and also if neither can.
    left, groups = (1 << n_strong) - 1, []
    while left:
        group = growing = left & -left
        left ^= group
        while growing:
            one = growing.bit_length() - 1
            growing ^= 1 << one
            apart = left & ~(ways_on[one] | ways_back[one])
            left ^= apart
            group |= apart
            growing |= apart
        groups.append(group)
    if len(groups) < 2:
        return None
    group_of = np.empty(n_strong, np.int64)
    for i, group in enumerate(groups):
        group_of[_bits(group)] = i
    groups_of = group_of[number]
    sizes = np.bincount(number, minlength=n_strong)
    parts = [tuple(np.flatnonzero(groups_of == i).tolist()) for i in range(len(groups))]

    def n_before(part: Part) -> int:
        return int(sizes[_bits(ways_back[number[part[0]]])].sum())

    return sorted(parts, key=lambda part: (n_before(part), part))


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
    left = np.ones(len(linked), bool)
    parts: list[Part] = []
    for first in range(len(linked)):
        if not left[first]:
            continue
        left[first] = False
        part = [first]
        for one in part:  # which grows
            neighbours = np.flatnonzero(linked[one] & left)
            left[neighbours] = False
            part += neighbours.tolist()
        parts.append(tuple(sorted(part)))
    return parts


def _reachable(follows: np.ndarray) -> tuple[np.ndarray, list[int], list[int]]:
    """Returns which lie on common circles, and which of these sets can be reached from which.

    Returns:
        int64[m], the set of each activity; and for each set, as bits of an integer, those that it
        reaches and those that reach it, itself among them.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    sources, targets = np.nonzero(follows)
    graph = coo_array((np.ones(len(sources), np.int8), (sources, targets)), follows.shape)
    n_strong, components = connected_components(graph.tocsr(), directed=True, connection="strong")
    number = components.astype(np.int64)
    pairs = np.unique(number[sources] * n_strong + number[targets])
    before, after = np.divmod(pairs, n_strong)
    differs = before != after
    ways = list(zip(before[differs].tolist(), after[differs].tolist(), strict=True))
    further: list[list[int]] = [[] for _ in range(n_strong)]
    n_open = [0] * n_strong
    for one, other in ways:
        further[one].append(other)
        n_open[other] += 1
    order = [one for one in range(n_strong) if not n_open[one]]
    for one in order:  # which grows
        for other in further[one]:
            n_open[other] -= 1
            if not n_open[other]:
                order.append(other)
    ways_on, ways_back = ([1 << one for one in range(n_strong)] for _ in range(2))
    for one in reversed(order):
        for other in further[one]:
            ways_on[one] |= ways_on[other]
    for one in order:
        for other in further[one]:
            ways_back[other] |= ways_back[one]
    return number, ways_on, ways_back


def _bits(number: int) -> list[int]:
    """Returns the places of the ones of an integer."""
    positions = []
    while number:
        low = number & -number
        positions.append(low.bit_length() - 1)
        number ^= low
    return positions
