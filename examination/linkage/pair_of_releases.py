"""Two releases of a growing log as correspondence attacks look at them: which cases can be one.

See `examination.linkage.logs` for what is taken for granted, and `.correspondence` for what
follows. Exact counts of private data; no randomness.

How many cases can still be somebody's if two releases of a growing log are laid side by side.

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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise

import numpy as np
import pyarrow.compute as pc

from tracecloak.examination.linkage.knowledge import LinkedLog, canonical_rows, elements_of
from tracecloak.examination.linkage.logs import Making, ReleasedLog, Supposed, coded, texts_of
from tracecloak.examination.measure.perspectives import Elements, has_resources
from tracecloak.schemas.arrays.merging import offsets_of, ranges
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.background_knowledge import (
    NO_ELEMENT,
    TIME_BITS,
    UNIT_US,
    CaseTable,
    Kind,
    TimeUnit,
)


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


@dataclass(frozen=True, eq=False)
class Pair:
    """An earlier and a later release, and the logs that they were made of.

    Attributes:
        earlier: The earlier release; its labels are compared with those of the later one.
        later: The later one.
        before: The log of the earlier one.
        after: The log of the later one.
        supposed: What an attacker takes for granted of them.
    """

    earlier: LinkedLog
    later: LinkedLog
    before: TraceBatch
    after: TraceBatch
    supposed: Supposed


def pairs_of(
    releases: Sequence[ReleasedLog],
    logs: Sequence[TraceBatch],
    makings: Sequence[Making],
    grows: bool,
) -> list[Pair]:
    """Returns every two releases, the earlier one first.

    Args:
        releases: In the order of their publication, with their sensitive attributes.
        logs: The logs that they were made of.
        makings: How they were made.
        grows: Whether a case can go on after a release that has it.
    """
    pairs = []
    for i, j in combinations(range(len(releases)), 2):
        supposed = Supposed(makings[i], makings[j], grows)
        two = (releases[i], releases[j])
        labels = common_labels([release.traces for release in two], supposed.sensitive)
        earlier, later = (
            LinkedLog(release.path, release.traces, values, release.has_times)
            for release, values in zip(two, labels, strict=True)
        )
        pairs.append(Pair(earlier, later, logs[i], logs[j], supposed))
    return pairs


@dataclass(frozen=True, eq=False)
class ElementCases:
    """Cases as sequences of elements.

    Attributes:
        offsets: int64[n_cases+1].
        codes: int64[n_events], codes of elements, above 0.
        times: int64[n_events], in whole units.
        labels: int64[n_cases], the class of each case.
    """

    offsets: np.ndarray
    codes: np.ndarray
    times: np.ndarray
    labels: np.ndarray

    @classmethod
    def of(cls, traces: TraceBatch, elements: Elements, unit: TimeUnit) -> ElementCases:
        """Reads the elements of a log; events without one are left out, and cases are not."""
        whole = cls(
            traces.offsets.astype(np.int64),
            elements.codes(traces),
            traces.times // UNIT_US[unit],
            np.zeros(traces.n_cases, np.int64),
        )
        return whole.only(whole.codes != NO_ELEMENT)

    @property
    def case(self) -> np.ndarray:
        """int64[n_events], the case of each event."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def only(self, mask: np.ndarray) -> ElementCases:
        """Returns all cases with some events, bool[n_events]; a case can become empty."""
        before = np.concatenate([[0], np.cumsum(mask)]).astype(np.int64)
        return ElementCases(before[self.offsets], self.codes[mask], self.times[mask], self.labels)

    def in_classes(self, labels: np.ndarray) -> ElementCases:
        """Returns the cases with their classes, int64[n_cases]."""
        return ElementCases(self.offsets, self.codes, self.times, labels)

    def of_cases(self, mask: np.ndarray) -> ElementCases:
        """Returns some cases, bool[n_cases]."""
        cases = self.only(mask[self.case])
        return ElementCases(
            offsets_of(np.diff(cases.offsets)[mask]), cases.codes, cases.times, cases.labels[mask]
        )

    def first_of_equals(self) -> ElementCases:
        """Returns the cases with the first of equal elements alone."""
        pairs = self.case * (int(self.codes.max(initial=0)) + 1) + self.codes
        is_first = np.zeros(len(pairs), bool)
        is_first[np.unique(pairs, return_index=True)[1]] = True
        return self.only(is_first)

    def since_first_of(self, common: np.ndarray | None) -> ElementCases:
        """Returns the cases from an event on, with the times since then.

        Args:
            common: int64[n], codes: each case is cut to begin with the first event of one of them,
                and is empty where there is none; None: with its first event.
        """
        is_common = np.ones(len(self.codes), bool)
        if common is not None:
            is_common = np.isin(self.codes, common)
        seen = np.concatenate([[0], np.cumsum(is_common)])
        cases = self.only(seen[1:] > seen[self.offsets[:-1]][self.case])
        lengths = np.diff(cases.offsets)
        starts = cases.times[cases.offsets[:-1][lengths > 0]]
        since = cases.times - np.repeat(starts, lengths[lengths > 0])
        return ElementCases(cases.offsets, cases.codes, since, cases.labels)

    def words(self, with_times: bool) -> np.ndarray:
        """Returns int64[n_events], elements as words of `background_knowledge`."""
        return (self.codes << TIME_BITS) + (self.times if with_times else 0)

    def canonical(self, kind: Kind) -> tuple[CaseTable, np.ndarray]:
        """Returns the distinct rows with their classes as labels; see `CaseTable.canonical`."""
        words = self.words(kind == "relative")
        return canonical_rows(self.offsets, words, self.labels.reshape(-1, 1), kind)


class Corresponding:
    """Two releases as the attacks look at them.

    Attributes:
        pair: The releases and their logs.
        classes: Their cases by class.
        before: Cases of the earlier log, with the elements that can be of use.
        after: Cases of the later log.
        earlier: Cases of the earlier release, with their classes.
        later: Cases of the later release.
        shown: Of the two releases int64[n], ascending, the codes of the elements that they show;
            None where all that a case had is shown.
        is_new: bool[n_cases], which cases of the later log are not in the earlier one.
    """

    def __init__(self, pair: Pair) -> None:
        supposed = pair.supposed
        logs = [pair.before, pair.after, pair.earlier.traces, pair.later.traces]
        if not all(log.n_cases for log in logs):
            raise UsageError("an attack across releases needs logs with at least one case each")
        if supposed.perspective != "activity" and not all(map(has_resources, logs)):
            raise UsageError(
                f"released {pair.earlier.name!r} and {pair.later.name!r} were made by resources, "
                "so the originals need one: give --resource"
            )
        self.pair, self.supposed = pair, supposed
        self._elements = elements_of(logs, supposed.perspective)
        # Any unit will do where times are not compared.
        before, after, earlier, later = self._cases(supposed.time_unit or "hours")
        self.before, self.after = before, after
        self.shown = [
            self._shown(making.suppressed == "cases", cases)
            for making, cases in ((supposed.earlier, earlier), (supposed.later, later))
        ]
        everything = np.unique(np.concatenate([c.codes for c in (before, after, earlier, later)]))
        known = [everything if codes is None else codes for codes in self.shown]
        self.common = np.intersect1d(known[0], known[1])
        self._known = np.union1d(known[0], known[1])
        self.classes, self.earlier, self.later = self._classes(earlier, later)
        self.is_new = np.asarray(
            pc.invert(pc.is_in(pair.after.case_ids, value_set=pair.before.case_ids))
        )
        if int((~self.is_new).sum()) != pair.before.n_cases:
            raise UsageError(
                "the log of a later release lacks cases of the log of an earlier one, so it did "
                "not grow; give the originals in the order of the releases"
            )

    def _cases(self, unit: TimeUnit) -> list[ElementCases]:
        pair = self.pair
        logs = (pair.before, pair.after, pair.earlier.traces, pair.later.traces)
        cases = [ElementCases.of(log, self._elements, unit) for log in logs]
        first_only = self.supposed.is_traced and self.supposed.first_only
        return [of_log.first_of_equals() if first_only else of_log for of_log in cases]

    @staticmethod
    def _shown(is_whole: bool, cases: ElementCases) -> np.ndarray | None:
        """Codes of the elements that a release shows, ascending; None: all that its cases have."""
        return None if is_whole else np.unique(cases.codes)

    def _classes(
        self, earlier: ElementCases, later: ElementCases
    ) -> tuple[Classes, ElementCases, ElementCases]:
        """Puts released cases into classes: sensitive values, and then common beginnings."""
        values = [_values(log.labels) for log in (self.pair.earlier, self.pair.later)]
        numbered: dict[tuple[bytes, tuple[int, ...]], int] = {}
        numbers = []
        for cases, case_values in zip((earlier, later), values, strict=True):
            rows = self._rows(cases)
            keys = zip(case_values, rows, strict=True)
            numbers.append(
                np.array([numbered.setdefault(key, len(numbered)) for key in keys], np.int64)
            )
        parents = np.full(len(numbered), -1)
        if self.supposed.grows:
            for (value, row), number in numbered.items():
                for length in range(len(row) - 1, -1, -1):
                    above = numbered.get((value, row[:length]))
                    if above is not None:
                        parents[number] = above
                        break
        if self.supposed.vanishing == "any":
            may_vanish = np.ones(len(numbered), bool)
        else:
            may_vanish = np.array([not row for _, row in numbered], bool)
        counts = [np.bincount(of_release, minlength=len(numbered)) for of_release in numbers]
        classes = Classes(parents, counts[0], counts[1], may_vanish)
        return classes, earlier.in_classes(numbers[0]), later.in_classes(numbers[1])

    def _rows(self, cases: ElementCases) -> list[tuple[int, ...]]:
        if not self.supposed.is_traced:
            return [()] * (len(cases.offsets) - 1)
        common = cases.only(np.isin(cases.codes, self.common)).since_first_of(None)
        words = common.words(self.supposed.time_unit is not None).tolist()
        borders = common.offsets.tolist()
        return [tuple(words[first:last]) for first, last in pairwise(borders)]

    def n_rewritten(self) -> int:
        """Cases of the earlier log that are not the beginning of those of the later one."""
        before = ElementCases.of(self.pair.before, self._elements, "seconds")
        after = ElementCases.of(self.pair.after, self._elements, "seconds")
        place = np.asarray(
            pc.index_in(self.pair.before.case_ids, value_set=self.pair.after.case_ids)
        )
        lengths = np.diff(before.offsets)
        is_shorter = lengths > np.diff(after.offsets)[place]
        lengths = np.where(is_shorter, 0, lengths)
        ours = before.codes[ranges(before.offsets[:-1], lengths)]
        others = after.codes[ranges(after.offsets[:-1][place], lengths)]
        differs = np.repeat(np.arange(len(lengths)), lengths)[ours != others]
        return int(is_shorter.sum()) + len(np.unique(differs))

    def cases_for(self, kind: Kind, unit: TimeUnit) -> list[ElementCases]:
        """The originals' and the releases' cases as knowledge of a kind looks at them."""
        cases = [self.before, self.after, self.earlier, self.later]
        if kind == "relative" and not self.supposed.is_traced:
            cases = [
                one.in_classes(old.labels)
                for one, old in zip(self._cases(unit), cases, strict=True)
            ]
        cases[:2] = [one.only(np.isin(one.codes, self._known)) for one in cases[:2]]
        if kind == "relative":
            common = self.common if self.supposed.is_traced else None
            cases = [one.since_first_of(common) for one in cases]
        return cases


def _values(labels: np.ndarray) -> list[bytes]:
    """The sensitive values of each case, as one key."""
    rows = np.ascontiguousarray(labels, np.int64)
    return [row.tobytes() for row in rows]


def common_labels(releases: Sequence[TraceBatch], names: Sequence[str]) -> list[np.ndarray]:
    """Returns int64[n_cases, m] of each release, its sensitive values as they are, coded alike."""
    columns = [coded([texts_of(log, name) for log in releases]) for name in names]
    return [
        np.array([column[i] for column in columns], np.int64).reshape(len(names), log.n_cases).T
        for i, log in enumerate(releases)
    ]
