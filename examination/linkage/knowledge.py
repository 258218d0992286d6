"""What can be known of victims, piece by piece, and which cases of a log match it.

A piece of knowledge is a part of the canonical row of a case
(`schemas.statistics.background_knowledge`): sets, multisets, sequences and relative knowledge all
come down to whether a piece is a subsequence of a case's canonical row. Of each victim all parts of
a size are as likely: all of them are listed with their probabilities, or some are drawn. In another
log the same elements have other numbers, and where that log has no times or no resources, what is
known of those is of no use and is left out. Exact counts of private data.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tracecloak.anonymizers.noise.randomness import Randomness, below, cell_numbers
from tracecloak.examination.attack.bounds import clopper_pearson
from tracecloak.examination.measure.behaviour_measures import has_resources, known_alike
from tracecloak.schemas.arrays.merging import places_of, stable_order
from tracecloak.schemas.errors import UsageError, check_least
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.background_knowledge import (
    MAX_CODE,
    TIME_BITS,
    CaseTable,
    Kind,
    Knowledge,
    KnownCases,
    Perspective,
    TimeUnit,
    codes_of_words,
    times_of_words,
)

LARGEST_SIZE = 6
DEFAULT_SAMPLES = 10_000
DEFAULT_CONFIDENCE = 0.99
# Fills a piece that is shorter than others.
PADDING = -2
# Ways to pick a piece that are gone through, and different pieces that are matched, to be exact.
_MOST_WAYS = 1_000_000
MOST_EXACT = 20_000


@dataclass(frozen=True, eq=False)
class LinkedLog:
    """A log in which a victim is looked for.

    Attributes:
        name: What the report calls it.
        traces: Its cases; resources are the attribute org:resource.
        labels: int64[n_cases, m], sensitive values, coded alike in all logs; 0 is none.
        has_times: Whether its stamps are times, and not positions.
    """

    name: str
    traces: TraceBatch
    labels: np.ndarray
    has_times: bool = True


def no_values(traces: TraceBatch) -> np.ndarray:
    """Returns int64[n_cases, 0], the labels of a log of which no attribute is sensitive."""
    return np.zeros((traces.n_cases, 0), np.int64)


@dataclass(frozen=True)
class Estimate:
    """A figure and what it lies between: itself where it is exact."""

    value: float
    low: float
    high: float

    @property
    def percent(self) -> str:
        """The share in words, with its interval in brackets if it is not exact."""
        if self.low == self.high:
            return f"{self.value:.1%}"
        return f"{self.value:.1%} [{self.low:.1%}, {self.high:.1%}]"


@dataclass(frozen=True)
class Settings:
    """How attacks are made.

    Attributes:
        unit: How exactly relative times are known.
        sizes: Numbers of known elements, ascending, each from 0 to 6.
        n_samples: Draws where not all pieces are gone through.
        confidence: With which all intervals are right together.
        most_exact: Different pieces up to which all of them are matched.
    """

    unit: TimeUnit = "hours"
    sizes: tuple[int, ...] = tuple(range(LARGEST_SIZE + 1))
    n_samples: int = DEFAULT_SAMPLES
    confidence: float = DEFAULT_CONFIDENCE
    most_exact: int = MOST_EXACT

    def __post_init__(self) -> None:
        check_least(1, samples=self.n_samples)
        if list(self.sizes) != sorted({*self.sizes} & {*range(LARGEST_SIZE + 1)}):
            raise UsageError(f"sizes must ascend from 0 to {LARGEST_SIZE}, got {self.sizes}")


@dataclass(frozen=True, eq=False)
class Pieces:
    """Attacks, by the piece that is known: int64[k] each, but for `weights`.

    Attributes:
        pieces: int64[n, size], distinct; numbers of elements, then PADDING.
        piece: Which of them is known, ascending.
        rows: The victim's row.
        labels: int64[k, m], the victim's sensitive values.
        weights: float64[k], probabilities; None if they are draws.
    """

    pieces: np.ndarray
    piece: np.ndarray
    rows: np.ndarray
    labels: np.ndarray
    weights: np.ndarray | None

    @property
    def is_exact(self) -> bool:
        """Whether these are all pieces."""
        return self.weights is not None

    def estimate(self, values: np.ndarray, alpha: float) -> Estimate:
        """Returns the mean of float64[k] or bool[k], by attack, in [0, 1].

        Args:
            values: What follows from the piece that is known, or is the victim's.
            alpha: Probability at most that the interval misses the mean.
        """
        if self.weights is not None:
            exact = round(float(self.weights @ values), 12)  # of sums that are rounded themselves
            return Estimate(exact, exact, exact)
        n, mean = len(values), float(values.mean())
        if values.dtype == bool:
            return Estimate(mean, *clopper_pearson(int(values.sum()), n, alpha))
        margin = math.sqrt(math.log(2 / alpha) / (2 * n))  # Hoeffding, 1963
        return Estimate(mean, max(mean - margin, 0.0), min(mean + margin, 1.0))


# Of a common item the next place is kept for every position, as long as all of them fit so much.
_MAX_TABLE_BYTES = 1 << 28
_COMMON = 8  # an item is common if one of so many rows has it


class Matches(NamedTuple):
    """What matches each piece; where nothing does, the attacker goes by the whole log.

    Attributes:
        sizes: int64[n], cases that match each piece.
        among: int64[n], cases that sensitive values are counted among.
        largest: int64[n, m], those with the most frequent value.
        own: int64[k, m], those with the victim's own value.
    """

    sizes: np.ndarray
    among: np.ndarray
    largest: np.ndarray
    own: np.ndarray


class Target:
    """A log in which pieces are looked for, by subsequences of its distinct canonical rows.

    Attributes:
        name: Of the log.
        known_as: The knowledge that is of use there.
        totals: Of each sensitive attribute the cases by value, those without one at 0.

    Args:
        name: Of the log.
        known_as: The knowledge that is of use there.
        table: Its canonical rows.
        elements: int64[n], ascending, the words of its elements; the rows have their places.
        sought: int64[m], the victims' elements as words of this log; None: nothing is of use.
    """

    def __init__(
        self,
        name: str,
        known_as: str,
        table: CaseTable,
        elements: np.ndarray,
        sought: np.ndarray | None,
    ) -> None:
        self.name, self.known_as, self._table = name, known_as, table
        self.totals = [
            np.bincount(column, table.counts, 1).astype(np.int64) for column in table.sensitive.T
        ]
        self._item_of = None if sought is None else places_of(elements, sought)
        items, n_items, n_rows = table.words, len(elements), len(table.counts)
        self._order = stable_order(items)
        self._borders = np.searchsorted(items[self._order], np.arange(n_items + 1))
        # The rows of each item, each once.
        row_numbers = np.repeat(np.arange(n_rows), np.diff(table.offsets))
        pairs = np.unique(items * n_rows + row_numbers)
        self._rows = pairs % max(n_rows, 1)
        self._row_borders = np.searchsorted(pairs, np.arange(n_items + 1) * n_rows)
        self._next: dict[int, np.ndarray] = {}
        self._bytes_left = _MAX_TABLE_BYTES

    def rows_with(self, piece: np.ndarray) -> np.ndarray:
        """Returns int64[n], the rows that have a piece as a subsequence, ascending.

        Args:
            piece: int64[length], numbers of items; -1 for one that no row has.
        """
        if not len(piece):
            return np.arange(len(self._table.counts))
        if piece.min() < 0:
            return np.zeros(0, np.int64)
        # Only the rows of the rarest item can match, and of these the piece is read from the left.
        borders = self._row_borders
        rarest = piece[(borders[piece + 1] - borders[piece]).argmin()]
        rows = self._rows[borders[rarest] : borders[rarest + 1]]
        position = self._table.offsets[rows]
        for item in piece.tolist():
            place = self._following(item, position)
            inside = (place < self._table.offsets[rows + 1]).nonzero()[0]
            if not len(inside):
                return rows[:0]
            rows, position = rows[inside], place[inside] + 1
        return rows

    def _following(self, item: int, position: np.ndarray) -> np.ndarray:
        """int64[n], the first place of an item at or after each position; n_positions if none."""
        n_positions = len(self._order)
        table = self._next.get(item)
        if table is None:
            places = self._order[self._borders[item] : self._borders[item + 1]]
            after = np.append(places, n_positions)
            n_bytes = 4 * (n_positions + 1)
            is_common = len(places) * _COMMON > len(self._table.counts)
            if not is_common or n_bytes > self._bytes_left or n_positions >= 1 << 31:
                return after[places.searchsorted(position)]
            self._bytes_left -= n_bytes
            gaps = np.diff(after, prepend=-1)
            table = self._next[item] = np.repeat(after.astype(np.int32), gaps)
        return table[position]

    def match(self, known: Pieces) -> Matches:
        """Counts the cases that match each piece, and their sensitive values."""
        n, n_cases, labels = len(known.pieces), self._table.n_cases, self._table.sensitive
        borders = np.searchsorted(known.piece, np.arange(n + 1))
        lengths = (known.pieces != PADDING).sum(axis=1)
        sizes = np.full(n, n_cases if self._item_of is None else 0)
        largest = np.zeros((n, labels.shape[1]), np.int64)
        own = np.zeros((len(known.piece), labels.shape[1]), np.int64)
        for i in range(n):
            rows = np.zeros(0, np.int64)
            if self._item_of is not None:
                rows = self.rows_with(self._item_of[known.pieces[i, : lengths[i]]])
                sizes[i] = self._table.counts[rows].sum()
            piece = slice(borders[i], borders[i + 1])
            for k, totals in enumerate(self.totals):
                if len(rows):
                    totals = np.bincount(labels[rows, k], self._table.counts[rows], len(totals))
                largest[i, k] = totals[1:].max(initial=0)
                sought = known.labels[piece, k]
                has_any = (sought > 0) & (sought < len(totals))
                own[piece, k] = np.where(has_any, totals[np.where(has_any, sought, 0)], 0)
        return Matches(sizes, np.where(sizes == 0, n_cases, sizes), largest, own)


@dataclass(frozen=True, eq=False)
class KnownVictims:
    """What can be known of the victims, and the logs in which they are looked for.

    Attributes:
        own: Canonical rows of the original's cases of which something can be known.
        elements: int64[n], ascending, the words of the elements; the rows have their places.
        targets: The original and then the releases.
    """

    own: CaseTable
    elements: np.ndarray
    targets: tuple[Target, ...]

    @classmethod
    def of(
        cls,
        original: LinkedLog,
        releases: Sequence[LinkedLog],
        kind: Kind,
        perspective: Perspective,
        unit: TimeUnit,
    ) -> KnownVictims:
        """Prepares the attacks with one kind of knowledge.

        Raises:
            UsageError: The logs have too many names.
        """
        (own, *others), known = known_of([original, *releases], kind, perspective, unit)
        table, words = _canonical(original, own, known)
        targets = [Target(original.name, _text_of(known), table, words, words)]
        for log, traces in zip(releases, others, strict=True):
            useful = _reduced(log, known)
            if useful is None:
                rows = _canonical(log, traces, known)
                targets.append(Target(log.name, "nothing", *rows, None))
                continue
            codes, times = codes_of_words(words), times_of_words(words)
            if useful.perspective != perspective and known.resource is not None:
                codes = (codes - 1) // known.resource.n_cells + 1
            sought = (codes << TIME_BITS) + (times if useful.kind == "relative" else 0)
            rows = _canonical(log, traces, useful)
            targets.append(Target(log.name, _text_of(useful), *rows, sought))
        return cls(table.filled(), words, tuple(targets))

    def pieces(self, size: int, settings: Settings, randomness: Randomness, purpose: str) -> Pieces:
        """Goes through all pieces of a size, or draws some."""
        lengths = np.diff(self.own.offsets)
        distinct, number = np.unique(lengths, return_counts=True)
        ways = {n: math.comb(n, min(n, size)) for n in distinct.tolist()}
        if sum(n * k for n, k in zip(ways.values(), number.tolist(), strict=True)) <= _MOST_WAYS:
            every = self._every(size, lengths, ways)
            if len(every.pieces) <= settings.most_exact:
                return every
        return self._drawn(size, lengths, settings.n_samples, randomness, purpose)

    def _every(self, size: int, lengths: np.ndarray, ways: dict[int, int]) -> Pieces:
        rows, pieces, weights = [], [], []
        for n, n_ways in ways.items():
            picked = list(itertools.combinations(range(n), min(n, size)))
            places = np.full((n_ways, size), PADDING)
            places[:, : min(n, size)] = np.array(picked, np.int64).reshape(n_ways, min(n, size))
            cases = np.flatnonzero(lengths == n)
            rows.append(np.repeat(cases, n_ways))
            pieces.append(np.tile(places, (len(cases), 1)))
            weights.append(self.own.counts[rows[-1]] / (n_ways * self.own.n_cases))
        return self._sorted(np.concatenate(rows), np.concatenate(pieces), np.concatenate(weights))

    def _drawn(
        self, size: int, lengths: np.ndarray, n: int, randomness: Randomness, purpose: str
    ) -> Pieces:
        cells = cell_numbers(np.arange(n))
        ends = np.cumsum(self.own.counts)
        victims = below(randomness.words(purpose, cells)[:, 0], int(ends[-1]))
        rows = np.searchsorted(ends, victims, side="right")
        # Places without repetition: the j-th is one of those not taken, counted from the left.
        beyond = np.iinfo(np.int64).max
        places = np.zeros((n, 0), np.int64)
        for j in range(size):
            left = lengths[rows] - j
            place = below(randomness.words(purpose, cells, j + 1)[:, 0], np.maximum(left, 1))
            for taken in places.T:
                place += place >= taken
            place[left <= 0] = beyond
            places = np.sort(np.column_stack([places, place]), axis=1)
        return self._sorted(rows, np.where(places == beyond, PADDING, places), None)

    def _sorted(self, rows: np.ndarray, places: np.ndarray, weights: np.ndarray | None) -> Pieces:
        """Turns places in rows into elements, and orders attacks by their pieces."""
        items = self.own.words[np.maximum(places, 0) + self.own.offsets[rows][:, None]]
        items = np.where(places == PADDING, PADDING, items)
        width = int(self.own.words.max(initial=0)) + 3
        key = np.zeros(len(items), np.int64)
        for column in items.T:
            key = np.unique(key * width + column - PADDING, return_inverse=True)[1]
        order = np.argsort(key, kind="stable")
        piece = np.cumsum(np.diff(key[order], prepend=key[order][:1]) > 0)
        first = order[np.searchsorted(piece, np.arange(int(piece[-1]) + 1))]
        return Pieces(
            items[first],
            piece,
            rows[order],
            self.own.sensitive[rows[order]],
            None if weights is None else weights[order],
        )


def known_of(
    logs: Sequence[LinkedLog], kind: Kind, perspective: Perspective, unit: TimeUnit
) -> tuple[list[TraceBatch], Knowledge]:
    """Returns the cases of the logs as they are known, and what is known of them.

    Raises:
        UsageError: There are too many names.
    """
    traces, resource = known_alike([log.traces for log in logs])
    known = Knowledge(kind, perspective, unit, resource)
    if len(traces[0].vocabulary) * (perspective == "activity" or resource.n_cells) > MAX_CODE:
        raise UsageError(
            f"the logs have more than {MAX_CODE:,} pairs of activities and resources; leave "
            "out resource"
        )
    return traces, known


def _text_of(known: Knowledge) -> str:
    return f"{known.kind} of {known.perspective.replace('_', ' and ')}"


def _reduced(log: LinkedLog, known: Knowledge) -> Knowledge | None:
    """What is left of knowledge where a log has no times or resources; None for nothing."""
    kind: Kind = "sequence" if known.kind == "relative" and not log.has_times else known.kind
    if known.perspective == "activity" or has_resources(log.traces):
        return replace(known, kind=kind)
    if known.perspective == "resource":
        return None
    # Two pairs of a set can be of one activity, which then occurs twice.
    return replace(known, kind="multiset" if kind == "set" else kind, perspective="activity")


def _canonical(
    log: LinkedLog, traces: TraceBatch, known: Knowledge
) -> tuple[CaseTable, np.ndarray]:
    longest = int(traces.lengths.max(initial=1))
    cases = KnownCases.from_cases(traces.offsets, known.words(traces), log.labels)
    return cases.decoded().canonical(known.kind, longest)
