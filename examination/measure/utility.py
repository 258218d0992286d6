"""How well a released log keeps what analysts look at: distances of distributions, and prediction.

Beside `examination.measure.measures`, whose definitions are those of the papers, these are the
plain ones: total variation, relative error, Wasserstein distance; how long cases take and on which
variant that depends, how long work waits between two activities, whether the second half of the log
is like the first, and how well the next activity is foretold by who learnt it from the release
("train on synthetic, test on real": Esteban, Hyland and Rätsch, 2017; a trigram with back-off:
Katz, 1987).

Pure functions of arrays; both logs are of one vocabulary, and stamps must be times where times are
compared. Every figure is exact about private data: for the operator, not for publication.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import wasserstein_distance

from tracecloak.schemas.arrays.hashing import hash_text
from tracecloak.schemas.arrays.merging import beside, places_of, sum_by_key
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.log_times import IntervalTimes, LogTimes
from tracecloak.schemas.statistics.variants import VariantHistogram

# --- How well the next activity of a case is foretold by who learnt it from a release. ------------
# A trigram with back-off (Katz, 1987, without discounts) is trained on the release: after the
# last two activities of a case it foretells what followed them most often there, or ended the
# case; after two that the release does not have together, what followed the last one most often;
# else what followed most often at all. It is tested on a fifth of the original's cases ("train on
# synthetic, test on real": Esteban, Hyland and Rätsch, 2017).
#
# Pure functions of arrays; both logs are of one vocabulary. Every figure is exact about private
# data.


_TESTED_IN = 5


def variants_of_fifth(traces: TraceBatch) -> VariantHistogram:
    """Returns the variants of about a fifth of the cases: the same ones, by a hash of their ids."""
    is_tested = hash_text(traces.case_ids) % np.uint64(_TESTED_IN) == 0
    return VariantHistogram.from_traces(traces.take(np.flatnonzero(is_tested)))


def next_activity_accuracy(
    trained: VariantHistogram, tested: VariantHistogram, n_names: int
) -> float | None:
    """Returns the share of events whose successor, or end of case, is foretold.

    Args:
        trained: Variants of the release.
        tested: Variants of the original.
        n_names: Codes are below it.

    Returns:
        From 0 to 1; 0 if nothing was learnt, None if there is no event to test.
    """
    asked, learnt = (steps_of(log, n_names).without_starts() for log in (tested, trained))
    if not asked.weight.sum():
        return None
    width = n_names + 1
    guesses = np.full(len(asked.last), -1, np.int64)
    for contexts, sought in (
        (learnt.before * width + learnt.last, asked.before * width + asked.last),
        (learnt.last, asked.last),
        (np.zeros_like(learnt.last), np.zeros_like(asked.last)),
    ):
        foretold = _foretold(contexts, learnt, width, sought)
        guesses = np.where(guesses < 0, foretold, guesses)
    return float(asked.weight[guesses == asked.following].sum() / asked.weight.sum())


class Steps(NamedTuple):
    """The steps of variants, from the start of each to its end: int64[n] each.

    Attributes:
        before: What came before the last activity.
        last: The last activity.
        following: What follows it. The code n_names stands before the first and after the last.
        position: How many activities came before the step.
        weight: Cases.
    """

    before: np.ndarray
    last: np.ndarray
    following: np.ndarray
    position: np.ndarray
    weight: np.ndarray

    def without_starts(self) -> Steps:
        """Returns the steps that follow an activity."""
        return Steps(*(column[self.position > 0] for column in self))


def steps_of(variants: VariantHistogram, n_names: int) -> Steps:
    """Returns the steps of variants, whose codes are below `n_names`."""
    codes, lengths = variants.codes.astype(np.int64), np.diff(variants.offsets)
    row = np.repeat(np.arange(len(lengths)), lengths + 1)
    position = np.arange(len(row)) - (variants.offsets[:-1] + np.arange(len(lengths)))[row]
    following = np.full(len(row), n_names, np.int64)
    following[np.arange(len(codes)) + np.repeat(np.arange(len(lengths)), lengths)] = codes
    last = np.where(position > 0, np.roll(following, 1), n_names)
    before = np.where(position > 1, np.roll(following, 2), n_names)
    return Steps(before, last, following, position, variants.counts[row])


def _foretold(contexts: np.ndarray, learnt: Steps, width: int, asked: np.ndarray) -> np.ndarray:
    """int64[n], what followed most often after each context that is asked for; -1 of a new one.

    Of what followed as often it is the smallest code.
    """
    keys, totals = sum_by_key(contexts * width + learnt.following, learnt.weight)
    keys, totals = keys[totals > 0], totals[totals > 0]
    order = np.lexsort((keys, -totals, keys // width))
    known = keys[order] // width
    first = np.flatnonzero(np.diff(known, prepend=-1))
    known, best = known[first], keys[order][first] % width
    return np.append(best, -1)[places_of(known, asked)]


# --- How well a released log or graph keeps what analysts look at: distances of distributions. ----
# What a user reads off the times of a log is compared as well. How long cases take and on which
# variant that depends, how long work waits between two activities, and whether the second half of
# the log is like the first. Each is a number of a user's own analysis, so a release that keeps it
# can be used for that analysis.
#
# Pure functions of arrays; the stamps of both logs must be times, and both are of one vocabulary.
# Every figure is exact about private data: for the operator, not for publication.


_HOUR_US = 3_600_000_000


def total_variation(a: np.ndarray, b: np.ndarray) -> float:
    """Returns half the sum of |a - b|, each scaled to sum 1: from 0, the same, to 1, disjoint.

    Args:
        a: float64[n] or int64[n], not negative.
        b: The same cells.

    Returns:
        The distance; 1 if exactly one of them is all zero, 0 if both are.
    """
    sums = a.sum(), b.sum()
    if not all(sums):
        return float(any(sums))
    return float(np.abs(a / sums[0] - b / sums[1]).sum() / 2)


def variant_distance(a: VariantHistogram, b: VariantHistogram) -> float:
    """Returns the total variation of the shares of cases by variant, of one vocabulary."""
    union = VariantHistogram.merge([a, b]).sequences
    return total_variation(a.cases_of(union), b.cases_of(union))


def true_variant_mass(a: VariantHistogram, b: VariantHistogram) -> float:
    """Returns the share of b's cases whose variant a has, from 0 to 1; 1 if b is empty."""
    return float(b.counts[b.is_in(a)].sum() / b.n_cases) if b.n_cases else 1.0


def precision_and_recall(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Returns the shares of b's edges that a has, and of a's that b has; 1 where there is none."""
    both = ((a > 0) & (b > 0)).sum()
    sizes = (b > 0).sum(), (a > 0).sum()
    precision, recall = (float(both / size) if size else 1.0 for size in sizes)
    return precision, recall


def length_distance(a: TraceBatch, b: TraceBatch) -> float | None:
    """Returns the 1-Wasserstein distance of the trace lengths in events; None of an empty log."""
    return _distance(a.lengths, b.lengths)


def case_duration_distance_days(a: TraceBatch, b: TraceBatch) -> float | None:
    """Returns that of the times from first to last event, in days."""
    day_us = 24 * _HOUR_US
    return _distance(case_durations_us(a) / day_us, case_durations_us(b) / day_us)


def _distance(a: np.ndarray, b: np.ndarray) -> float | None:
    return float(wasserstein_distance(a, b)) if len(a) and len(b) else None


def case_durations_us(traces: TraceBatch) -> np.ndarray:
    """Returns float64[n_cases], microseconds from the first to the last event of each case."""
    return (traces.times[traces.offsets[1:] - 1] - traces.starts).astype(np.float64)


def hour_of_week_distance(a: TraceBatch, b: TraceBatch) -> float:
    """Returns the total variation of the events over the 168 hours of the week, in UTC."""
    one, other = map(LogTimes.from_traces, (a, b))
    return total_variation(*beside(one.hours, one.hour_counts, other.hours, other.hour_counts))


def activity_mix_distance(a: TraceBatch, b: TraceBatch) -> float:
    """Returns the total variation of the events over the activities of one vocabulary."""
    n = len(a.vocabulary)
    return total_variation(*(np.bincount(log.activities, minlength=n) for log in (a, b)))


_N_TOP = 10
# A mean duration below a hundredth of a day, or a mean wait below a second, is as good as none: an
# error is taken relative to that.
_LEAST_DURATION_US = 0.01 * 24 * _HOUR_US
_LEAST_WAIT_US = 1e6
# A pair is big if at least so many cases show it, and so large a share of them.
_BIG_CASES = 20
_BIG_SHARE = 0.02


def distance_over_mean(a: np.ndarray, b: np.ndarray) -> float | None:
    """Returns the first Wasserstein distance of two samples over the mean of the first.

    0 for the same distribution; 1 is what a release gives in which everything takes no time.

    Args:
        a: float64[n], of the original, not negative.
        b: float64[m], of the release.

    Returns:
        None if one has no value, or the mean is 0.
    """
    if not (len(a) and len(b) and a.any()):
        return None
    return float(wasserstein_distance(a, b) / a.mean())


def eta_squared(values: np.ndarray, classes: np.ndarray) -> float | None:
    """Returns the share of the variance of values that lies between classes, from 0 to 1.

    Fisher's correlation ratio: the sum of squares between the classes over that of all values.

    Args:
        values: float64[n].
        classes: int64[n], from 0.

    Returns:
        None if all values are the same, or there is none.
    """
    if not len(values) or (values == values[0]).all():
        return None
    means, counts = _means(values, classes, int(classes.max()) + 1)
    middle = values.mean()
    between = (counts * (means - middle) ** 2).sum()
    return float(min(between / ((values - middle) ** 2).sum(), 1.0))


def _means(values: np.ndarray, classes: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean of each of the first n classes, 0 of an empty one; and its number of values."""
    is_in_class = classes < n
    counts = np.bincount(classes[is_in_class], minlength=n)
    return np.bincount(classes[is_in_class], values[is_in_class], n) / np.maximum(counts, 1), counts


def half_difference(starts: np.ndarray, classes: np.ndarray) -> float | None:
    """Returns the total variation of the classes between the first and the second half of cases.

    Halves by start; of an odd number of cases the second has one more. Cases that start together
    stay in their order.

    Args:
        starts: int64[n], when each case starts.
        classes: int64[n], from 0.

    Returns:
        From 0, the halves are alike, to 1; None with fewer than two cases.
    """
    middle = len(starts) // 2
    if not middle:
        return None
    ordered = classes[np.argsort(starts, kind="stable")]
    n = int(ordered.max()) + 1
    halves = [np.bincount(half, minlength=n) for half in (ordered[:middle], ordered[middle:])]
    return total_variation(*halves)


@dataclass(frozen=True, eq=False)
class PairWaits:
    """The directly-follows pairs of a log; `keys` ascend.

    Attributes:
        keys: int64[n], one for each pair.
        cases: int64[n], cases that show it.
        counts: int64[n], how often they do.
        means_us: float64[n], mean time from the one event to the other.
    """

    keys: np.ndarray
    cases: np.ndarray
    counts: np.ndarray
    means_us: np.ndarray

    @classmethod
    def of(cls, traces: TraceBatch) -> PairWaits:
        """Returns the pairs of a log, whose codes are below 2^31."""
        later = np.flatnonzero(~traces.is_first)
        codes = traces.activities.astype(np.int64)
        keys, pair = np.unique(codes[later - 1] << 32 | codes[later], return_inverse=True)
        case = np.repeat(np.arange(traces.n_cases), traces.lengths)[later]
        shown = np.sort(pair * np.int64(traces.n_cases) + case)  # np.unique takes ten times as long
        shown = shown[np.diff(shown, prepend=-1) > 0] // max(traces.n_cases, 1)
        waits = np.bincount(pair, traces.durations[later], len(keys))
        counts = np.bincount(pair, minlength=len(keys))
        return cls(keys, np.bincount(shown, minlength=len(keys)), counts, waits / counts)


def big_pair_wait_error(original: PairWaits, other: PairWaits, n_cases: int) -> float | None:
    """Returns the median relative error of the mean waits of the original's big pairs.

    A directly-follows pair is big if at least max(20, 2 % of the cases) show it. The error of its
    mean wait is relative to that of the original, or to a second if that is less; 1 where the
    release does not have the pair.

    Args:
        original: The pairs of the original.
        other: Those of the released log, in the same codes.
        n_cases: Number of cases of the original.

    Returns:
        None without a big pair.
    """
    big = original.cases >= max(_BIG_CASES, _BIG_SHARE * n_cases)
    if not big.any():
        return None
    errors = np.ones(len(original.keys))
    _, in_original, in_other = np.intersect1d(original.keys, other.keys, True, True)
    difference = np.abs(other.means_us[in_other] - original.means_us[in_original])
    errors[in_original] = difference / np.maximum(original.means_us[in_original], _LEAST_WAIT_US)
    return float(np.median(errors[big]))


def misplaced_waiting_time(a: PairWaits, b: PairWaits) -> float | None:
    """Returns the share of all waiting time that lies at the wrong directly-follows pairs.

    The total variation of where the time goes: half the sum over all pairs of |the pair's share of
    the waiting time of a - of that of b|. How much time there is in all does not matter. A log that
    is drawn from the same process again has more than 0.

    Args:
        a: The pairs of the original.
        b: Those of the release, in the same codes.

    Returns:
        From 0 to 1; 1 if in the release nothing takes time. None if in the original nothing does.
    """
    weights = beside(a.keys, a.means_us * a.counts, b.keys, b.means_us * b.counts)
    return total_variation(*weights) if weights[0].any() else None


class CaseTimes:
    """The measures of case times by one original; what follows from it alone is computed once.

    Args:
        original: The original.
    """

    def __init__(self, original: TraceBatch) -> None:
        # The ten variants that most cases follow; of equally many the first by their codes.
        histogram = VariantHistogram.from_traces(original)
        top = np.sort(np.argsort(-histogram.counts, kind="stable")[:_N_TOP])
        self._top = VariantHistogram(histogram.sequences.take(top), histogram.counts[top])
        self._times, self._waits = self._seen(original), PairWaits.of(original)

    def _seen(self, traces: TraceBatch) -> tuple[np.ndarray, np.ndarray]:
        """The duration of each case, and the number of its variant, ten of any other."""
        rows = self._top.find(traces)
        return case_durations_us(traces), np.where(rows < 0, self._top.n_variants, rows)

    def _duration_error(self, others: np.ndarray, other_classes: np.ndarray) -> float | None:
        """The mean over the top variants of how far the means of durations are apart.

        Relative to the original's, or to a hundredth of a day; 1 of a variant that the release
        lacks, as if nothing was known of it.
        """
        n = self._top.n_variants
        means, counts = _means(*self._times, n)
        theirs, their_counts = _means(others, other_classes, n)
        errors = np.abs(theirs - means) / np.maximum(means, _LEAST_DURATION_US)
        errors = np.where(their_counts > 0, errors, 1.0)
        return float(errors[counts > 0].mean()) if counts.any() else None

    def figures(self, released: TraceBatch) -> dict[str, float | None]:
        """Returns the measures of a released log by their names in the registry."""
        others, other_classes = self._seen(released)
        waits, other_waits = self._waits, PairWaits.of(released)
        n_cases = len(self._times[0])
        return {
            "case_duration_distance": distance_over_mean(self._times[0], others),
            "top_variant_duration_error": self._duration_error(others, other_classes),
            "duration_eta_squared": eta_squared(np.log1p(others / _HOUR_US), other_classes),
            "big_pair_wait_error": big_pair_wait_error(waits, other_waits, n_cases),
            "misplaced_waiting_time": misplaced_waiting_time(waits, other_waits),
            "drift": half_difference(released.starts, other_classes),
        }


Totals = tuple[np.ndarray, np.ndarray]


def service_errors(a: TraceBatch, b: TraceBatch) -> dict[str, float | None]:
    """Returns the measures of service and waiting by their names in the registry.

    The error of the mean by activity, weighed by the original's events, over its mean of all. An
    activity that is not released counts as one without any such time.

    Args:
        a: The original.
        b: The released log, in its vocabulary.

    Returns:
        None of a measure where the original has no such time; nothing where either has no starts.
    """
    n = len(a.vocabulary)
    service, waiting = [], []
    for log in (a, b):
        times = IntervalTimes.of(log)
        if not times.is_known.any():
            return {}
        service.append(_totals(log, times.service_us, times.is_known, n))
        waiting.append(_totals(log, times.waiting_us, times.has_wait, n))
    return {"service_time_error": mean_error(*service), "waiting_time_error": mean_error(*waiting)}


def _totals(traces: TraceBatch, times_us: np.ndarray, is_counted: np.ndarray, n: int) -> Totals:
    """Two float64[n]: events of each activity that are counted, and the sum of their times."""
    activities = traces.activities[is_counted]
    counts = np.bincount(activities, minlength=n).astype(np.float64)
    return counts, np.bincount(activities, times_us[is_counted].astype(np.float64), n)


def mean_error(original: Totals, released: Totals) -> float | None:
    """Returns the sum of |released mean - mean| by activity over that of the means, both weighed.

    Args:
        original: Two float64[n], events and sums of times; the events weigh.
        released: Likewise.

    Returns:
        None where all times of the original are 0.
    """
    counts, sums = original
    if not sums.any():
        return None
    others, other_sums = released
    means = np.where(others > 0, other_sums / np.where(others > 0, others, 1), 0.0)
    return float(np.abs(counts * means - sums).sum() / sums.sum())
