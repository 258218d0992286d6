"""What ties times of steps, cases and variants to each other, and stamps drawn from it.

Computed from noisy numbers.

By activity and variant, or of all cases alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers, uniform
from tracecloak.anonymizers.noise.sums import note
from tracecloak.anonymizers.rigorous.budget import UNITS
from tracecloak.anonymizers.times import case_spans, case_times
from tracecloak.anonymizers.times.case_classes import BY_ACTIVITY, CaseClasses, Detail
from tracecloak.anonymizers.times.case_starts import sample_starts
from tracecloak.anonymizers.times.case_times import CaseTimes, reached_of, wide_bins_at
from tracecloak.anonymizers.times.step_durations import Steps, sample_durations
from tracecloak.anonymizers.variants.generator import log_of
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.arrays.merging import distinct_places, offsets_of, ranges
from tracecloak.schemas.calendar.working_time import TimeGrid
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.figures import TIME_KEPT
from tracecloak.schemas.published.variants import ReleasedVariants

# --- What the drawn times of steps come to, so that long cases are those whose steps take long. ---
# Steps are drawn each by itself, and how long cases take is measured apart, with less noise. Were
# that drawn by chance, the steps of many cases would have to be changed by a lot to come to it,
# and what they say of how long a variant takes would be lost. So it is drawn with the rank that
# the sum of the case's steps has among all such sums. The times of cases are distributed as if
# drawn by chance, and are as near to the sums as that permits.
#
# Which wide bin of times a case falls into depends on its class, and where in it on all cases
# there. So sums are kept by class and by wide bin.
#
# The sums are those of some cases that are made for this. All is computed from what has noise.


# So many sums are kept of a class, evenly by rank.
_MOST_SUMS = 255

IN_BIN = "place of a case in its bin"
"""What ranks among the cases of a wide bin are for."""


class StepSums(contract.Decision, wire_name="step-sums"):
    """Sums of the times of a case's steps, class by class.

    Attributes:
        sums: int64[m], ascending within each class, in ticks.
        offsets: int64[n_classes+1], where each class begins; none of a class of which no case was
            made.
    """

    sums: np.ndarray
    offsets: np.ndarray


def decide_step_sums(sums: np.ndarray, classes: np.ndarray, n_classes: int) -> StepSums:
    """Keeps the sums of drawn cases, of many evenly chosen ones.

    Args:
        sums: int64[n], of cases with a step.
        classes: int64[n], from 0 to `n_classes` - 1.
        n_classes: Number of classes.
    """
    order = np.lexsort((sums, classes))
    n_of_class = np.bincount(classes, minlength=n_classes)
    n_kept = np.minimum(n_of_class, _MOST_SUMS)
    begins, offsets = offsets_of(n_of_class)[:-1], offsets_of(n_kept)
    class_of = np.repeat(np.arange(n_classes), n_kept)
    rank = ranges(np.zeros(n_classes, np.int64), n_kept)
    # The middles of as many equal parts as are kept.
    place = begins[class_of] + (2 * rank + 1) * n_of_class[class_of] // (2 * n_kept[class_of])
    return StepSums(sums[order[place]], offsets)


def ranks_of(
    decision: StepSums,
    sums: np.ndarray,
    classes: np.ndarray,
    case_numbers: np.ndarray,
    randomness: Randomness,
    purpose: str = "span of a case",
) -> np.ndarray:
    """Draws the ranks of sums among those of their class that were kept; by chance where none are.

    Over cases like those that were made, a rank is about evenly distributed.

    Args:
        decision: What was kept.
        sums: int64[m], what the steps of each case come to.
        classes: int64[m], the class of each case.
        case_numbers: int64[m], distinct over the release; decide between equal sums.
        randomness: The release's.
        purpose: What the ranks are for; one of its own for each.

    Returns:
        float64[m] in [0, 1).
    """
    below, upto = (np.empty(len(sums), np.int64) for _ in range(2))
    for number in np.unique(classes):
        is_of_class = classes == number
        sums_kept = decision.sums[decision.offsets[number] : decision.offsets[number + 1]]
        below[is_of_class] = np.searchsorted(sums_kept, sums[is_of_class], side="left")
        upto[is_of_class] = np.searchsorted(sums_kept, sums[is_of_class], side="right")
    chance = uniform(randomness.words(purpose, cell_numbers(case_numbers))[:, 0])
    n_kept = np.diff(decision.offsets)[classes]
    return (below + chance * (upto - below + 1)) / (n_kept + 1)


# --- What ties times of steps, cases and variants to each other: computed from noisy numbers. -----
# Some cases are made like those that will be released. What the drawn times of their steps come
# to, times the factors of their pairs, says how long each takes compared with others. That time
# is divided among the steps, and the time that goes by at each pair of activities is compared
# with the noisy sums (`pair_times`): the factor of a pair that has too little is raised, that of
# one with too much is lowered, again and again, as in iterative proportional fitting (Deming and
# Stephan 1940). As the made cases are clipped like those that were counted, the clip biases
# nothing.
#
# Stamps of a generated case are a drawn start, and times of steps added up in working time. Each
# step has a time that was drawn from the histogram of its pair of activities, and each pair a
# factor. A step gets its share of the time of the case in proportion to the product of the two.
# So a step that takes no time still takes none, steps that are drawn to take long get most, and
# the times of a case add up to what the case takes.


LARGEST_LOG = 10.0
"""Factors go from e^-10 to e^10."""

# A step that was drawn to take no time, of a pair of which some do, counts as this part of a tick:
# nothing, unless the factor of its pair says that such steps take most of the time.
_OF_A_TICK = 0.25
# Weights are whole numbers of parts of a tick, and so small that a million of them fit 64 bits.
_PARTS, _LARGEST_WEIGHT = 1 << 8, float(1 << 42)


class PairFactors(contract.Decision, wire_name="pair-factors"):
    """By what the drawn times of each pair's steps are multiplied.

    Attributes:
        logs: float64[n n], the logarithm, at most LARGEST_LOG in size; only differences matter.
        is_idle: bool[n n], the pairs whose steps take no time.
    """

    logs: np.ndarray
    is_idle: np.ndarray


def weights_of(taken: np.ndarray, steps: Steps, factors: PairFactors) -> np.ndarray:
    """Returns int64[m], drawn times multiplied by the factors of their pairs, in parts of a tick.

    Those of pairs whose steps take no time are 0.

    Args:
        taken: int64[m], drawn times, in ticks.
        steps: The steps.
        factors: Of all pairs.
    """
    times = np.where(factors.is_idle[steps.pairs], 0.0, np.maximum(taken, _OF_A_TICK))
    products = times * _PARTS * elementary.exp(factors.logs)[steps.pairs]
    return np.floor(np.minimum(products, _LARGEST_WEIGHT)).astype(np.int64)


def divided(wanted: np.ndarray, weights: np.ndarray, steps: Steps) -> np.ndarray:
    """Divides the times of cases among their steps, in proportion to weights.

    A case all of whose steps have the weight 0 takes no time, whatever is wanted. Of what rounding
    leaves the step with the largest weight gets all.

    Args:
        wanted: int64[n_cases], how long each case takes, in ticks.
        weights: int64[m], of its steps, not negative.
        steps: The steps.

    Returns:
        int64[m], in ticks; those of a case add up to its time.
    """
    sums = sums_of_steps(weights, steps, len(wanted))
    shares = weights / np.maximum(sums, 1)[steps.own]
    times = np.floor(wanted[steps.own] * shares).astype(np.int64)
    left = np.where(sums > 0, wanted, 0) - sums_of_steps(times, steps, len(wanted))
    largest = largest_of_cases(weights, steps.own)
    times[largest] += left[steps.own[largest]]
    return times


def sums_of_steps(values: np.ndarray, steps: Steps, n_cases: int) -> np.ndarray:
    """Returns int64[n_cases], the exact sums of values of the steps of each case."""
    sums = np.zeros(n_cases, np.int64)
    begins = np.flatnonzero(np.diff(steps.own, prepend=-1))
    if len(begins):
        sums[steps.own[begins]] = np.add.reduceat(values, begins)
    return sums


def largest_of_cases(values: np.ndarray, case_of: np.ndarray) -> np.ndarray:
    """Returns int64[n_cases], the place of each case's largest value, the first of equal ones.

    Args:
        values: Of some steps.
        case_of: int64[m], the case of each, ascending.
    """
    begins = np.flatnonzero(np.diff(case_of, prepend=-1))
    if not len(begins):
        return begins
    highest = np.maximum.reduceat(values, begins)
    places = np.flatnonzero(values == np.repeat(highest, np.diff(begins, append=len(values))))
    return places[np.flatnonzero(np.diff(case_of[places], prepend=-1))]


def timed(
    traces: TraceBatch,
    case_numbers: np.ndarray,
    grid: TimeGrid,
    case_classes: CaseClasses,
    known: Mapping[str, Any],
    randomness: Randomness,
) -> TraceBatch:
    """Returns the same cases with stamps on the grid, in its range and in its working time.

    A case's class decides in which period it begins, and with it in which wide bin its time lies;
    of the cases of a class that whose steps come to the most takes longest, and so on, and likewise
    within a bin of those of all classes (`ranks_of`). That time is divided among its steps
    (`divided`), by which the events follow each other. All is added up in working time, so
    stamps do not decrease within a case. A case that would outlast the range begins as much
    earlier.

    A case's stamps depend on its number and its activities alone, not on the other cases of the
    batch.

    Args:
        traces: Generated cases over the vocabulary of the release; their times are not looked at.
        case_numbers: int64[n_cases], distinct over the release.
        grid: The range in which the others were decided.
        case_classes: The classes of cases.
        known: What the parts decided and `fitted` made of it, by their names.
        randomness: The release's.
    """
    times, spans, kept = known["case times"], known["spans"], known["step sums"]
    classes = case_classes.of_cases(traces)
    steps = Steps(traces, case_numbers, case_classes, classes)
    taken = sample_durations(known["durations"], steps, randomness)
    is_single = traces.lengths == 1
    periods = case_times.sample_periods(times, classes, is_single, case_numbers, randomness)
    weights = weights_of(taken, steps, known["pair factors"])
    sums = sums_of_steps(weights, steps, traces.n_cases)
    ranks = ranks_of(kept, sums, classes, case_numbers, randomness)
    bins = case_times.wide_bins_at(times, classes, periods, ranks)
    bin_groups = len(times.spans) + bins  # they come after the classes
    places = ranks_of(kept, sums, bin_groups, case_numbers, randomness, IN_BIN)
    ranks = case_times.ranks_among_all(spans, bins, places)
    wanted = np.where(is_single, 0, case_spans.spans_at(spans, ranks))
    taken = divided(wanted, weights, steps)
    since_start = np.zeros(traces.n_events, np.int64)
    since_start[steps.events] = taken
    reached = np.cumsum(since_start)  # may wrap around, its differences do not
    since_start = reached - np.repeat(reached[traces.offsets[:-1]], traces.lengths)
    within = known["periods"].ranks[periods], known["periods"].ranks[periods + 1]
    begun = grid.ticks(sample_starts(known["starts"], case_numbers, randomness, within))
    begun = np.minimum(begun, grid.n_ticks - 1 - since_start[traces.offsets[1:] - 1])
    return replace(traces, times=grid.at_us(np.repeat(begun, traces.lengths) + since_start))


SpansOf = Callable[[np.ndarray], np.ndarray]
"""How long cases take, by what the weights of their steps come to."""

# Of a large log about so many events are made; of a small one, whose sums are noisy anyhow, so few.
_MOST_EVENTS, _LEAST_EVENTS = 50_000, 10_000
# What the histograms of single steps say weighs as much as so many cases whose time is added up.
_WORTH = 60.0
_ROUNDS = 20
# The first is the share of the step that would meet the sum of one pair if the others stayed as
# they are. The second is the largest step, and where all are below the third, it is done.
_DAMPING, _LARGEST_STEP, _LEAST_STEP = 0.7, 1.0, 0.01
# A sum is clearly above the noise if it is so many deviations above 0.
_LEAST_DEVIATIONS = 3.0


def fitted(
    decisions: Mapping[str, Any], vocabulary: ActivityVocabulary, randomness: Randomness
) -> dict[str, Any]:
    """Returns the sums of steps, the times of cases and the factors of pairs, by these names.

    First all cases are taken to have the times of one class, and factors are fitted. What the
    weights of steps then come to says how long each class is expected to take. With the times of
    the classes the factors are fitted on.

    Args:
        decisions: What the parts decided, by their names.
        vocabulary: The activities, public or bought.
        randomness: The release's.
    """
    spans, fit = decisions["spans"], _Fit(decisions, vocabulary, randomness)
    classes, case_classes, is_single = fit.classes, fit.case_classes, fit.is_single

    def overall_spans(sums: np.ndarray) -> np.ndarray:
        return case_spans.spans_at(spans, ranks_in(sums, is_single.astype(np.int64)))

    fit.rake(overall_spans)
    bins = spans.wide[np.searchsorted(spans.borders, overall_spans(fit.sums()), side="right")]
    expected = np.where(is_single, spans.n_wide, bins)
    tables, periods = decisions["tables"], decisions["periods"]
    times = case_times.decide_times(tables, spans, periods, classes, (case_classes, expected))
    numbers = np.arange(len(is_single))
    begun = case_times.sample_periods(times, case_classes, is_single, numbers, randomness)

    def bins_of(sums: np.ndarray) -> np.ndarray:
        return case_times.wide_bins_at(
            times, case_classes, begun, ranks_in(sums, case_classes * 2 + is_single)
        )

    def spans_by_class(sums: np.ndarray) -> np.ndarray:
        bins = bins_of(sums)
        return case_spans.spans_at(
            spans, case_times.ranks_among_all(spans, bins, ranks_in(sums, bins * 2 + is_single))
        )

    fit.rake(spans_by_class)
    fit.note_kept(spans_by_class, vocabulary, randomness)
    by_class = fit.step_sums(bins_of(fit.sums()), spans.n_wide)
    return {"step sums": by_class, "case times": times, "pair factors": fit.factors}


def ranks_in(sums: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Returns float64[n] in (0, 1), the rank of each sum in its class; the middle of its place."""
    order = np.lexsort((sums, classes))
    sizes = np.bincount(classes)
    places = np.empty(len(sums), np.int64)
    places[order] = ranges(np.zeros(len(sizes), np.int64), sizes)
    return (places + 0.5) / sizes[classes]


class _Fit:
    """The factors of pairs by which made cases agree with the noisy sums, while they are found.

    Attributes:
        classes: The classes of cases.
        case_classes: int64[n_cases], that of each made case.
        is_single: bool[n_cases], which of them have one event.
        factors: The factors. A pair whose steps take no time by their counts is idle, but if its
            time is clearly above the noise.
    """

    def __init__(
        self,
        decisions: Mapping[str, Any],
        vocabulary: ActivityVocabulary,
        randomness: Randomness,
        detail: Detail = BY_ACTIVITY,
    ) -> None:
        variants, durations = decisions["variants"], decisions["durations"]
        self.classes = detail.classes(variants, vocabulary)
        some = detail.cases(some_of(variants, randomness).recode(vocabulary))
        self.case_classes, self.is_single = self.classes.of_cases(some), some.lengths == 1
        self._steps = Steps(some, np.arange(some.n_cases), self.classes, self.case_classes)
        self._taken = sample_durations(durations, self._steps, randomness)
        # Released cases for each of these.
        self._share = variants.n_cases / max(some.n_cases, 1)
        # Most pairs of many activities never follow each other, and keep the factor of 1.
        self._there, self._places = distinct_places(self._steps.pairs)
        self._pulls = np.zeros(len(self._there))
        self._stands_out: np.ndarray | None = None
        self._measured: case_spans.PairTimesDecision = decisions["pair times"]
        sums, deviation = self._measured.sums, self._measured.deviation
        is_idle = durations.is_idle & (sums < _LEAST_DEVIATIONS * deviation)
        self.factors = PairFactors(np.zeros(len(sums)), is_idle)

    def weights(self) -> np.ndarray:
        """Returns int64[m], the weights of the steps."""
        return weights_of(self._taken, self._steps, self.factors)

    def sums(self) -> np.ndarray:
        """Returns int64[n_cases], what the weights of each case's steps come to."""
        return sums_of_steps(self.weights(), self._steps, len(self.is_single))

    def step_sums(self, bins: np.ndarray, n_wide: int) -> StepSums:
        """Returns the sums of the cases of several events of each class, and then of each bin.

        Args:
            bins: int64[n_cases], the wide bin of each case.
            n_wide: Number of wide bins.
        """
        several = ~self.is_single
        groups = self.case_classes[several], self.classes.size + bins[several]
        sums = np.tile(self.sums()[several], 2)
        return decide_step_sums(sums, np.concatenate(groups), self.classes.size + n_wide)

    def rake(self, spans_of: SpansOf) -> None:
        """Moves the factors towards the noisy sums.

        A pair whose steps are expected to take less in all than the noise keeps its factor, unless
        its sum is clearly above the noise: else half of all pairs whose steps take no time would
        get what noise says.

        Args:
            spans_of: How long cases take, by what the weights of their steps come to.
        """
        there = self._there
        block = case_times.NoisySums((0,), self._measured.sums[there], self._measured.deviation)
        for _ in range(_ROUNDS if len(there) else 0):
            wanted = self._wanted(spans_of)
            expected = self._expected(divided(wanted, self.weights(), self._steps))
            if self._stands_out is None:
                least = _LEAST_DEVIATIONS * block.deviation
                self._stands_out = (expected >= block.deviation) | (block.sums > least)
            total = float(np.cumsum(expected)[-1])
            if not total:
                return
            step = case_times.log_factors(expected, block, self._pulls, total, _WORTH)
            step = np.where(self._stands_out, step, 0.0)
            step = np.clip(step, -_LARGEST_STEP, _LARGEST_STEP) * _DAMPING
            self._pulls -= step * (_WORTH / total)
            logs = self.factors.logs
            logs[there] = np.clip(logs[there] + step, -LARGEST_LOG, LARGEST_LOG)
            if float(np.abs(step).max()) < _LEAST_STEP:
                return

    def note_kept(
        self, spans_of: SpansOf, vocabulary: ActivityVocabulary, randomness: Randomness
    ) -> None:
        """Notes the share of the time that the clip keeps, by pair and of all.

        Args:
            spans_of: As for `rake`.
            vocabulary: The activities.
            randomness: The release's.
        """
        times = divided(self._wanted(spans_of), self.weights(), self._steps)
        kept = self._expected(times)
        whole = np.bincount(self._places, times, len(kept)) * (self._share / self._measured.clip)
        kept, whole = (np.append(values, np.cumsum(values)[-1:]) for values in (kept, whole))
        labels, n = vocabulary.labels, len(vocabulary)
        pairs = [(labels[a], labels[b]) for a, b in (divmod(p, n) for p in self._there.tolist())]
        shares = np.where(whole > 0, np.minimum(kept / np.where(whole > 0, whole, 1), 1), 1)
        note(randomness, TIME_KEPT, lambda: [*pairs, ()][: len(shares)], shares, 0.0)

    def _wanted(self, spans_of: SpansOf) -> np.ndarray:
        """int64[n_cases], how long the made cases take."""
        return np.where(self.is_single, 0, spans_of(self.sums()))

    def _expected(self, times: np.ndarray) -> np.ndarray:
        """float64, the clipped sums of the pairs that there are, in clips, over released cases."""
        measured, sizes = self._measured, (len(self.is_single), len(self._there))
        pairs, sums = case_spans.clipped_times(
            times, self._steps.own, self._places, sizes, measured.clip, is_pure=measured.is_pure
        )
        expected = np.zeros(len(self._there))
        expected[pairs] = sums * (self._share / UNITS)
        return expected


def some_of(variants: ReleasedVariants, randomness: Randomness) -> TraceBatch:
    """Returns evenly chosen cases of a large log; of a small one each several times."""
    n_events = int((variants.counts * np.diff(variants.offsets)).sum())
    some = log_of(variants, 0, max(n_events // _MOST_EVENTS, 1), randomness)
    return some.take(np.tile(np.arange(some.n_cases), max(_LEAST_EVENTS // max(n_events, 1), 1)))


# --- Times of cases that are all alike, so that counts of lengths and the sum of all times agree. -
# Where times are not counted by activity (`case_classes`), cases begin and take as long as those
# of the log do, whatever their variant, and those with more events rather take longer. All is
# computed from noisy numbers.
#
# A bin of times can reach from a week to a month, and where in it cases lie is not counted. What
# all their times come to says it: within each bin longer times are made likelier, or shorter
# ones, by one number for all bins, until the sum is met. How many cases each bin has stays as it
# is.


# So many times stand for all, and so many parts of a bin are told apart.
_TIMES, _TIMES_OF_ALL_PARTS = 1 << 13, 8
# A time of the clip gets likelier by at most e to this beside one of 0, found by so many halvings.
_MOST_TILT, _HALVINGS = 200.0, 40


def fitted_of_all(
    decisions: Mapping[str, Any],
    vocabulary: ActivityVocabulary,
    randomness: Randomness,
    detail: Detail,
) -> dict[str, Any]:
    """Returns what `fitted_times.fitted` does, of one class, and the lengths of cases as "spans".

    Args:
        decisions: What the parts decided, by their names.
        vocabulary: The activities, public or bought.
        randomness: The release's.
        detail: By what times were counted: all cases alike.
    """
    variants: ReleasedVariants = decisions["variants"]
    fit = _Fit(decisions, vocabulary, randomness, detail)
    fit.factors = PairFactors(np.zeros(1), decisions["durations"].is_idle)
    alike, ranks = fit.case_classes, ranks_in(fit.sums(), 1 - fit.is_single)
    n_several = int(variants.counts[np.diff(variants.offsets) > 1].sum())
    spans = agreeing_spans(decisions["spans"], decisions["pair times"], n_several)
    times = CaseTimes(np.ones((2, 1)), reached_of(spans.wide_shares)[None, None])
    bins = wide_bins_at(times, alike, alike, ranks)
    return {
        "spans": spans,
        "step sums": fit.step_sums(bins, spans.n_wide),
        "case times": times,
        "pair factors": fit.factors,
    }


def agreeing_spans(
    spans: case_spans.SpansDecision, measured: case_spans.PairTimesDecision, n_cases: int
) -> case_spans.SpansDecision:
    """Returns the spans in narrower bins, whose sum is the measured one as nearly as they permit.

    Looks at noisy numbers only. Times above the clip count as it, as they were added up.

    Args:
        spans: Noisy counts by bin.
        measured: The noisy sum of the times of cases, as that of the one pair of activities that
            there is; see `case_classes`.
        n_cases: Released cases of more than one event.
    """
    ranks = (np.arange(_TIMES) + 0.5) / _TIMES
    times = case_spans.spans_at(spans, ranks)
    bins = np.searchsorted(spans.borders, times, side="right")
    clipped = np.minimum(times / measured.clip, 1.0)
    wanted = max(float(measured.sums[0]), 0.0) / max(n_cases, 1)
    cases = np.bincount(bins, minlength=len(spans.counts)) / _TIMES

    def tilted(tilt: float) -> np.ndarray:
        logs = tilt * clipped
        highest = np.full(len(cases), -np.inf)
        np.maximum.at(highest, bins, logs)
        weights = elementary.exp(logs - highest[bins])
        return weights * (cases / np.maximum(np.bincount(bins, weights, len(cases)), 1e-300))[bins]

    low, high = -_MOST_TILT, _MOST_TILT
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_less = float(np.cumsum(tilted(middle) * clipped)[-1]) < wanted
        low, high = (middle, high) if is_less else (low, middle)
    return _with_shares(spans, times, tilted((low + high) / 2))


def _with_shares(
    spans: case_spans.SpansDecision, times: np.ndarray, weights: np.ndarray
) -> case_spans.SpansDecision:
    """The spans in parts of their bins, with the shares of weighted times.

    Args:
        spans: In bins.
        times: float64[n], in ticks.
        weights: float64[n], the share of each.
    """
    ends = np.concatenate([[1], spans.borders, [spans.n_ticks]])
    places = np.arange(_TIMES_OF_ALL_PARTS) / _TIMES_OF_ALL_PARTS
    ratios = ends[1:] / ends[:-1]
    borders = np.rint(ends[:-1, None] * elementary.power(ratios[:, None], places)).astype(np.int64)
    borders = np.union1d(borders[borders < spans.n_ticks], spans.borders)
    parent = np.searchsorted(spans.borders, np.append(0, borders), side="right")
    is_first = np.diff(parent, prepend=-1) > 0
    parts = np.searchsorted(borders, times, side="right")
    reached = np.cumsum(np.bincount(parts, weights, len(parent)))
    return replace(
        spans,
        borders=borders,
        reached=reached / reached[-1],
        counts=np.where(is_first, spans.counts[parent], 0.0),
        wide=spans.wide[parent],
    )
