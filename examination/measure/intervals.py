"""What a released graph and its intervals are measured by, and the lines beside them.

An interval of 95 % shall contain the exact value 95 times in a hundred (Neyman, 1937). Coverage
alone can be had by wide intervals, so the width stands beside it, over that of an interval that
covers nothing but the noise.

The lines are a bootstrap of the log (Efron, 1979), which is what another log of the same process
would be, so that no release need pass it; and chains of the exact counts, which are the limit of
methods that draw cases from such a chain. They protect nobody, and their draws are public. Every
figure is exact about private data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tracecloak.anonymizers.accounting.calibration import laplace_interval
from tracecloak.examination.measure import utility
from tracecloak.examination.measure.registry import Figures, checked
from tracecloak.schemas.arrays.hashing import mix
from tracecloak.schemas.arrays.merging import offsets_of, places_of, sum_by_key
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.variants import DirectlyFollows, VariantHistogram

# --- Whether published intervals contain the truth as often as they say, and how wide they are. ---
# Pure functions of arrays. Every figure is exact about private data.
#
# A bootstrap of a log: as many of its cases, drawn with replacement.
#
# What it differs from the log by is what another log of the same process would (Efron, 1979), so
# it is the line beside a measure that no release need pass: who is nearer repeats the log's
# accidents.
#
# It is no protection, and its draws are no noise: they are public and always the same.
#
# Chains of a log without noise: the limit of methods that draw cases from such a chain.
#
# A method that draws cases from a chain cannot pass the same chain of the exact counts: that is
# the limit of its class of models. None of them protects anybody, so none is a method.


_Z95 = 1.96


def noise_half_width(manifest: Mapping[str, Any]) -> float | None:
    """Returns half the 95 % interval of the noise of a released graph, in occurrences.

    Args:
        manifest: Of the release.

    Returns:
        None where the manifest does not tell: without such noise, or where its scale followed from
        a norm that was bought.
    """
    params = manifest.get("params", {})
    spends = manifest.get("spends", ())
    for part in (part for spend in spends for part in (spend, *spend.get("blocks", ()))):
        if part.get("what") != "edges" or not part.get("scale") or not part.get("sensitivity"):
            continue
        scale, sensitivity = Fraction(part["scale"]), Fraction(part["sensitivity"])
        if part.get("mechanism") == "discrete_laplace":  # counts of whole occurrences
            return float(laplace_interval(scale)) or None
        if params.get("l2_clip") is None:
            return None
        # What one unit can change, in occurrences and in steps of the lattice.
        norm = Fraction(str(params["l2_clip"])) * int(params.get("max_cases_per_individual") or 1)
        return float(_Z95 * scale / sensitivity * norm)
    return None


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def public_words(n: int, draw: int) -> np.ndarray:
    """Returns uint64[n], words that look random and that everybody can compute (splitmix64).

    Args:
        n: How many.
        draw: Different numbers from 0 on give different words.
    """
    start = mix(np.array([draw + 1], np.uint64))
    return mix(start + np.arange(1, n + 1, dtype=np.uint64) * _GOLDEN)


def bootstrap(traces: TraceBatch, draw: int = 0) -> TraceBatch:
    """Returns a bootstrap of a log; a case that is drawn again has the same id again.

    Args:
        traces: The log.
        draw: Which of its bootstraps, from 0.
    """
    n = traces.n_cases
    drawn = public_words(n, draw) % np.uint64(max(n, 1))
    return traces.take(np.sort(drawn.astype(np.int64)))


@dataclass(frozen=True)
class Chain:
    """A Markov chain over activities with the exact counts of a log.

    Attributes:
        order: How many of the last activities the next one depends on, 1 or 2.
        by_position: Whether it depends on its position in the case, too.
    """

    order: int
    by_position: bool

    def draw(self, variants: VariantHistogram, n_names: int, number: int) -> VariantHistogram:
        """Returns as many cases as the log has, drawn from the chain.

        Args:
            variants: Of the log.
            n_names: Codes are below it.
            number: Which of the draws, from 0; each is always the same.
        """
        width = n_names + 1  # the code n_names is before the first and after the last activity
        log_lengths = np.diff(variants.offsets)
        steps = utility.steps_of(variants, n_names)
        of_steps = self._context(steps.position, steps.before, steps.last, width)
        # In the order of the contexts.
        keys, totals = sum_by_key(of_steps * width + steps.following, steps.weight)
        contexts, names, upto = keys // width, keys % width, offsets_of(totals)
        n, longest = variants.n_cases, int(log_lengths.max(initial=0))
        walks = np.full((n, longest), n_names, np.int64)
        last = before = np.full(n, n_names, np.int64)
        alive = np.arange(n)
        for position in range(longest):
            context = self._context(position, before[alive], last[alive], width)
            words = public_words(n, number * (longest + 1) + position)[alive]
            low, high = (
                upto[np.searchsorted(contexts, context, side)] for side in ("left", "right")
            )
            wanted = low + (words % (high - low).astype(np.uint64)).astype(np.int64)
            following = names[np.searchsorted(upto, wanted, "right") - 1]
            walks[alive, position] = following
            before, last = last.copy(), last.copy()
            before[alive], last[alive] = last[alive], following
            alive = alive[following < n_names]
            if not len(alive):
                break
        return variants_of_records(walks, n_names)

    def _context(
        self, position: np.ndarray | int, before: np.ndarray, last: np.ndarray, width: int
    ) -> np.ndarray:
        before = before if self.order == 2 else np.zeros_like(before)
        place = position if self.by_position else 0
        return (place * np.int64(width) + before) * width + last


def variants_of_records(records: np.ndarray, end: int) -> VariantHistogram:
    """Returns the variants of records, each up to its first end; those without an event are none.

    Args:
        records: int64[n, n_positions].
        end: The code that stands after the last activity.
    """
    goes_on = np.logical_and.accumulate(records != end, axis=1)
    has_event = goes_on[:, 0] if records.shape[1] else np.zeros(len(records), bool)
    lengths = goes_on[has_event].sum(axis=1)
    codes = records[has_event][goes_on[has_event]].astype(np.int32)
    sequences = encode_sequences(offsets_of(lengths), codes)
    return VariantHistogram.of(sequences, np.ones(len(lengths), np.int64))


CHAINS: Mapping[str, Chain] = {
    "chain of order 1": Chain(1, False),
    "chain by position": Chain(1, True),
    "chain of order 2 by position": Chain(2, True),
}


# --- The measures of a released directly-follows graph and of its intervals, by their names. ------
# Both graphs are of one vocabulary and have START and END. Every figure is exact about private
# data: for the operator, not for publication.


def edge_figures(a: DirectlyFollows, b: DirectlyFollows) -> Figures:
    """Returns the measures of directly-follows graphs, START and END included.

    Args:
        a: The original's.
        b: The release's.
    """
    weights = a.beside(b)
    precision, recall = utility.precision_and_recall(*weights)
    return checked(
        {
            "edge_total_variation": utility.total_variation(*weights),
            "edge_relative_error": a.relative_error(b),
            "edge_precision": precision,
            "edge_recall": recall,
        }
    )


def interval_figures(
    truth: DirectlyFollows,
    released: DirectlyFollows,
    lows: np.ndarray,
    highs: np.ndarray,
    half_width: float | None,
) -> Figures:
    """Returns the measures of a graph's intervals.

    The share of them with low <= truth <= high, and the mean of high - low over the width of the
    noise, which intervals that are cut off at 0 make smaller. None without an interval.

    Args:
        truth: The exact graph.
        released: The released one.
        lows: int64[n], the lower end of each released edge, in its order.
        highs: int64[n], likewise.
        half_width: Half the interval of the noise alone, or None: it is not known.
    """
    counts = np.append(truth.counts, 0)[places_of(truth.keys, released.keys)]
    coverage = width = None
    if len(counts):
        coverage = float(((lows <= counts) & (counts <= highs)).mean())
    if len(counts) and half_width is not None:
        width = float((highs - lows).mean() / (2 * half_width))
    return checked({"interval_coverage": coverage, "interval_width": width})
