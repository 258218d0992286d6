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
    reaches = _reachable(follows)
    parts = _components(reaches == reaches.T)
    if len(parts) < 2:
        return None
    return sorted(parts, key=lambda part: (int(reaches[:, part[0]].sum()), part))


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
    return [tuple(np.flatnonzero(first == i).tolist()) for i in np.unique(first)]


def _reachable(follows: np.ndarray) -> np.ndarray:
    """Returns bool[m, m]: whether a way leads from one to another; every one reaches itself."""
    reaches = follows | np.eye(len(follows), dtype=bool)
    while True:
        further = reaches.astype(np.float32) @ reaches.astype(np.float32) > 0
        if (further == reaches).all():
            return reaches
        reaches = further
