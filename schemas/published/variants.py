"""Released variants: sequences of activities with counts that carry noise and may be published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, get_type_hints

import numpy as np
import pyarrow as pa

from tracecloak.schemas.arrays.columnar import Columnar
from tracecloak.schemas.arrays.merging import distinct_places, offsets_of, ranges, stable_order
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.figures import (
    MODELLED,
    Key,
    interval_columns,
    numbers_of,
    wider_ends,
    without_kinds,
)
from tracecloak.schemas.published.graph import named, unclear_share
from tracecloak.schemas.published.manifest import Yield
from tracecloak.schemas.statistics.log_times import LogTimes
from tracecloak.schemas.statistics.variants import DirectlyFollows, VariantHistogram


@dataclass(frozen=True)
class LogCounts:
    """What is counted on a released log, for its page and its graph.

    Attributes:
        graph: Its directly-follows counts.
        variants: Its variants.
        times: When its cases begin, and how long they and their steps take.
        names: What the codes mean.
    """

    graph: DirectlyFollows
    variants: VariantHistogram
    times: LogTimes
    names: ActivityVocabulary

    @property
    def came_out(self) -> Yield:
        """What the log holds."""
        return variants_of_log(self.variants, self.names).came_out()


KINDS_OF_LOG_COUNTS: dict[str, type[Any]] = get_type_hints(LogCounts)
"""The types of what `count_released` returns, which together are `LogCounts`."""


def count_released(released: TraceBatch) -> dict[str, Any]:
    """Returns what is counted on a batch of released cases, by name."""
    return {
        "graph": DirectlyFollows.from_traces(released),
        "variants": VariantHistogram.from_traces(released),
        "times": LogTimes.from_traces(released),
        "names": released.vocabulary,
    }


class ReleasedVariants(Columnar, wire_name="released-variants"):
    """The variants of a release, the most frequent first.

    Attributes:
        names: string[n_activities], those that occur in the variants, sorted; a code is a position.
        offsets: int64[n_variants+1], CSR offsets into `codes`.
        codes: int32[n_positions], activities of the variants one after the other.
        counts: int64[n_variants], cases, all positive.
        lows: int64[n_variants], lower end of the interval that holds the input's number of cases,
            after any cut of them at a length, with probability 0.95, as the noise is known to be;
            not negative. None where the cases were drawn from a model, which has no such interval.
        highs: int64[n_variants], its upper end, or None.
        has_kinds: Whether its table says that a count is measured, or modelled where it has no
            interval; see `without_kinds`.
    """

    has_kinds: ClassVar[bool] = True

    names: pa.StringArray
    offsets: np.ndarray
    codes: np.ndarray
    counts: np.ndarray
    lows: np.ndarray | None
    highs: np.ndarray | None

    @property
    def n_variants(self) -> int:
        """Number of variants."""
        return len(self.counts)

    @property
    def n_cases(self) -> int:
        """Sum of the counts."""
        return int(self.counts.sum())

    def counted(self, vocabulary: ActivityVocabulary) -> VariantHistogram:
        """Returns them in the codes of a vocabulary that has their names."""
        sequences = encode_sequences(self.offsets, vocabulary.codes(self.names)[self.codes])
        return VariantHistogram.of(sequences, self.counts)

    def take(self, rows: np.ndarray) -> ReleasedVariants:
        """Returns some of the variants, in the order asked for; the names stay."""
        lengths = np.diff(self.offsets)[rows]
        return ReleasedVariants(
            self.names,
            offsets_of(lengths),
            self.codes[ranges(self.offsets[rows], lengths)],
            self.counts[rows],
            None if self.lows is None else self.lows[rows],
            None if self.highs is None else self.highs[rows],
        )

    def resized(self, n_cases: int) -> ReleasedVariants:
        """Returns the variants with counts in proportion that sum to `n_cases`, without intervals.

        Counts are differences of rounded sums, so each is less than 1 off its proportion. Variants
        that have no case then are left out. If there are no variants, the result has none either.

        Args:
            n_cases: Not negative.
        """
        total = self.n_cases
        if total == 0 or n_cases == total:
            return replace(self, lows=None, highs=None)
        ends = np.cumsum(self.counts)
        if 2 * total * n_cases + total >= 1 << 63:
            ends = ends.astype(object)
        ends = ((2 * ends * n_cases + total) // (2 * total)).astype(np.int64)
        counts = np.diff(ends, prepend=0)
        return most_frequent_first(self.names, self.offsets, self.codes, counts)

    def to_table(self) -> pa.Table:
        """Returns the columns variant (list of names), count, kind, and some where these are known.

        Where the counts are measured there are low, high, usable and grade; modelled ones have no
        interval.
        """
        words = self.names.take(pa.array(self.codes))
        variants = pa.ListArray.from_arrays(pa.array(self.offsets.astype(np.int32)), words)
        columns = {"variant": variants, "count": pa.array(self.counts, pa.int64())}
        if self.lows is None or self.highs is None:
            kinds = {"kind": pa.array([MODELLED] * self.n_variants, pa.string())}
            return pa.table(columns | kinds if self.has_kinds else columns)
        return pa.table(columns | interval_columns(self))

    def to_json(self) -> dict[str, Any]:
        """Returns the same as JSON values."""
        return {"activities": self.names.to_pylist(), "variants": self.to_table().to_pylist()}

    @classmethod
    def from_json(cls, body: Any) -> ReleasedVariants:
        """Returns the variants that `to_json` gave; of none at all, without intervals.

        Raises:
            KeyError, TypeError, ValueError: They are none.
        """
        names, rows = pa.array(body["activities"], pa.string()), body["variants"]
        words = pa.array([name for row in rows for name in row["variant"]], pa.string())
        has_intervals = bool(rows) and "low" in rows[0]
        variants = cls(
            names,
            offsets_of(np.array([len(row["variant"]) for row in rows], np.int64)),
            ActivityVocabulary(names).codes(words),
            *numbers_of(rows, "count"),
            *(numbers_of(rows, "low", "high") if has_intervals else (None, None)),
        )
        return variants if not rows or "kind" in rows[0] else without_kinds(variants)

    def came_out(self) -> Yield:
        """Returns its cases, variants and activities, and how clear its counts are."""
        weights = np.repeat(self.counts, np.diff(self.offsets)).astype(np.float64)
        occurrences = np.bincount(self.codes, weights, len(self.names))
        n_activities, share = named(self.names, occurrences)
        held = Yield(self.n_cases, self.n_variants, n_activities, named_share=share)
        if self.n_cases:
            lengths = np.diff(self.offsets)
            longest = self.counts[lengths == lengths.max()].sum() / self.n_cases
            held = replace(held, max_events=int(lengths.max()), longest_share=float(longest))
        if self.lows is None or self.highs is None:
            return held
        return replace(held, unclear_share=unclear_share(self.counts, self.lows, self.highs))

    def numbers(self, watched: Sequence[Key] | None = None) -> dict[Key, float]:
        """Returns the cases of each ("variant", …), and of all of them as ("total",)."""
        words = self.names.to_pylist()
        text = [words[code] for code in self.codes.tolist()]
        rows = zip(pairwise(self.offsets.tolist()), self.counts.tolist(), strict=True)
        cases = {("variant", *text[first:last]): float(count) for (first, last), count in rows}
        return {**cases, ("total",): float(self.counts.sum())}


def variants_of_log(variants: VariantHistogram, vocabulary: ActivityVocabulary) -> ReleasedVariants:
    """Returns the variants of a released log, the most frequent first."""
    return most_frequent_first(vocabulary.names, variants.offsets, variants.codes, variants.counts)


def most_frequent_first(
    names: pa.StringArray,
    offsets: np.ndarray,
    codes: np.ndarray,
    counts: np.ndarray,
    half_width: int | None = None,
) -> ReleasedVariants:
    """Returns variants in the order of a release: by count, then as they come; 0 is left out.

    Names that no variant has are left out as well.

    Args:
        names: string[n], what the codes mean.
        offsets: int64[n_variants+1], CSR offsets into `codes`.
        codes: int32[n_positions].
        counts: int64[n_variants], not negative.
        half_width: Half the width of the 95 % interval of every count, or None: there is none.
    """
    order = np.flatnonzero(counts > 0)
    order = order[stable_order(-counts[order])]
    lengths = np.diff(offsets)[order]
    used, own_codes = distinct_places(codes[ranges(offsets[order], lengths)])
    count, half = counts[order], half_width or 0
    limits = wider_ends(count, np.maximum(count - half, 0), count + half)
    return ReleasedVariants(
        names.take(pa.array(used)),
        offsets_of(lengths),
        own_codes.astype(np.int32),
        count,
        *((None, None) if half_width is None else limits),
    )
