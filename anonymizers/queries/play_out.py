"""Play-out: cases from a directly-follows graph, each arc taken as often as its count says.

Algorithm 2 of Fahrenkrog-Petersen, Kabierski, van der Aa and Weidlich ("Semantics-aware mechanisms
for control-flow anonymization in process mining"): a case begins at START and goes on to an
activity drawn by the counts that its last one has left, which fall by one. Where nothing is left,
no case comes to that activity any more: the arcs into it are removed and the case goes a step back.

To draw by the counts that are left and to take one off is to draw without replacement. So the
order in which an activity's arcs are taken is a uniformly random order of its arcs, however its
cases and those of others take turns, and removing an activity from a random order leaves a random
order. All orders are drawn beforehand, in columns, and the cases only follow them: one pass over
the arcs.

That some path leads from START to END is not asked before each case, as the algorithm has it: of
what has no path no case comes, and START is soon used up. A trace goes on while it has not ended
and is not empty; the printed algorithm says "or".
"""

from __future__ import annotations

from array import array

import numpy as np

from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.schemas.arrays.merging import offsets_of
from tracecloak.schemas.errors import UsageError

# Arcs in all: it bounds time, to about 20 s, and memory, to about 2 GB.
MAX_ARCS = 1 << 26
_TOO_MANY = (
    f"the noisy counts would add up to more than {MAX_ARCS:,} directly-follows pairs, which is the "
    "most that is played out: raise epsilon, or give a smaller vocabulary or max_trace_length"
)
# Arcs whose random words are drawn in one go.
_BLOCK = 1 << 20


def play_out(
    sources: np.ndarray,
    targets: np.ndarray,
    counts: np.ndarray,
    start: int,
    end: int,
    randomness: Randomness,
    purpose: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Plays a graph out until START has nothing left; post-processing of its counts.

    No arc is taken more often than its count says. Arcs that are left over are lost.

    Args:
        sources: int64[n_arcs], codes below `end`; no two arcs have the same two ends.
        targets: int64[n_arcs], codes other than `start`; from `start` to `end` there is no arc.
        counts: int64[n_arcs], at least 0.
        start: Code of START.
        end: Code of END, the largest of all.
        randomness: The release's.
        purpose: What the random numbers are for.

    Returns:
        int64[n_cases+1] offsets and int32[n_positions] codes of the cases, in the order in which
        they were made.

    Raises:
        UsageError: The arcs are more than MAX_ARCS.
    """
    if float(counts.sum(dtype=np.float64)) > MAX_ARCS:
        raise UsageError(_TOO_MANY)
    stacks = _orders(sources, targets, counts, end, randomness, purpose)
    is_open = [True] * (end + 1)
    codes, lengths = array("i"), array("q")
    path: list[int] = []
    at = start
    while True:
        left = stacks[at]
        while left:
            to = left.pop()
            if is_open[to]:
                break
        else:  # no arc is left to go on by
            if at == start:
                break
            is_open[at] = False
            path.pop()
            at = path[-1] if path else start
            continue
        if to == end:
            codes.extend(path)
            lengths.append(len(path))
            path.clear()
            at = start
        else:
            path.append(to)
            at = to
    return offsets_of(np.array(lengths, np.int64)), np.array(codes, np.int32)


def playable(counts: np.ndarray) -> np.ndarray:
    """Returns int64[n_arcs], counts of which no more than can be played out are left.

    For releases that may not be refused on what the noise came to: all counts are made smaller in
    proportion.

    Args:
        counts: int64[n_arcs], at least 0.
    """
    total = float(counts.sum(dtype=np.float64))
    if total <= MAX_ARCS:
        return counts
    return np.floor(counts * (MAX_ARCS / total * (1 - 1e-9))).astype(np.int64)


def refuse_excess(n_arcs: float) -> None:
    """Refuses what is expected to be too much to be played out.

    Args:
        n_arcs: What is expected of the sum of the counts, from public numbers.

    Raises:
        UsageError: They are more than MAX_ARCS.
    """
    if n_arcs > MAX_ARCS:
        raise UsageError(_TOO_MANY)


def _orders(
    sources: np.ndarray,
    targets: np.ndarray,
    counts: np.ndarray,
    end: int,
    randomness: Randomness,
    purpose: str,
) -> list[array[int]]:
    """Returns for each code the targets of its arcs, as often as counted, in random order."""
    orders = [array("i") for _ in range(end + 1)]
    cells = cell_numbers(sources * (end + 1) + targets)
    for source in np.unique(sources[counts > 0]).tolist():
        arcs = np.flatnonzero(sources == source)
        words = _words(randomness, purpose, cells[arcs], counts[arcs])
        order = np.argsort(words, kind="stable")
        taken = np.repeat(targets[arcs].astype(np.int32), counts[arcs])[order]
        orders[source].frombytes(taken.view(np.uint8))
    return orders


def _words(
    randomness: Randomness, purpose: str, cells: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """Returns uint64[sum of counts], a random word for each time that each cell is counted."""
    ends = np.cumsum(counts)
    words = np.empty(int(ends[-1]), np.uint64)
    for first in range(0, len(words), _BLOCK):
        place = np.arange(first, min(first + _BLOCK, len(words)))
        cell = np.searchsorted(ends, place, side="right")
        number = place - (ends - counts)[cell]
        words[place] = randomness.words(purpose, cells[cell], number)[:, 0]
    return words
