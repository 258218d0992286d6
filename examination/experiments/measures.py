"""What the experiments on the k-anonymity family measure of a release, in all its perspectives.

The measures are those of `examination.measure.behaviour_measures`; here they become the figures of
a row. Every figure is exact about private data: for the operator only.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from tracecloak.examination.comparison.compare import Row
from tracecloak.examination.experiments.log import Log
from tracecloak.examination.experiments.paper import Released
from tracecloak.examination.measure import utility
from tracecloak.examination.measure.behaviour_measures import (
    behavioural_appropriateness,
    bottlenecks,
    data_utility,
    edges_of,
    graph_similarity,
    total_duration_error,
    truly_sampled,
)
from tracecloak.examination.measure.perspectives import PERSPECTIVES, has_resources, projected
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.background_knowledge import Perspective
from tracecloak.schemas.statistics.variants import VariantHistogram

_OF_GRAPHS = ("kept", "precision", "f_score", "occurrence_ratio")
_OF_SAMPLES = ("truly", "to_the_unit", "unsampled")
_OF_BOTTLENECKS = ("n_compared", "shared", "is_slowest_kept", "rank_correlation", "mean_error")
# What is measured of every perspective, on the log that is projected on it.
_PROJECTED = (
    "distinct_elements", "distinct_variants", "data_utility", "total_variation", "appropriateness",
    *(f"graph_{name}" for name in _OF_GRAPHS),
    *(f"sampled_{name}" for name in _OF_SAMPLES),
)  # fmt: skip


def measure(name: str, perspective: Perspective = "activity") -> str:
    """Returns what a figure of a perspective is called in a row."""
    return name if perspective == "activity" else f"{perspective}_{name}"


def perspectives_of(log: Log) -> tuple[Perspective, ...]:
    """Returns the perspectives that a log has: without resources just the one on activities."""
    return PERSPECTIVES if has_resources(log.traces) else PERSPECTIVES[:1]


def figures_of(log: Log, released: Released) -> Row:
    """Returns sizes, times and, for each perspective, what became of behaviour.

    A perspective that the log or the release lacks has None.

    Args:
        log: The log.
        released: A release of it that has cases.
    """
    assert released.traces is not None
    before, after = log.traces.recode(log.vocabulary), released.traces
    waits = bottlenecks(before, after)
    row: Row = {
        "released_cases": after.n_cases,
        "released_events": after.n_events,
        "released_variants": released.variants.n_variants,
        "cases_kept": after.n_cases / before.n_cases,
        "events_kept": after.n_events / before.n_events,
        "duration_error": total_duration_error(before, after),
        **{f"bottlenecks_{name}": _number(getattr(waits, name)) for name in _OF_BOTTLENECKS},
    }
    for perspective in PERSPECTIVES:
        is_there = perspective == "activity" or (has_resources(before) and has_resources(after))
        figures = _projected(before, after, perspective) if is_there else dict.fromkeys(_PROJECTED)
        row |= {measure(name, perspective): value for name, value in figures.items()}
    return row


def _projected(log: TraceBatch, release: TraceBatch, perspective: Perspective) -> dict[str, Any]:
    """The figures of _PROJECTED."""
    before, after = projected([log, release], perspective)
    nodes = np.unique(before.activities)
    graph = asdict(graph_similarity(edges_of(before), edges_of(after), nodes))
    sampled = truly_sampled(before, after)
    variants = [VariantHistogram.from_traces(side) for side in (before, after)]
    counts, released_counts, _ = utility.aligned_variants(*variants)
    return {
        "distinct_elements": len(np.unique(after.activities)),
        "distinct_variants": variants[1].n_variants,
        "data_utility": data_utility(before, after),
        "total_variation": utility.total_variation(counts, released_counts),
        "appropriateness": behavioural_appropriateness(before, after),
        **{f"graph_{name}": graph[name] for name in _OF_GRAPHS},
        **{f"sampled_{n}": None if sampled is None else getattr(sampled, n) for n in _OF_SAMPLES},
    }


def _number(value: float | bool | None) -> float | None:
    return None if value is None else float(value)
