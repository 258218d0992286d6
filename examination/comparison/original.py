"""A log that releases are compared with, and their distances from it.

What follows from the log alone is computed once. The measures are those of
`examination.measure.registry`, exact about private data: for the operator only.

How many cases a few of their events single out, as one share that is quick to compute.

Nuñez von Voigt, Fahrenkrog-Petersen, Janssen, Koschmider, Tschorsch, Mannhardt, Landsiedel and
Weidlich: Quantifying the Re-identification Risk of Event Logs for Process Mining, CAiSE 2020. They
draw points of a case at random, and ask of how many cases these points are in no other case. Here
the points are of the original and are looked for in a release, as `examination.linkage.run` does.

The same points are drawn of a log each time, so what releases differ by is no chance of the points.
Computed on raw data, for the operator only.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.anonymizers.noise.randomness import KEY_BYTES, Randomness, ReleaseKey
from tracecloak.examination.linkage.knowledge import KnownVictims, Settings, Target
from tracecloak.examination.measure import measures, utility
from tracecloak.examination.measure.intervals import edge_figures, interval_figures
from tracecloak.examination.measure.mining import ModelJudge
from tracecloak.examination.measure.registry import Figures, checked
from tracecloak.examination.measure.utility import (
    CaseTimes,
    next_activity_accuracy,
    variants_of_fifth,
)
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.background_knowledge import TIME_BITS, CaseTable, Kind, Knowledge
from tracecloak.schemas.statistics.variants import DirectlyFollows, VariantHistogram
from tracecloak.transforms.sources import EventSource

# The public length: as many events as this share of the cases has at most.
LENGTH_SHARE = 0.95
# A distance of variants with a larger table of their pairs is not computed: it takes minutes.
MAX_EMD_CELLS = 6_000_000
_SECOND_US = 1_000_000


@dataclass(frozen=True)
class Original:
    """A log that releases are compared with; what follows from it is computed once.

    Attributes:
        name: What the page calls it.
        traces: All cases.
    """

    name: str
    traces: TraceBatch

    @classmethod
    def read(cls, name: str, source: EventSource) -> Original:
        """Reads a log; malformed records are left out, as in a release.

        Raises:
            UsageError: There is no case in it.
            InputSchemaError: It cannot be read.
        """
        traces = group_into_traces(source.events(), drops_duplicates=source.drops_duplicates)
        if not traces:
            raise UsageError(f"log {name!r} has no case")
        return cls(name, traces[0])

    @cached_property
    def max_length(self) -> int:
        """The length at which cases are cut, in events."""
        return int(np.quantile(self.traces.lengths, LENGTH_SHARE, method="inverted_cdf"))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The activities."""
        return tuple(self.traces.vocabulary.names.to_pylist())

    @cached_property
    def dates(self) -> tuple[str, str]:
        """The first and the last date of its events, in UTC."""
        ends = (int(self.traces.times.min()), int(self.traces.times.max()))
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        first, last = (epoch + datetime.timedelta(seconds=us // _SECOND_US) for us in ends)
        return first.date().isoformat(), last.date().isoformat()

    @cached_property
    def vocabulary(self) -> ActivityVocabulary:
        """The activities, and the one that a public vocabulary has for all others."""
        return ActivityVocabulary.public(self.names)

    @cached_property
    def variants(self) -> VariantHistogram:
        """The variants of whole cases, in the codes of `vocabulary`."""
        return VariantHistogram.from_traces(self.traces.recode(self.vocabulary))

    @cached_property
    def cut(self) -> VariantHistogram:
        """The variants of cases that were cut, in the codes of `vocabulary`."""
        return VariantHistogram.from_traces(
            self.traces.recode(self.vocabulary).truncate(self.max_length)
        )

    @cached_property
    def edges(self) -> measures.EdgeWeights:
        """The directly-follows pairs, START and END included."""
        return _edges(self.variants, self.vocabulary)

    @cached_property
    def times(self) -> CaseTimes:
        """What the times of logs are compared with, in the codes of `vocabulary`."""
        return CaseTimes(self.traces.recode(self.vocabulary))

    @cached_property
    def tested(self) -> VariantHistogram:
        """The variants whose next activities are foretold, in the codes of `vocabulary`."""
        return variants_of_fifth(self.traces.recode(self.vocabulary))

    @cached_property
    def singled_out(self) -> SingledOut:
        """What may be known of cases: activities in their order."""
        return SingledOut(_known_variants(self.variants), "sequence")

    @cached_property
    def singled_out_in_time(self) -> SingledOut:
        """What may be known of cases: activities, each with the hours since the case began."""
        return SingledOut(_known_in_time(self.traces.recode(self.vocabulary)), "relative")

    @cached_property
    def process(self) -> ModelJudge:
        """What mined models are judged by."""
        return ModelJudge(self.variants, self.vocabulary)

    def identity(self) -> dict[str, str | int]:
        """Returns the columns of rows that distinguish this log from others."""
        return {
            "log": self.name,
            "cases": self.traces.n_cases,
            "events": self.traces.n_events,
            "variants": self.variants.n_variants,
            "max_length": self.max_length,
        }

    def figures(self, released: VariantHistogram) -> Figures:
        """Returns the measures of released variants, in the codes of `vocabulary`."""
        edges = measures.aligned_edges(self.edges, _edges(released, self.vocabulary))
        before, after, _ = utility.aligned_variants(self.variants, released)
        return checked(
            {
                "variant_total_variation": utility.total_variation(before, after),
                "variant_emd": measures.variant_emd(self.variants, released, MAX_EMD_CELLS),
                "true_variant_mass": utility.true_variant_mass(self.variants, released),
                "edge_total_variation": utility.total_variation(*edges),
                "edge_relative_error": utility.relative_error(*edges),
                "next_activity_accuracy": self.next_activity(released),
                "relative_size": released.n_cases / self.traces.n_cases,
                "singled_out": self.singled_out.share(_known_variants(released)),
            }
        )

    def next_activity(self, released: VariantHistogram) -> float | None:
        """Returns how well released variants teach what comes next in the log."""
        return next_activity_accuracy(released, self.tested, len(self.vocabulary))

    def figures_of_times(self, released: TraceBatch) -> Figures:
        """Returns the measures of the times of a released log, in the codes of `vocabulary`."""
        in_time = self.singled_out_in_time.share(_known_in_time(released))
        return checked({**self.times.figures(released), "singled_out_in_time": in_time})

    def figures_of_graph(self, released: ReleasedGraph, half_width: float | None) -> Figures:
        """Returns the measures of a released graph and of its intervals.

        Args:
            released: The graph.
            half_width: Half the 95 % interval of its noise, or None: it is not known.
        """
        code = {label: number for number, label in enumerate(self.vocabulary.labels)}
        codes = np.array([code[label] for label in released.labels], np.int32)
        edges = measures.EdgeWeights(
            codes[released.sources], codes[released.targets], released.counts
        )
        return {
            **edge_figures(self.edges, edges),
            **interval_figures(self.edges, edges, released.lows, released.highs, half_width),
        }

    def recoded(self, released: ReleasedVariants) -> VariantHistogram:
        """Returns released variants in the codes of `vocabulary`."""
        codes = self.vocabulary.codes(released.names)[released.codes]
        sequences = encode_sequences(released.offsets, codes)
        return VariantHistogram.from_sequences(sequences, released.counts)


def _edges(variants: VariantHistogram, vocabulary: ActivityVocabulary) -> measures.EdgeWeights:
    return measures.EdgeWeights.of(DirectlyFollows.from_variants(variants, vocabulary))


def _known_variants(variants: VariantHistogram) -> CaseTable:
    words = (variants.codes.astype(np.int64) + 1) << TIME_BITS
    nothing_sensitive = np.zeros((variants.n_variants, 0), np.int64)
    return CaseTable(variants.offsets, words, variants.counts, nothing_sensitive)


def _known_in_time(traces: TraceBatch) -> CaseTable:
    words = Knowledge("relative", "activity", "hours").words(traces)
    ones, nothing_sensitive = np.ones(traces.n_cases, np.int64), np.zeros((traces.n_cases, 0), int)
    return CaseTable(traces.offsets, words, ones, nothing_sensitive)


# Events that are known of a case.
N_KNOWN = 10
# Cases, each with points of its own, that are drawn where there are more pieces of knowledge than
# that. A share of a half then has a standard error of 0.011.
_N_DRAWN = 2_000


class SingledOut:
    """What is known of the cases of an original, and in how many of them it fits one released case.

    Args:
        original: Its cases; words are elements of `Knowledge.words`.
        kind: `sequence` or `relative`, as in these words.
    """

    def __init__(self, original: CaseTable, kind: Kind) -> None:
        self._kind = kind
        table, self._elements = original.canonical(kind, 1)
        settings = Settings(n_samples=_N_DRAWN, most_exact=_N_DRAWN)
        # The points are no secret: who computes this has the log.
        randomness = Randomness(ReleaseKey(bytes(KEY_BYTES)), "singled-out", "", "")
        victims = KnownVictims(table.filled(), self._elements, ())
        self._pieces = victims.pieces(N_KNOWN, settings, randomness, kind)

    def share(self, released: CaseTable) -> float:
        """Returns the share of the original's cases of which the points fit one released case.

        Args:
            released: Cases of a release, or of the original itself, in the same words.
        """
        rows = released.canonical(self._kind, 1)
        target = Target("release", self._kind, *rows, self._elements)
        is_alone = target.match(self._pieces).sizes == 1
        return float(np.average(is_alone[self._pieces.piece], weights=self._pieces.weights))
