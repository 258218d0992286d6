"""Checks k-anonymity and t-closeness on the cases that PRETSA releases, from nothing but these.

Shares no step with the method: prefixes are byte strings in a sorted list of cases, and distances
are integrals over ranks, not over durations. A release that fails was made by a faulty method or
changed afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.events.traces import TraceBatch


def verify_released(
    released: Sequence[TraceBatch],
    k: int,
    t: float | None,
    protect_ends: bool = True,
    attribute: str | None = None,
) -> None:
    """Checks every prefix, and every variant where ends are protected, of a released log.

    Args:
        released: All its cases, in batches of one vocabulary.
        k: Fewest cases of each prefix and variant.
        t: At each prefix, the durations are less than t away from those of all events of its last
            activity, as a share of the latter's range; None: not promised.
        protect_ends: Whether variants are promised to have k cases too.
        attribute: The released attribute that is the duration, where an event has one; None: the
            time since the predecessor, 0 for a first event.

    Raises:
        GuaranteeError: One has fewer cases, or its durations are t or more away.
    """
    traces = TraceBatch.concat(released) if released else None
    if traces is None or traces.n_cases == 0:
        return
    width = traces.activities.dtype.itemsize
    raw = traces.activities.tobytes()
    offsets = traces.offsets.tolist()
    variants = [raw[a * width : b * width] for a, b in pairwise(offsets)]
    order = sorted(range(len(variants)), key=variants.__getitem__)
    if protect_ends and min(Counter(variants).values()) < k:
        raise GuaranteeError(
            f"a released variant has fewer than k={k} cases; the release must not be used, report "
            "this as a bug"
        )
    durations = traces.durations.astype(np.float64)
    if attribute is not None:
        durations = np.asarray(traces.attributes[attribute].cast(pa.float64()).fill_null(np.nan))
    spread = {}
    if t is not None:
        for activity in np.unique(traces.activities).tolist():
            spread[activity] = Spread(durations[traces.activities == activity])
    starts = traces.offsets[:-1][order]
    for depth, first, past in _prefixes([variants[case] for case in order], width):
        if past - first < k:
            raise GuaranteeError(
                f"a released prefix has fewer than k={k} cases; the release must not be "
                "used, report this as a bug"
            )
        if t is not None:
            events = starts[first:past] + depth - 1
            distance = spread[int(traces.activities[events[0]])].distance(durations[events])
            if distance >= t:
                raise GuaranteeError(
                    f"the durations at a released prefix are t={t:g} or more from those of its "
                    "activity; the release must not be used, report this as a bug"
                )


def _prefixes(variants: Sequence[bytes], width: int) -> Iterator[tuple[int, int, int]]:
    """Yields (number of events, first case, past the last case) of each prefix of sorted cases."""
    opened: list[int] = []  # by depth, the first case of the prefix that is still going on
    previous = b""
    for case, variant in enumerate([*variants, b""]):
        common = 0
        while variant[common : common + width] == previous[common : common + width] != b"":
            common += width
        while len(opened) * width > common:
            yield len(opened), opened.pop(), case
        opened.extend([case] * ((len(variant) - common) // width))
        previous = variant


class Spread:
    """Durations of an activity, and how far others are from them.

    Args:
        durations: float64[n], NaN where an event has none.
    """

    def __init__(self, durations: np.ndarray) -> None:
        values = np.sort(durations[~np.isnan(durations)])
        self._least = values[0] if len(values) else 0.0
        self._values = values - self._least
        self._sums = np.append(0.0, np.cumsum(self._values))

    def distance(self, durations: np.ndarray) -> float:
        """Returns the 1-Wasserstein distance as a share of the range, from 0 to 1; 0 of none.

        By ranks: the m durations in their order take m equal slices of the activity's durations in
        theirs, and each is moved from every value of its slice.

        Args:
            durations: float64[m], NaN where an event has none.
        """
        ordered = np.sort(durations[~np.isnan(durations)]) - self._least
        n = len(self._values)
        if not len(ordered) or self._values[-1] == 0:
            return 0.0
        edges = np.arange(len(ordered) + 1) * (n / len(ordered))
        first, last = edges[:-1], np.minimum(edges[1:], n)
        # Up to here the values of the slice are below the duration, from here on not.
        turn = np.clip(np.searchsorted(self._values, ordered), first, last)
        moved = ordered * (2 * turn - first - last)
        moved += self._sum_to(first) + self._sum_to(last) - 2 * self._sum_to(turn)
        return float(moved.sum() / n / self._values[-1])

    def _sum_to(self, ranks: np.ndarray) -> np.ndarray:
        whole = np.minimum(ranks.astype(np.int64), len(self._values) - 1)
        return self._sums[whole] + (ranks - whole) * self._values[whole]
