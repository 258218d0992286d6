"""Measures of behaviour: variants, pairs and perspectives of a released log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.stats import rankdata

from tracecloak.examination.measure.measures import edge_frequency_emd, variant_emd
from tracecloak.examination.measure.registry import Figures
from tracecloak.examination.measure.utility import PairWaits
from tracecloak.schemas.arrays.merging import sum_by_key
from tracecloak.schemas.events.declarations import Attribute, Declaration
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.background_knowledge import NO_ELEMENT, Knowledge, Perspective
from tracecloak.schemas.statistics.relations import ActivityRelations
from tracecloak.schemas.statistics.variants import DirectlyFollows, VariantHistogram

# --- The three perspectives on events: activities, resources, and both together. ------------------
# Rafiei, van der Aalst: Group-Based Privacy Preservation Techniques for Process Mining, section
# 3.2:
# a trace is projected on its activities, on its resources, or on pairs of the two. Projected traces
# are traces whose activities are the elements of the perspective, so everything that is counted or
# measured of activities is counted and measured of the others too.


# The name that the resource has in released logs, after the XES extension for organisations.
RESOURCE = "org:resource"
PERSPECTIVES: tuple[Perspective, ...] = ("activity", "resource", "activity_resource")


def known_alike(logs: Sequence[TraceBatch]) -> tuple[list[TraceBatch], Attribute]:
    """Returns logs in one vocabulary with their resources alone, and these as if declared.

    So a `Knowledge` of that attribute codes the elements of all of them alike.
    """
    vocabulary = ActivityVocabulary.merge([log.vocabulary for log in logs])
    resources = [resource_names(log) for log in logs]
    names = ActivityVocabulary.of(pc.drop_null(pa.concat_arrays(resources))).names.to_pylist()
    declaration = Declaration.model_construct(values=tuple(names))  # there may be any number
    return [
        replace(log.recode(vocabulary), attributes={RESOURCE: column})
        for log, column in zip(logs, resources, strict=True)
    ], Attribute(RESOURCE, declaration)


def resource_names(traces: TraceBatch) -> pa.Array:
    """Returns string[n_events], the resources; null for none, and where traces have no such."""
    values = traces.attributes.get(RESOURCE)
    return pa.nulls(traces.n_events, pa.string()) if values is None else values.cast(pa.string())


def has_resources(traces: TraceBatch) -> bool:
    """Whether some event has a resource."""
    return resource_names(traces).null_count < traces.n_events


def projected(logs: Sequence[TraceBatch], perspective: Perspective) -> list[TraceBatch]:
    """Projects logs on a perspective, the elements as activities of one vocabulary.

    Events without an element are left out, and so are cases of which nothing is left. Attributes
    are not carried. The names of the new activities tell them apart and are not for people.

    Args:
        logs: The logs, whose vocabularies may differ.
        perspective: What an element is.
    """
    known_logs, resource = known_alike(logs)
    known = Knowledge("sequence", perspective, "seconds", resource)
    codes = [known.codes(log) for log in known_logs]
    used = np.unique(np.concatenate(codes))
    used = used[used != NO_ELEMENT]
    # Names of one length, so that their order is that of the codes.
    vocabulary = ActivityVocabulary(pa.array([f"{code:020}" for code in used], pa.string()))
    plain: dict[str, Any] = {"vocabulary": vocabulary, "individuals": None, "attributes": {}}
    return [
        replace(log, activities=np.searchsorted(used, own).astype(np.int32), **plain).events_where(
            own != NO_ELEMENT
        )
        for log, own in zip(logs, codes, strict=True)
    ]


# --- How well a released log keeps behaviour: the measures of the papers on TLKC and on PRETSA. ---
# Rafiei, van der Aalst: Group-Based Privacy Preservation Techniques for Process Mining, section
# 6; and the paper on PRETSA with learnt distances, section 4.2. What they measure of activities
# is measured of resources, and of pairs of the two, on projected logs
# (`examination.measure.behaviour_measures`).
#
# Every figure is exact about private data: for the operator, not for publication. Pure functions
# of arrays and traces; both sides of a comparison are of one vocabulary.


# An arc with less than this share of all directly-follows pairs is no bottleneck: the mean of a few
# durations says little.
FREQUENT_SHARE = 0.01
N_BOTTLENECKS = 5
_HOUR_US = 3_600_000_000
_HOURS_PER_MONTH = 720  # thirty days, as in Table 7 of the Amun paper
# A table of all pairs of so many elements takes some 100 MB.
_MOST_ELEMENTS = 2_000


def edges_of(traces: TraceBatch) -> DirectlyFollows:
    """Returns how often each pair follows directly, without START and END."""
    return DirectlyFollows.from_traces(traces).inner(traces.vocabulary)


def hours_of_edges(traces: TraceBatch) -> DirectlyFollows:
    """Returns the total hours of each pair that follows directly, in place of its counts.

    Each duration is floored to whole hours before, as the Amun paper's code does.
    """
    later = np.flatnonzero(~traces.is_first)
    codes = traces.activities.astype(np.int64)
    pairs = codes[later - 1] << 32 | codes[later]
    keys, hours = sum_by_key(pairs, traces.durations[later] // _HOUR_US)
    sources, targets = (ends.astype(np.int32) for ends in (keys >> 32, keys & 0xFFFFFFFF))
    return DirectlyFollows(sources, targets, hours)


def edge_time_emd(a: TraceBatch, b: TraceBatch) -> float:
    """Returns the earth mover's distance of the edges' total durations, in months of 720 hours.

    "EMD Time" in Table 7 of the Amun paper: as `edge_frequency_emd`, on the total hours per edge
    that `hours_of_edges` returns. From 0 upwards; it grows with the size of the logs.

    Blind to which edge has which total, to how the total is spread over events, and to events that
    follow within an hour, as these count 0 hours.
    """
    return edge_frequency_emd(*map(hours_of_edges, (a, b))) / _HOURS_PER_MONTH


def data_utility(a: TraceBatch, b: TraceBatch, max_cells: int = 6_000_000) -> float | None:
    """Returns 1 minus the earth mover's distance of the variants: from 0 to 1, the same shares.

    TLKC paper, section 6.2.2 (of resources section 6.3.2): du(EL, EL') = 1 - min over reallocations
    of the normalised Levenshtein distance moved. Blind to the number of cases and to time; cases of
    which a projection leaves nothing are not there.

    Args:
        a: The original.
        b: The released log.
        max_cells: See `examination.measure.measures.variant_emd`; beyond, None is returned.
    """
    before, after = map(VariantHistogram.from_traces, (a, b))
    distance = variant_emd(before, after, max_cells)
    return None if distance is None else 1.0 - distance


# --- Graphs ---------------------------------------------------------------------------------------


def graph_similarity(a: DirectlyFollows, b: DirectlyFollows, nodes: np.ndarray) -> Figures:
    """Compares directly-follows graphs by their edges.

    After the TLKC paper, F_dfg, P_dfg and F1_dfg of section 6.4 and, of resources, F_sn, P_sn and
    F1_sn of section 6.3.1. Its F lets what one edge has too much make up for what another has too
    little and can exceed 1, as can the F1 made of it, so it is here the `occurrence_ratio`, and the
    F-score is of `kept` and the precision: where no edge has more than before, they are the
    paper's. Nodes that only the release has are not looked at. An original without an edge keeps
    all.

    Args:
        a: Edges of the original.
        b: Edges of the release.
        nodes: int32[n], the codes that the original has.

    Returns:
        `kept`: from 0 to 1, the smaller of both counts of each of the original's edges, as a share
        of its occurrences there. `precision`: from 0 to 1, of the pairs of nodes that the original
        does not join, the share that the release does not join either; 1 if the original joins all.
        `f_score`: the harmonic mean of the two. `occurrence_ratio`: occurrences, in the release, of
        the original's edges, over those in the original. The paper calls it fitness; it is above 1
        if the release has more of them.
    """
    counts_a, counts_b = a.beside(b)
    total = counts_a.sum()
    common = np.minimum(counts_a, counts_b).sum()
    share_kept = float(common / total) if total else 1.0
    n_joined = int((counts_a > 0).sum())
    is_known = np.isin(b.sources, nodes) & np.isin(b.targets, nodes) & (b.counts > 0)
    known_edges = DirectlyFollows(b.sources[is_known], b.targets[is_known], b.counts[is_known])
    n_joined_by_one = int(np.logical_or(*(c > 0 for c in a.beside(known_edges))).sum())
    n_free = len(nodes) ** 2 - n_joined
    precision = (len(nodes) ** 2 - n_joined_by_one) / n_free if n_free else 1.0
    both = share_kept + precision
    return {
        "kept": share_kept,
        "precision": float(precision),
        "f_score": float(2 * share_kept * precision / both) if both else 0.0,
        "occurrence_ratio": float(counts_b[counts_a > 0].sum() / total) if total else 1.0,
    }


def bottlenecks(
    a: TraceBatch, b: TraceBatch, n: int = N_BOTTLENECKS, frequent_share: float = FREQUENT_SHARE
) -> Figures:
    """Compares the slowest arcs of the performance-annotated directly-follows graphs.

    TLKC paper, section 6.4: the original is projected on the activities that the release has, and
    the arcs are annotated with mean durations. The paper then looks at two pictures with their
    rarest paths left out; here a bottleneck is one of the `n` slowest arcs among those with at
    least `frequent_share` of all directly-follows pairs of its log.

    Args:
        a: The original.
        b: The released log; its stamps must be times.
        n: Bottlenecks to compare.
        frequent_share: From 0 to 1.

    Returns:
        `n_compared`: how many bottlenecks of each log are compared. `shared`: the share of the
        original's bottlenecks that are the release's too. `is_slowest_kept`: 1 if the slowest arc
        is the same, else 0; both are None without any. `rank_correlation`: Spearman's, of the mean
        durations of the frequent arcs of the original that the release has; None if there are fewer
        than three or all are equal. `mean_error`: the mean difference of these mean durations as a
        share of the original's, each arc weighed by its frequency; None if none takes time.
    """
    common = a.events_where(np.isin(a.activities, b.activities))
    arcs_a, arcs_b = map(PairWaits.of, (common, b))
    frequent = arcs_a.counts >= frequent_share * arcs_a.counts.sum()
    slow_a, slow_b = (_slowest(arcs, n, frequent_share) for arcs in (arcs_a, arcs_b))
    _, in_a, in_b = np.intersect1d(arcs_a.keys[frequent], arcs_b.keys, True, True)
    before, after = arcs_a.means_us[frequent][in_a], arcs_b.means_us[in_b]
    is_any = len(slow_a) > 0
    return {
        "n_compared": len(slow_a),
        "shared": float(np.isin(slow_a, slow_b).mean()) if is_any else None,
        "is_slowest_kept": float(slow_a[:1].tolist() == slow_b[:1].tolist()) if is_any else None,
        "rank_correlation": _rank_correlation(before, after),
        "mean_error": _relative_difference(before, after, arcs_a.counts[frequent][in_a]),
    }


def _slowest(arcs: PairWaits, n: int, frequent_share: float) -> np.ndarray:
    """The keys of the slowest frequent arcs, the slowest first; of equal ones the smaller."""
    frequent = arcs.counts >= frequent_share * arcs.counts.sum()
    order = np.argsort(-arcs.means_us[frequent], kind="stable")
    return arcs.keys[frequent][order[:n]]


def _rank_correlation(a: np.ndarray, b: np.ndarray) -> float | None:
    if len(a) < 3 or (a == a[0]).all() or (b == b[0]).all():
        return None
    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])


def _relative_difference(a: np.ndarray, b: np.ndarray, weights: np.ndarray) -> float | None:
    total = (a * weights).sum()
    return float((np.abs(a - b) * weights).sum() / total) if total else None


# --- Relations ------------------------------------------------------------------------------------

_NEVER, _SOMETIMES, _ALWAYS, _UNKNOWN = range(4)


def behavioural_appropriateness(a: TraceBatch, b: TraceBatch) -> float | None:
    """Returns the share of relations between activities that both logs have, from 0 to 1.

    Advanced behavioural appropriateness (Rozinat, van der Aalst: Conformance checking of processes
    based on monitoring real behavior, 2008) as section 4.2 of the PRETSA paper takes it: of each
    ordered pair of activities, whether the one always, sometimes or never follows the other, at any
    distance, and always, sometimes or never precedes it, in the cases that have the other. The
    share of equal ones is taken over all pairs of the activities of either log, both directions; to
    an activity that a log lacks it has no relation, which equals none. Two empty logs are equal.

    Blind to frequencies: one case makes always to sometimes.

    Returns:
        None if the vocabulary has more than 2,000 names.
    """
    if len(a.vocabulary) > _MOST_ELEMENTS:
        return None
    tables = [_relations(side) for side in (a, b)]
    used = np.unique(np.concatenate([a.activities, b.activities]))
    if not len(used):
        return 1.0
    first, second = (table[:, used[:, None], used] for table in tables)
    return float(((first == second) & (first != _UNKNOWN)).mean())


def _relations(traces: TraceBatch) -> np.ndarray:
    """int[2, n, n]: how y follows x, at [0, x, y]; and how x precedes y, at [1, x, y]."""
    table = ActivityRelations.from_traces(traces).table(traces.vocabulary)
    together, cases = table[:-2], table[-2]
    follows = np.full((2, len(cases), len(cases)), _SOMETIMES)
    follows[:, together == 0] = _NEVER
    follows[0][(together == cases[:, None]) & (together > 0)] = _ALWAYS
    follows[1][(together == cases) & (together > 0)] = _ALWAYS
    absent = cases == 0
    follows[:, absent, :] = _UNKNOWN
    follows[:, :, absent] = _UNKNOWN
    return follows


def truly_sampled(a: TraceBatch, b: TraceBatch) -> Figures:
    """Judges the released log as if it were a sample of the original.

    Truly sampled behaviour (Knols, van der Werf: Measuring the behavioral quality of log sampling,
    2019), used in section 4.2 of the PRETSA paper. The sample ratio of a directly-follows pair is
    its count in the release over that in the original; expected is the ratio of the numbers of
    cases. The standard deviation is that of all sample ratios, so a release that distorts
    everything has a wide band: `to_the_unit` asks for the expected count itself.

    Returns:
        Shares of the original's directly-follows pairs, None if it has none. `truly`: their sample
        ratio is within a standard deviation of the expected one, and not 0. `to_the_unit`: their
        count is the expected one, rounded up or down. `unsampled`: the release has none of them.
    """
    counts_a, counts_b = edges_of(a).beside(edges_of(b))
    known = counts_a > 0
    counts_a, counts_b = counts_a[known], counts_b[known]
    if not len(counts_a):
        return dict.fromkeys(("truly", "to_the_unit", "unsampled"))
    ratios, expected = counts_b / counts_a, b.n_cases / a.n_cases
    # What the comparison of two rounded numbers may miss.
    band = float(ratios.std()) + 1e-12
    return {
        "truly": float(((np.abs(ratios - expected) <= band) & (counts_b > 0)).mean()),
        "to_the_unit": float((np.abs(counts_b - expected * counts_a) < 1 - 1e-9).mean()),
        "unsampled": float((counts_b == 0).mean()),
    }


def total_duration_error(a: TraceBatch, b: TraceBatch) -> float | None:
    """Returns |T' - T| / T of the total times that all traces take from first to last event.

    Total duration error, section 4.2 of the PRETSA paper. From 0 upwards; a release of half the
    cases that are right has 0.5. Blind to which activity or case takes how long.

    Returns:
        None if the original takes no time.
    """
    total_a, total_b = (float(side.durations.sum(dtype=np.float64)) for side in (a, b))
    return abs(total_b - total_a) / total_a if total_a else None
