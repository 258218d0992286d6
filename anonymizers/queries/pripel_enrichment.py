"""What a released sequence of activities is filled with: times and values of its matched case.

PRIPEL's sequence enrichment. The k-th event of an activity takes the stamp and the values of the
k-th event of that activity in the matched case. Where the case has no such event, or its stamp
would be before that of the event in front, the time since that event is drawn from the log's times
between these two activities, and missing values from those of the activity's events in the log.
Pairs of activities that the log does not have take times before any event of the second activity.

Then nothing is left as it was: starts, times between events and values each get noise that keeps
them within bounds. Times between events never become negative, so the
order of events stays.

Sees one batch at a time; all that it draws is keyed by the matched case, so a released case is the
same in whichever batch its case lies.

Noise on single values that stay within their bounds: what PRIPEL calls local mechanisms.

Numbers get bounded Laplace noise (Holohan, Antonatos, Braghin, Mac Aonghusa, "The Bounded Laplace
Mechanism in Differential Privacy", 2020): Laplace noise on condition that the result lies within
the bounds, of scale width / epsilon. Whatever two values lie within the bounds, the probability of
a result differs by at most a factor of e^epsilon between them, and by that factor for the two
bounds themselves: there the two normalising constants are equal. Numbers that are declared by bins
get the discrete form of it, on the numbers of their bins.

Texts get randomised response (Warner, 1965): the exponential mechanism whose utility is 1 for the
value itself and 0 for all others, which are told apart by a factor of e^epsilon.

All draws are made of floats by inversion, so no epsilon is claimed from their last digits.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.randomness import CellLaws, Randomness, below, hex_ids, uniform
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.arrays.merging import offsets_of, ranges, ranks_within
from tracecloak.schemas.arrays.sequences import CaseRanks, case_bytes
from tracecloak.schemas.events.declarations import Attribute
from tracecloak.schemas.events.events import MAX_TIME_US
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.durations import DurationTable
from tracecloak.schemas.statistics.log_times import StartRange, cumulated_stamps
from tracecloak.schemas.statistics.variants import VariantHistogram

# Numbers of pairs of activities fit int32.
MAX_ACTIVITIES = 46_340
# This stands in place of an event's number where a draw is for the whole case: no case has so many
# events.
_WHOLE_CASE = (1 << 32) - 1


class QueryDecision(contract.Decision, wire_name="pripel-query"):
    """Round `variants`: which sequences are released, and variants of which cases they are made of.

    Attributes:
        offsets: int64[n_released+1], CSR offsets into `codes`.
        codes: int32[n_positions], activities of the released variants.
        matched: The log's variants whose cases are used; counts of the log.
        raw: int64[n], positions in `matched`, ascending.
        released: int64[n], numbers of released variants.
        cases: int64[n], how many cases of that released variant are made from cases of that raw
            one.
        starts: When the log's cases begin.
    """

    offsets: np.ndarray
    codes: np.ndarray
    matched: VariantHistogram
    raw: np.ndarray
    released: np.ndarray
    cases: np.ndarray
    starts: StartRange


class ContentsDecision(contract.Decision, wire_name="pripel-contents"):
    """Round `contents`: which case each released one is made from, and what fills its gaps.

    Attributes:
        sources: fixed_size_binary(16)[n_cases], identities of the cases of the log.
        released: int64[n_cases], the released variant of each.
        replica: int64[n_cases], which of the released cases of that source it is.
        durations: Times between events of the whole log in microseconds by pair, see `pair_groups`.
        values: Cells of each event attribute by activity, no value included.
    """

    sources: pa.FixedSizeBinaryArray
    released: np.ndarray
    replica: np.ndarray
    durations: DurationTable
    values: dict[str, DurationTable]


def pair_groups(before: np.ndarray, after: np.ndarray, n_activities: int) -> np.ndarray:
    """Returns int64[n], numbers of pairs of activities; those of one second activity are a run."""
    return after.astype(np.int64) * n_activities + before


def assigned(
    ranks: CaseRanks, query: QueryDecision
) -> tuple[pa.FixedSizeBinaryArray, np.ndarray, np.ndarray]:
    """Returns the sources, released variants and replicas of `ContentsDecision`.

    Cases of a variant are taken in the order of their ranks, which is random, each once before any
    is taken again.

    Args:
        ranks: The cases of the matched variants, by position in `query.matched`.
        query: What is to be made from them.
    """
    raw = np.repeat(query.raw, query.cases)
    place = ranks_within(raw)
    first = np.searchsorted(ranks.groups, raw)
    n_cases = np.searchsorted(ranks.groups, raw, side="right") - first
    replica, rank = np.divmod(place, np.maximum(n_cases, 1))
    return (
        ranks.cases.take(pa.array(first + rank)),
        np.repeat(query.released, query.cases),
        replica,
    )


def matched_events(raw: TraceBatch, released: TraceBatch) -> np.ndarray:
    """Returns int64[n_events], the event of the raw case that each released event takes, or -1.

    The k-th event of an activity takes the k-th of that activity in the case of the same position.

    Args:
        raw: Cases of the log.
        released: As many released cases, of the same vocabulary.
    """
    wanted, number, _ = _numbered(released)
    offered, _, order = _numbered(raw)
    first = np.searchsorted(offered[order], wanted)
    last = np.searchsorted(offered[order], wanted, side="right")
    events = np.full(released.n_events, -1)
    has_one = first + number < last
    events[has_one] = order[(first + number)[has_one]]
    return events


def _numbered(traces: TraceBatch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Case and activity as one key, which of the events of that key each is, and their order."""
    case = np.repeat(np.arange(traces.n_cases), traces.lengths)
    key = case * len(traces.vocabulary) + traces.activities
    order = np.argsort(key, kind="stable")
    return key, ranks_within(key, order), order


class Enriched:
    """The released cases that are made from the cases of a batch.

    Attributes:
        raw: The case of the log of each, repeated where it is used more than once.
        released: The released cases with their activities; times are not set.
        events: int64[n_events], which event of `raw` each event takes, or -1.
        cells: uint64[n_cases, 2], keyed identity of the case of the log.
        replica: int64[n_cases], which of its released cases it is.
        query: What is released.
        contents: What it is made of.
    """

    def __init__(
        self,
        traces: TraceBatch,
        query: QueryDecision,
        contents: ContentsDecision,
        randomness: Randomness,
    ) -> None:
        """Finds the cases of a batch that are used, and what for."""
        self.query, self.contents = query, contents
        identities = randomness.identify("case", traces.case_ids)
        batch_rows = pc.index_in(contents.sources, value_set=case_bytes(identities))
        places = np.flatnonzero(batch_rows.is_valid())
        source = np.asarray(batch_rows.drop_null(), np.int64)
        self.raw = traces.take(source)
        self.cells, self.replica = identities[source], contents.replica[places]
        variant = contents.released[places]
        lengths = np.diff(query.offsets)[variant]
        positions = ranges(query.offsets[variant], lengths)
        self.released = TraceBatch(
            hex_ids(randomness.words("pripel/case-id", self.cells, self.replica)),
            offsets_of(lengths),
            query.codes[positions],
            np.zeros(len(positions), np.int64),
            traces.vocabulary,
        )
        self.events = matched_events(self.raw, self.released)

    @property
    def _case(self) -> np.ndarray:
        return np.repeat(np.arange(self.released.n_cases), self.released.lengths)

    def _words(self, randomness: Randomness, purpose: str, events: np.ndarray) -> np.ndarray:
        """uint64[n, 2] of events, keyed by case, replica and place of the event in the case."""
        case = self._case[events]
        place = events - self.released.offsets[case]
        counter = (self.replica[case] << 32) + place
        return randomness.words(f"pripel/{purpose}", self.cells[case], counter)

    def _words_of_cases(self, randomness: Randomness, purpose: str) -> np.ndarray:
        counter = (self.replica << 32) + _WHOLE_CASE
        return randomness.words(f"pripel/{purpose}", self.cells, counter)

    def times(self, randomness: Randomness) -> tuple[np.ndarray, np.ndarray]:
        """Returns the times before noise: starts, and times since the event in front.

        Returns:
            (starts int64[n_cases], durations int64[n_events], 0 of first events), microseconds.
        """
        released = self.released
        is_matched = self.events >= 0
        stamps = np.zeros(released.n_events, np.int64)
        stamps[is_matched] = self.raw.times[self.events[is_matched]]
        drawn = self._drawn_durations(randomness)
        first = released.offsets[:-1]
        starts = np.where(is_matched[first], stamps[first], self.raw.starts)
        durations = np.zeros(released.n_events, np.int64)
        now = starts.copy()
        for place in range(1, int(released.lengths.max(initial=0))):
            cases = np.flatnonzero(released.lengths > place)
            event = first[cases] + place
            fits = is_matched[event] & (stamps[event] >= now[cases])
            durations[event] = np.where(fits, stamps[event] - now[cases], drawn[event])
            now[cases] = np.minimum(now[cases] + durations[event], MAX_TIME_US)
        return starts, durations

    def _drawn_durations(self, randomness: Randomness) -> np.ndarray:
        """int64[n_events], a time of the log for the event and the one in front of it."""
        table = self.contents.durations
        drawn = np.zeros(self.released.n_events, np.int64)
        later = np.flatnonzero(~self.released.is_first)
        if not len(table.counts) or not len(later):
            return drawn
        n_activities = len(self.released.vocabulary)
        low, high = self._rows_of_pairs(later)
        is_new = low == high
        after = self.released.activities[later[is_new]].astype(np.int64)
        low[is_new] = np.searchsorted(table.groups, after * n_activities)
        high[is_new] = np.searchsorted(table.groups, (after + 1) * n_activities)
        nowhere = low == high
        low[nowhere], high[nowhere] = 0, len(table.counts)
        words = self._words(randomness, "drawn time", later)
        drawn[later] = table.values[_drawn(table, low, high, words[:, 0])]
        return drawn

    def _rows_of_pairs(self, later: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The run of rows of the table of durations that each event's pair has; empty if none."""
        activities = self.released.activities
        pairs = pair_groups(activities[later - 1], activities[later], len(self.released.vocabulary))
        groups = self.contents.durations.groups
        return np.searchsorted(groups, pairs), np.searchsorted(groups, pairs, side="right")

    def duration_bounds(self, by_pair: bool) -> tuple[np.ndarray, np.ndarray]:
        """Returns two int64[n_events], the smallest and largest time that each may become.

        Those of the log between the two activities, if by pair and if these are not equal;
        otherwise those of the log between any two events.
        """
        table = self.contents.durations
        low = np.full(self.released.n_events, table.values.min(initial=MAX_TIME_US))
        high = np.full(self.released.n_events, table.values.max(initial=0))
        low = np.minimum(low, high)
        later = np.flatnonzero(~self.released.is_first)
        if by_pair and len(table.counts):
            first, last = self._rows_of_pairs(later)
            smallest = table.values[np.minimum(first, len(table.counts) - 1)]
            largest = table.values[last - 1]
            differ = (first < last) & (smallest < largest)
            low[later[differ]], high[later[differ]] = smallest[differ], largest[differ]
        return low, high

    def retimed(self, epsilon: float, by_pair: bool, randomness: Randomness) -> np.ndarray:
        """Returns int64[n_events], the stamps with noise, in microseconds."""
        starts, durations = self.times(randomness)
        words = self._words_of_cases(randomness, "shift")
        range_us = self.query.starts
        first = np.full(len(starts), range_us.first_us)
        last = np.full(len(starts), range_us.last_us)
        starts = bounded_laplace(words[:, 0], starts, first, last, epsilon)
        low, high = self.duration_bounds(by_pair)
        words = self._words(randomness, "time", np.arange(len(durations)))
        durations = bounded_laplace(words[:, 0], durations, low, high, epsilon)
        return cumulated_stamps(starts, durations, self.released)

    def value(self, attribute: Attribute, epsilon: float, randomness: Randomness) -> pa.Array:
        """Returns the attribute's values with noise, one an event; those of cases are the same."""
        source = np.zeros(self.raw.n_events, np.int64)
        if attribute.name in self.raw.attributes:
            source = attribute.cells(self.raw.attributes[attribute.name]).astype(np.int64)
        if attribute.is_of_case:
            words = self._words_of_cases(randomness, f"value of {attribute.name}")
            cells = source[self.raw.offsets[:-1]]
            cells = perturbed_cells(attribute, cells, words, epsilon)
            values = attribute.values_of(cells, uniform(words[:, 1]))
            return values.take(pa.array(self._case))
        is_matched = self.events >= 0
        cells = np.zeros(self.released.n_events, np.int64)
        cells[is_matched] = source[self.events[is_matched]]
        missing = np.flatnonzero(~is_matched)
        cells[missing] = self._drawn_values(attribute.name, missing, randomness)
        words = self._words(randomness, f"value of {attribute.name}", np.arange(len(cells)))
        cells = perturbed_cells(attribute, cells, words, epsilon)
        return attribute.values_of(cells, uniform(words[:, 1]))

    def _drawn_values(self, name: str, events: np.ndarray, randomness: Randomness) -> np.ndarray:
        """int64[n], cells drawn from those of the activity's events in the log."""
        table = self.contents.values[name]
        activities = self.released.activities[events]
        low = np.searchsorted(table.groups, activities)
        high = np.searchsorted(table.groups, activities, side="right")
        words = self._words(randomness, f"drawn value of {name}", events)
        cells = np.zeros(len(events), np.int64)
        known = low < high  # the vocabulary may have more names than the log
        cells[known] = table.values[_drawn(table, low[known], high[known], words[known, 0])]
        return cells


def _drawn(
    table: DurationTable, low: np.ndarray, high: np.ndarray, words: np.ndarray
) -> np.ndarray:
    """int64[n], a row of each run `low:high`, none empty, with chances as the counts."""
    ends = offsets_of(table.counts)
    picked = ends[low] + below(words, ends[high] - ends[low])
    return np.searchsorted(ends, picked, side="right") - 1


def bounded_laplace(
    words: np.ndarray, values: np.ndarray, lows: np.ndarray, highs: np.ndarray, epsilon: float
) -> np.ndarray:
    """Returns int64[n], values with Laplace noise on condition that they stay within the bounds.

    Args:
        words: uint64[n], random bits of each draw.
        values: int64[n]; those beyond the bounds count as the nearer of them.
        lows: int64[n], smallest results.
        highs: int64[n], largest results, not below the smallest. Where both are equal there is no
            other result.
        epsilon: The scale is (high - low) / epsilon.
    """
    widths = (highs - lows).astype(np.float64)
    scales = np.maximum(widths, 1.0) / epsilon
    values = np.clip(values, lows, highs)
    # The probability of the law below the value and above it; each is at most a half.
    under = -0.5 * elementary.expm1(-(values - lows) / scales)
    over = -0.5 * elementary.expm1(-(highs - values) / scales)
    place = uniform(words) * (under + over) - under
    # log1p keeps the digits where the law is nearly uniform, at a small epsilon.
    sizes = scales * -elementary.log1p(-np.minimum(2 * np.abs(place), 1 - 2.0**-53))
    noise = np.rint(np.copysign(np.minimum(sizes, widths), place)).astype(np.int64)
    return np.clip(values + noise, lows, highs)


def perturbed_cells(
    attribute: Attribute, cells: np.ndarray, words: np.ndarray, epsilon: float
) -> np.ndarray:
    """Returns int64[n], cells of other values or bins of an attribute, or the same by chance.

    A text stays with probability e^epsilon / (e^epsilon + n - 1) of n values and is otherwise any
    other with equal chances. A number moves from bin k to bin j with probability proportional to
    e^(-epsilon |j - k| / (n - 1)). No value stays no value.

    Args:
        attribute: The attribute.
        cells: int[n], from 0, no value, to `attribute.n_cells` - 1.
        words: uint64[n, 2], random bits of each draw.
        epsilon: See above.
    """
    n = attribute.n_cells - 1
    if attribute.declaration.values is not None:
        stays = uniform(words[:, 0]) * (1 + (n - 1) * elementary.exp(-epsilon)) < 1
        others = (cells + below(words[:, 1], max(n - 1, 1))) % n + 1
        perturbed = np.where(stays | (n == 1), cells, others)
    else:
        used, row = np.unique(cells, return_inverse=True)
        steps = np.abs(np.arange(1, n + 1) - used[:, None])
        laws = CellLaws.of(elementary.exp(-epsilon * steps / max(n - 1, 1)))
        perturbed = laws.draw(row, uniform(words[:, 0])) + 1
    return np.where(cells == 0, 0, perturbed)
