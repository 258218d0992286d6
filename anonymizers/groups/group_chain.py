"""A chain of activities that follows what is known of their groups.

Noise hides most pairs of a few hundred activities, but not those of their groups. Steps between
activities that stand out are kept. What groups have beside them is divided among their activities
by how often these occur, as if one had nothing to do with the other. Then in each bin of positions
steps into a group are made likelier, or less likely, until the group is come to as often as it was
counted there.

Looks at noisy sums and public numbers only, so it costs no privacy, and floats may be used.
"""

from __future__ import annotations

import numpy as np

from tracecloak.anonymizers.groups.group_sums import GroupSums
from tracecloak.anonymizers.variants.joint_variants import Measured
from tracecloak.anonymizers.variants.markov_chain import (
    GOES_ON,
    Chain,
    clear_sums,
    ending,
    rows_of,
    visits_of,
)
from tracecloak.schemas.statistics.variant_flows import FlowCells

# A step between groups is taken for noise below so many of its deviations, and a group is come to
# in a bin for sure from so many on.
_CLEAR, _SURE = 3.0, 3.5
# What groups have beside clear steps of activities weighs so much less, as these say more.
_HIDDEN = 0.5
# Occurrences by activity and by group can differ by as much as this factor.
_MOST_SCALED = 2.0
_ROUNDS, _MOST_STEERED = 3, 10.0


def group_chain(measured: Measured, sums: GroupSums) -> Chain | None:
    """Returns the chain.

    Args:
        measured: Of the activities, whose arcs are not counted by position.
        sums: Of their groups.

    Returns:
        None where no first activity has a positive sum.
    """
    starts, overall = _completed(measured, sums)
    if not starts.any():
        return None
    starts, overall, _ = ending(starts, overall)
    starts = starts / starts.sum()
    blocks = sums.cells.bins + 1
    return Chain(
        starts,
        _steered(starts, overall, measured.n_cases, sums),
        FlowCells(measured.cells.n_names, blocks),
    )


def _completed(measured: Measured, sums: GroupSums) -> tuple[np.ndarray, np.ndarray]:
    """First activities and arcs, with what groups have beside those that stand out.

    Returns:
        float64[n] and float64[n, n+1], in occurrences.
    """
    codes, units = sums.groups.codes, measured.chain_noise.units
    with_end = np.append(codes, sums.cells.n_groups)
    known = measured.known_ends()
    starts, whole, _ = clear_sums(measured.chain, measured.cells, measured.chain_noise, known)
    starts, whole = starts / units, whole / units
    assert known.occurrences is not None
    steps, firsts = _clear_steps(sums)
    seen = _by_group(whole, codes, with_end, sums)
    steps = np.maximum(steps, seen)
    firsts = np.maximum(firsts, np.bincount(codes, starts, len(firsts)))
    occur = known.occurrences / units
    come_to = firsts + steps[:, :-1].sum(axis=0)
    of_group = np.bincount(codes, occur, len(firsts))
    scale = np.where(of_group > 0, come_to / np.maximum(of_group, 1e-9), 1.0)
    occur = occur * np.clip(scale, 1 / _MOST_SCALED, _MOST_SCALED)[codes]

    leave = np.maximum(occur - whole.sum(axis=1), 0)
    come = np.append(occur - starts, measured.n_cases) - whole.sum(axis=0)
    come = np.maximum(come, 0)
    hidden = np.maximum(steps - seen, 0)
    hidden_of = hidden[np.ix_(codes, with_end)]
    arcs = _shares(leave, codes)[:, None] * hidden_of * _shares(come, with_end)
    begin = np.maximum(firsts - np.bincount(codes, starts, len(firsts)), 0)
    starts = starts + begin[codes] * _shares(occur, codes)
    return starts, whole + _HIDDEN * arcs


def _clear_steps(sums: GroupSums) -> tuple[np.ndarray, np.ndarray]:
    """Steps between groups, and first groups, without what noise may have made."""
    (steps, deviations), (bins, of_bins) = sums.steps, sums.by_bin
    firsts = bins[0, :-1]
    return (
        np.where(steps >= _CLEAR * deviations, steps, 0.0),
        np.where(firsts >= _CLEAR * of_bins[0, :-1], firsts, 0.0),
    )


def _by_group(
    arcs: np.ndarray, codes: np.ndarray, with_end: np.ndarray, sums: GroupSums
) -> np.ndarray:
    """float64[n_groups, n_groups+1], arcs of activities summed up by their groups."""
    shape = sums.cells.n_groups, sums.cells.side
    keys = codes[:, None].astype(np.int64) * shape[1] + with_end
    return np.bincount(keys.ravel(), arcs.ravel(), shape[0] * shape[1]).reshape(shape)


def _shares(values: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """float64[n], of the sum of each one's group; 0 where that is 0."""
    totals = np.bincount(codes, values)[codes]
    return values / np.where(totals > 0, totals, 1.0)


def _steered(starts: np.ndarray, overall: np.ndarray, n_cases: int, sums: GroupSums) -> np.ndarray:
    """The steps in each bin, which lead to groups as often as these were counted there.

    What is expected is moved towards the noisy count as in `markov_chain.chain_of`.

    Args:
        starts: float64[n], chances of the first activity.
        overall: float64[n, n+1], rows that sum to 1.
        n_cases: About how many cases there are.
        sums: Of the groups.

    Returns:
        float64[n_bins-1, n, n+1]; the first bin is that of the steps from START.
    """
    with_end = np.append(sums.groups.codes, sums.cells.n_groups)
    counted, deviations = sums.by_bin
    widths = sums.cells.widths.tolist()
    steps = np.empty((len(widths) - 1, *overall.shape))
    come, fewest = starts * n_cases, GOES_ON * n_cases
    for i, width in enumerate(widths[1:]):
        deviation, wanted = deviations[i + 1], None
        rows = overall
        for _ in range(_ROUNDS):
            visits, _after = visits_of(come, rows, width, fewest)
            reached = (visits[:, None] * rows).sum(axis=0)
            expected = np.bincount(with_end, reached, sums.cells.side)
            if wanted is None:
                trust = 1 / (1 + (deviation / np.maximum(expected, 1e-9 * deviation)) ** 2)
                wanted = np.maximum(expected + (counted[i + 1] - expected) * trust, 0)
                is_sure = counted[i + 1] >= _SURE * deviation
                wanted = np.where(is_sure, np.maximum(wanted, counted[i + 1]), wanted)
            factors = np.where(expected > 0, wanted / np.where(expected > 0, expected, 1), 1.0)
            factors = np.clip(factors, 1 / _MOST_STEERED, _MOST_STEERED)
            rows = rows_of(rows * factors[with_end], overall)
        steps[i] = rows
        _, come = visits_of(come, rows, width, fewest)
    return steps
