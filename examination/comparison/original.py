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

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from tracecloak.anonymizers.noise.randomness import KEY_BYTES, Randomness, ReleaseKey
from tracecloak.examination.linkage.knowledge import KnownVictims, Settings, Target
from tracecloak.examination.measure import measures, utility
from tracecloak.examination.measure.behaviour_measures import edge_time_emd, total_duration_error
from tracecloak.examination.measure.intervals import edge_figures, interval_figures
from tracecloak.examination.measure.mining import NormalBehaviour
from tracecloak.examination.measure.registry import MEASURES, Figures, checked
from tracecloak.pipelines.configuration.config import load_log
from tracecloak.pipelines.configuration.plan import source_of
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.statistics.background_knowledge import TIME_BITS, CaseTable, Kind, Knowledge
from tracecloak.schemas.statistics.variants import DirectlyFollows, VariantHistogram

# The public length: as many events as this share of the cases has at most.
LENGTH_SHARE = 0.95
# A distance of variants with a larger table of their pairs is not computed: it takes minutes.
MAX_EMD_CELLS = 6_000_000


@dataclass(frozen=True, eq=False)
class Side:
    """A log or a release beside another, both in one vocabulary; what follows is computed once.

    Attributes:
        variants: Its variants.
        vocabulary: What their codes mean.
        traces: Its cases, or None: it has variants alone.
    """

    variants: VariantHistogram
    vocabulary: ActivityVocabulary
    traces: TraceBatch | None = None

    @classmethod
    def of(cls, traces: TraceBatch) -> Side:
        """Returns a side that has cases, in their vocabulary."""
        return cls(VariantHistogram.from_traces(traces), traces.vocabulary, traces)

    @property
    def cases(self) -> TraceBatch:
        """The cases, of a side that has them."""
        assert self.traces is not None
        return self.traces

    @cached_property
    def edges(self) -> DirectlyFollows:
        """The directly-follows pairs, START and END included."""
        return DirectlyFollows.from_variants(self.variants, self.vocabulary)

    @cached_property
    def inner_edges(self) -> DirectlyFollows:
        """The directly-follows pairs between activities."""
        return self.edges.inner(self.vocabulary)

    @cached_property
    def times(self) -> utility.CaseTimes:
        """What the times of logs are compared with."""
        return utility.CaseTimes(self.cases)

    @cached_property
    def tested(self) -> VariantHistogram:
        """By which it is tested how well released variants teach what comes next."""
        return utility.variants_of_fifth(self.cases)

    @cached_property
    def singled_out(self) -> SingledOut:
        """What may be known of cases: activities in their order."""
        return SingledOut(_known_variants(self.variants), "sequence")

    @cached_property
    def singled_out_in_time(self) -> SingledOut:
        """What may be known of cases: activities, each with the hours since the case began."""
        return SingledOut(_known_in_time(self.cases), "relative")


# The measures of a release beside its log: by the name in the registry, what of both sides they are
# of, or all of them, and the function. Those that come together stand under one of them.
_MEASURED: Mapping[str, tuple[str, Callable[[Any, Any], float | Figures | None]]] = {
    "variant_emd": ("variants", partial(measures.variant_emd, max_cells=MAX_EMD_CELLS)),
    "variant_total_variation": ("variants", utility.variant_distance),
    "true_variant_mass": ("variants", utility.true_variant_mass),
    "variants_lost": ("variants", lambda a, b: int((~a.is_in(b)).sum())),
    "variants_invented": ("variants", lambda a, b: int((~b.is_in(a)).sum())),
    "jaccard_distance": ("variants", measures.jaccard_distance),
    "prefix_jaccard_distance": ("variants", measures.prefix_jaccard_distance),
    "relative_size": ("variants", lambda a, b: b.n_cases / a.n_cases if a.n_cases else None),
    "edge_frequency_emd": ("inner_edges", measures.edge_frequency_emd),
    "edge_mean_absolute_error": ("inner_edges", measures.edge_mean_absolute_error),
    "edge_relative_error": ("edges", edge_figures),
    "trace_length_distance": ("cases", utility.length_distance),
    "activity_mix_total_variation": ("cases", utility.activity_mix_distance),
    "edge_time_emd_months": ("cases", edge_time_emd),
    "total_duration_error": ("cases", total_duration_error),
    "case_duration_distance_days": ("cases", utility.case_duration_distance_days),
    "hour_of_week_total_variation": ("cases", utility.hour_of_week_distance),
    "service_time_error": ("cases", utility.service_errors),
    "case_duration_distance": ("", lambda a, b: a.times.figures(b.cases)),
    "next_activity_accuracy": (
        "",
        lambda a, b: utility.next_activity_accuracy(b.variants, a.tested, len(a.vocabulary)),
    ),
    "singled_out": ("", lambda a, b: a.singled_out.share(_known_variants(b.variants))),
    "singled_out_in_time": ("", lambda a, b: a.singled_out_in_time.share(_known_in_time(b.cases))),
}
# The measures that each kind of release is judged by, in the order of the columns.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "variants": (
        "variant_emd", "variant_total_variation", "true_variant_mass", "edge_total_variation",
        "edge_relative_error", "next_activity_accuracy", "relative_size", "singled_out",
    ),
    "log": (
        "variant_emd", "edge_relative_error", "case_duration_distance",
        "top_variant_duration_error", "duration_eta_squared", "big_pair_wait_error", "drift",
        "next_activity_accuracy", "relative_size", "singled_out", "singled_out_in_time",
    ),
    "graph": (
        "edge_relative_error", "edge_total_variation", "edge_precision", "edge_recall",
        "interval_coverage", "interval_width",
    ),
}  # fmt: skip
# Those that say what somebody could learn of a case; all others say what a release is good for. A
# graph has no cases to single out.
DISCLOSURE = ("singled_out", "singled_out_in_time")


def names_of_log(is_timed: bool) -> list[str]:
    """Returns the measures of a log but those of disclosure; those of times where it has times."""
    names = [name for name in _MEASURED if name not in DISCLOSURE]
    return [name for name in names if is_timed or "times" not in MEASURES[name].needs]


def measured(a: Side, b: Side, names: Iterable[str]) -> Figures:
    """Returns measures of a release beside its log, by their names.

    Args:
        a: The log; it has cases.
        b: The release.
        names: Those that are wanted. `edge_relative_error` is of the directly-follows graph and
            brings all of that, `case_duration_distance` those of times of cases, and
            `service_time_error` those of service and waiting, where both sides have starts.
    """
    figures: Figures = {}
    for name in names:
        of, function = _MEASURED[name]
        value = function(*((getattr(side, of) if of else side) for side in (a, b)))
        figures |= value if isinstance(value, dict) else {name: value}
    return checked(figures)


def graph_figures(
    a: Side,
    released: ReleasedGraph,
    half_width: float | None,
    public: DirectlyFollows | None = None,
) -> Figures:
    """Returns the measures of a released graph and of its intervals.

    Args:
        a: The log, in a vocabulary that has the names of the graph.
        released: The graph.
        half_width: Half the 95 % interval of its noise, or None: it is not known.
        public: The exact graph that its intervals are of, if that is another than the log's.
    """
    edges = released.counted(a.vocabulary)
    truth = a.edges if public is None else public
    return {
        **edge_figures(a.edges, edges),
        **interval_figures(truth, edges, released.lows, released.highs, half_width),
    }


@dataclass(frozen=True, eq=False)
class Original:
    """A log that releases are compared with; what follows from it is computed once.

    Attributes:
        name: What the page calls it.
        traces: All cases.
        columns: Source columns of the attributes that were read with it, by name.
        read_seconds: How long it took to read.
    """

    name: str
    traces: TraceBatch
    columns: Mapping[str, str] = field(default_factory=dict)
    read_seconds: float = 0.0

    @classmethod
    def read(
        cls,
        path: str,
        keys: Mapping[str, Any],
        columns_of: Callable[[ColumnMapping], Mapping[str, str]] = lambda _: {},
    ) -> Original:
        """Reads a log; malformed records are left out, as in a release.

        Args:
            path: Of the log, or a glob.
            keys: How it is read.
            columns_of: Returns the source columns of the attributes that are read with it, by name.

        Raises:
            UsageError: There is no case in it.
            InputSchemaError: It cannot be read, or lacks a column.
        """
        name, begun = name_of(path), time.perf_counter()
        source = source_of(load_log({"log": path, **keys}))
        columns = columns_of(source.mapping)
        mapping = replace(source.mapping, attributes=tuple(columns.items()))
        traces = replace(source, mapping=mapping).log()
        if not traces.n_cases:
            raise UsageError(f"log {name!r} has no case")
        return cls(name, traces, columns, time.perf_counter() - begun)

    @cached_property
    def normal(self) -> NormalBehaviour:
        """What distinguishes its normal traces from others."""
        return NormalBehaviour(self.variants)

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
        first, last = np.array(ends, "datetime64[us]").astype("datetime64[D]")
        return str(first), str(last)

    @cached_property
    def vocabulary(self) -> ActivityVocabulary:
        """The activities, and the one that a public vocabulary has for all others."""
        return ActivityVocabulary.public(self.names)

    @cached_property
    def side(self) -> Side:
        """Its cases, in the codes of `vocabulary`."""
        return Side.of(self.traces.recode(self.vocabulary))

    @property
    def variants(self) -> VariantHistogram:
        """The variants of whole cases, in the codes of `vocabulary`."""
        return self.side.variants

    @cached_property
    def cut(self) -> VariantHistogram:
        """The variants of cases that were cut, in the codes of `vocabulary`."""
        return VariantHistogram.from_traces(self.side.cases.truncate(self.max_length))

    def identity(self) -> dict[str, str | int]:
        """Returns the columns of rows that distinguish this log from others."""
        return {
            "log": self.name,
            "cases": self.traces.n_cases,
            "events": self.traces.n_events,
            "variants": self.variants.n_variants,
            "max_length": self.max_length,
        }

    def figures(self, released: VariantHistogram, traces: TraceBatch | None = None) -> Figures:
        """Returns the measures of a release, in the codes of `vocabulary`.

        Args:
            released: Its variants.
            traces: Its cases, or None: it has variants alone.
        """
        columns = COLUMNS["variants"] if traces is None else COLUMNS["variants"] + COLUMNS["log"]
        names = [name for name in dict.fromkeys(columns) if name in _MEASURED]
        return measured(self.side, Side(released, self.vocabulary, traces), names)


def name_of(path: str) -> str:
    """Returns what a log is called: its file without endings."""
    return Path(path).name.split(".")[0]


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
