"""How far a group's durations are from those of its activity: the 1-Wasserstein distance.

The t-closeness of Li, Li and Venkatasubramanian (2007) as PRETSA uses it (Fahrenkrog-Petersen, van
der Aa, Weidlich: PRETSA, 2019): the earth mover's distance between the durations at a node of the
prefix tree and those of all events of the node's activity, divided by the range of the latter. So
it lies in [0, 1], and is 0 where all durations of the activity are equal.

Both distributions are steps, and the area between a step of the one and the increasing steps of the
other is a difference of integrals. So a group of m values costs m look-ups in its activity's
cumulated distribution, however many values the activity has.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracecloak.schemas.arrays.merging import offsets_of, sum_groups


@dataclass(frozen=True, eq=False)
class ActivityDurations:
    """The distribution of each activity's durations.

    Attributes:
        activities: int64[n_values], number of the activity of each distinct value, sorted.
        above_least: float64[n_values], the values less their activity's smallest, sorted within it.
        share: float64[n_values], share of the activity's events with at most this value.
        area: float64[n_values], integral of that share from the activity's smallest value to here.
        last: int64[n_values], place of the activity's largest value.
    """

    activities: np.ndarray
    above_least: np.ndarray
    share: np.ndarray
    area: np.ndarray
    last: np.ndarray

    @classmethod
    def of(
        cls, activities: np.ndarray, values: np.ndarray, counts: np.ndarray
    ) -> tuple[ActivityDurations, np.ndarray]:
        """Builds the distributions from entries in any order.

        Args:
            activities: int[n], from 0.
            values: int64[n] or float64[n], durations.
            counts: int64[n], events with that duration, positive.

        Returns:
            The distributions, and int64[n], the place of each entry's value in them.
        """
        order = np.lexsort((values, activities))
        activity, value = activities[order].astype(np.int64), values[order]
        head = np.ones(len(order), bool)
        head[1:] = (activity[1:] != activity[:-1]) | (value[1:] != value[:-1])
        place = np.cumsum(head) - 1
        places = np.empty(len(order), np.int64)
        places[order] = place
        cases = sum_groups(place, counts[order], int(head.sum()))
        activity, value = activity[head], value[head]

        begins = np.ones(len(activity), bool)
        begins[1:] = activity[1:] != activity[:-1]
        group = np.cumsum(begins) - 1
        first = np.flatnonzero(begins)
        past = np.append(first, len(activity))[1:]
        last = past[group] - 1
        running = np.cumsum(cases)
        share = running - (running - cases)[first][group]
        share = share / share[last]
        # A pair of values may be further apart than int64 holds, but not than float64 does.
        above = value.astype(np.float64) - value[first][group].astype(np.float64)
        steps = np.zeros(len(above))
        steps[1:] = np.where(begins[1:], 0.0, np.diff(above) * share[:-1])
        area = np.empty(len(above))
        for start, end in zip(first, past, strict=True):
            area[start:end] = np.cumsum(steps[start:end])
        return cls(activity, above, share, area, last), places

    @cached_property
    def _keys(self) -> np.ndarray:
        """float64[n_values], increasing over all activities: a share is at most 1."""
        return self.activities * 2 + self.share

    def distances(
        self, groups: np.ndarray, places: np.ndarray, counts: np.ndarray, n_groups: int
    ) -> np.ndarray:
        """Returns float64[n_groups], the distance of each group from its activity, from 0 to 1.

        Args:
            groups: int[n], the group of each entry; all entries of a group are of one activity.
            places: int64[n], the entries' values, as places in these distributions.
            counts: int64[n], positive.
            n_groups: Their number; one without entries has distance 0.
        """
        if not len(groups):
            return np.zeros(n_groups)
        order = np.lexsort((places, groups))
        group, place, count = groups[order], places[order], counts[order]
        sizes = np.bincount(group, minlength=n_groups)
        offsets = offsets_of(sizes)
        filled = np.flatnonzero(sizes)
        running = np.cumsum(count)
        before = np.zeros(n_groups, np.int64)
        before[filled] = (running - count)[offsets[filled]]
        total = np.ones(n_groups, np.int64)
        total[filled] = running[offsets[filled + 1] - 1] - before[filled]
        share = (running - before[group]) / total[group]

        # From each value of the group to its next, or to the activity's largest, the group's share
        # is constant. The activity's is below it up to one place and not below it from there on.
        following = np.append(place[1:], 0)
        ends = offsets[filled + 1] - 1
        following[ends] = self.last[place[ends]]
        cross = np.searchsorted(self._keys, self.activities[place] * 2 + share)
        cross = np.clip(cross, place, following)
        above, area = self.above_least, self.area
        apart = share * (2 * above[cross] - above[place] - above[following])
        apart += area[place] + area[following] - 2 * area[cross]
        apart[offsets[filled]] += area[place[offsets[filled]]]

        distances = np.zeros(n_groups)
        distances[filled] = np.add.reduceat(apart, offsets[filled])
        ranges = np.zeros(n_groups)
        ranges[filled] = above[self.last[place[offsets[filled]]]]
        return np.divide(distances, ranges, out=np.zeros(n_groups), where=ranges > 0)
