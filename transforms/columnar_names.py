"""The names of columnar values on the wire, and where the class of each lies.

Importing this module registers the names, so whatever keeps or sends a value imports it.
"""

from __future__ import annotations

from typing import Any

from tracecloak.schemas.arrays.columnar import name_classes
from tracecloak.schemas.plugins import Plugins

_REMOVED = (
    *("case-spans", "graph-clips", "handover-counts", "longest-steps", "log-times"),
    *("propensities", "released-indicators", "step-durations"),
)

COLUMNAR: Plugins[type[Any]] = Plugins(
    "columnar value",
    "tracecloak.columnar",
    {
        "activity-counts": "tracecloak.schemas.statistics.variants:ActivityCounts",
        "activity-relations": "tracecloak.schemas.statistics.relations:ActivityRelations",
        "activity-vocabulary": "tracecloak.schemas.events.events:ActivityVocabulary",
        "amun-compression": "tracecloak.anonymizers.amun.method:CompressionDecision",
        "amun-dafsa": "tracecloak.anonymizers.amun.method:DafsaDecision",
        "amun-filter": "tracecloak.anonymizers.amun.method:FilterDecision",
        "amun-sampling": "tracecloak.anonymizers.amun.method:SamplingDecision",
        "amun-selection": "tracecloak.anonymizers.amun.method:SelectionDecision",
        "attribute-shares": "tracecloak.anonymizers.logs.attributes:AttributeDecision",
        "binned-spans": "tracecloak.anonymizers.times.case_spans:SpansDecision",
        "binned-steps": "tracecloak.anonymizers.times.step_durations:DurationsDecision",
        "bought-clip": "tracecloak.anonymizers.rigorous.clips:ClipDecision",
        "bought-groups": "tracecloak.anonymizers.indicators.figures:GroupsDecision",
        "bought-length": "tracecloak.anonymizers.rigorous.bought:LengthDecision",
        "bought-longest-time": "tracecloak.anonymizers.indicators.figures:LongestTimeDecision",
        "bought-time-range": "tracecloak.anonymizers.times.time_range:TimeRangeDecision",
        "bought-vocabulary": "tracecloak.anonymizers.rigorous.bought:VocabularyDecision",
        "case-events": "tracecloak.schemas.streams.open_cases:CaseEvents",
        "case-months": "tracecloak.anonymizers.times.time_range:CaseMonths",
        "case-norms": "tracecloak.schemas.statistics.clipped_flows:CaseNorms",
        "case-ranks": "tracecloak.schemas.arrays.sequences:CaseRanks",
        "case-sketch": "tracecloak.anonymizers.contract.case_digests:CaseSketch",
        "case-starts": "tracecloak.anonymizers.times.case_starts:StartsDecision",
        "case-tables": "tracecloak.anonymizers.times.case_times:TablesDecision",
        "case-times": "tracecloak.anonymizers.times.case_times:CaseTimes",
        "cell-sums": "tracecloak.anonymizers.indicators.summands:CellSums",
        "chosen-points": "tracecloak.anonymizers.indicators.quantiles:PointsDecision",
        "clipped-cells": "tracecloak.schemas.statistics.clipped_flows:ClippedCells",
        "clipped-flows": "tracecloak.schemas.statistics.clipped_flows:ClippedFlows",
        "closed-cases": "tracecloak.schemas.streams.stream_caps:ClosedCases",
        "closed-keys": "tracecloak.schemas.streams.open_cases:ClosedKeys",
        "closed-run": "tracecloak.schemas.streams.open_cases:ClosedRun",
        "counted-cases": "tracecloak.schemas.streams.stream_caps:CountedCases",
        "counted-units": "tracecloak.anonymizers.contract.case_digests:CountedUnits",
        "dafsa": "tracecloak.schemas.statistics.variants:Dafsa",
        "decision": "tracecloak.anonymizers.contract.method:Decision",
        "directly-follows": "tracecloak.schemas.statistics.variants:DirectlyFollows",
        "duration-index": "tracecloak.schemas.statistics.durations:DurationIndex",
        "duration-table": "tracecloak.schemas.statistics.durations:DurationTable",
        "generated-variants": "tracecloak.anonymizers.variants.generator:VariantsDecision",
        "granularity": "tracecloak.anonymizers.times.case_spans:GranularityDecision",
        "graph": "tracecloak.anonymizers.graphs.graph_kinds:GraphDecision",
        "graph-kind": "tracecloak.anonymizers.graphs.graph_kinds:ClipsDecision",
        "handover-shares": "tracecloak.anonymizers.logs.attributes:HandoverDecision",
        "input-digest": "tracecloak.anonymizers.contract.case_digests:InputDigest",
        "k-anonymous-events": "tracecloak.anonymizers.tlkc.k_anonymous_variants:EventsDecision",
        "k-follows": "tracecloak.schemas.statistics.relations:KFollows",
        "kept-counts": "tracecloak.anonymizers.streams.count_steps:KeptCounts",
        "kept-variants": "tracecloak.anonymizers.streams.variant_steps:KeptVariants",
        "known-cases": "tracecloak.schemas.statistics.background_knowledge:KnownCases",
        "times-of-log": "tracecloak.schemas.statistics.log_times:LogTimes",
        "measured-variants": ("tracecloak.anonymizers.variants.method:MeasuredVariantsDecision"),
        "noisy-cell-sums": "tracecloak.anonymizers.indicators.figures:NoisySums",
        "noisy-counts": "tracecloak.anonymizers.rigorous.parts_method:NoisyCounts",
        "open-cases": "tracecloak.schemas.streams.open_cases:OpenCases",
        "pair-factors": "tracecloak.anonymizers.times.fitted_times:PairFactors",
        "pair-graph": "tracecloak.anonymizers.queries.pair_query:DfgDecision",
        "pair-times": "tracecloak.anonymizers.times.case_spans:PairTimesDecision",
        "pappi-aggregates": "tracecloak.anonymizers.indicators.pappi:AggregatesDecision",
        "parts": "tracecloak.anonymizers.contract.method:PartsDecision",
        "periods": "tracecloak.anonymizers.times.case_starts:Periods",
        "pretsa-merging": "tracecloak.anonymizers.pretsa.method:MergingDecision",
        "pretsa-places": "tracecloak.anonymizers.pretsa.method:PlacesDecision",
        "pretsa-variants": "tracecloak.anonymizers.pretsa.method:VariantsDecision",
        "pripel-contents": "tracecloak.anonymizers.queries.pripel_enrichment:ContentsDecision",
        "pripel-query": "tracecloak.anonymizers.queries.pripel_enrichment:QueryDecision",
        "products": "tracecloak.anonymizers.contract.method:Products",
        "read-tally": "tracecloak.schemas.events.tally:ReadTally",
        "released-durations": "tracecloak.schemas.published.graph:ReleasedDurations",
        "released-figures": "tracecloak.schemas.published.figures:ReleasedFigures",
        "released-graph": "tracecloak.schemas.published.graph:ReleasedGraph",
        "released-groups": "tracecloak.schemas.published.graph:ReleasedGroups",
        "graded-indicators": "tracecloak.schemas.published.figures:ReleasedIndicators",
        "released-measures": "tracecloak.schemas.published.figures:ReleasedMeasures",
        "released-tree": "tracecloak.schemas.published.graph:ReleasedTree",
        "released-variants": "tracecloak.schemas.published.variants:ReleasedVariants",
        "service-times": "tracecloak.anonymizers.logs.service_times:ServiceDecision",
        "start-range": "tracecloak.schemas.statistics.log_times:StartRange",
        "statistics": "tracecloak.schemas.arrays.merging:Statistics",
        "step-log": "tracecloak.schemas.published.step:StepLog",
        "step-sums": "tracecloak.anonymizers.times.fitted_times:StepSums",
        "time-bins": "tracecloak.anonymizers.times.time_bins:TimeBins",
        "time-range": "tracecloak.anonymizers.times.time_range:TimeRange",
        "tlkc-suppression": "tracecloak.anonymizers.tlkc.method:SuppressionDecision",
        "trace-lengths": "tracecloak.schemas.statistics.variants:TraceLengths",
        "traces": "tracecloak.schemas.events.traces:TraceBatch",
        "tree": "tracecloak.anonymizers.trees.process_tree:TreeDecision",
        "trie": "tracecloak.schemas.statistics.variants:Trie",
        "variant-histogram": "tracecloak.schemas.statistics.variants:VariantHistogram",
        "working-time": "tracecloak.schemas.calendar.working_time:WorkingTime",
        "yield": "tracecloak.schemas.published.manifest:Yield",
    },
    removed=dict.fromkeys(_REMOVED, ""),
    own_name="wire_name",
)
"""Where each columnar class is, by its `wire_name`.

A decision that is kept and the state of a stream may be read by a later version, and noise depends
on digests: a name and the fields that it stands for are never changed.
"""

name_classes(COLUMNAR)
