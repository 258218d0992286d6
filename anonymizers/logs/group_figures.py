"""The graph of groups of activities: as the released log has it, with what was counted beside it.

As of arcs of activities (`log_figures`), the sum of a step between groups is over cases that were
scaled down, and is raised by what its step has in the released log before and after that.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.logs.estimates import Z95, figure_within, of_clipped
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published import measures as sums
from tracecloak.schemas.published.figures import MEASURED, wider_ends
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.groups import ReleasedGroups
from tracecloak.schemas.published.measures import ReleasedMeasures
from tracecloak.schemas.statistics.group_cells import PARTS, GroupCells, GroupVectors
from tracecloak.schemas.statistics.variants import VariantHistogram


def groups_of_log(
    measures: ReleasedMeasures, variants: VariantHistogram, names: ActivityVocabulary
) -> ReleasedGroups:
    """Returns the groups of a released log and their graph.

    Args:
        measures: The sums, those of groups among them.
        variants: Of the released log.
        names: What their codes mean.
    """
    members = {row.of[0]: row.of[1] for row in measures.rows(sums.GROUP)}
    groups = ActivityVocabulary.of(sorted(set(members.values())))
    whole, clipped = _steps(measures, variants, names, groups, members)
    n, labels = len(groups), groups.labels
    starts = {label: code for code, label in enumerate(labels) if code != groups.end}
    rows = {row.of: row for row in measures.rows(sums.STEP)}
    threshold = math.sqrt(math.log(n * (n + 1) + 1))
    limits = (one.value + Z95 * one.deviation for one in measures.rows(sums.STEP_NOT_SHOWN))
    of_hidden = 0.0, max(limits, default=math.inf)
    edges = []
    for source, target in zip(*np.nonzero(whole), strict=True):
        ends = labels[source], labels[groups.end if target == n else target]
        row, count = rows.get(ends), float(whole[source, target])
        low, high = of_hidden  # of a step that no drawn case had, as of all others of these
        if row is not None:
            estimate = of_clipped(row, count, float(clipped[source, target]))
            low, high = estimate.ends_of_shown(row.value / row.deviation - threshold)
        figure = figure_within("path", ends, count, (low, high), MEASURED)
        code = groups.end if target == n else int(target)
        edges.append((starts[ends[0]], code, figure.value, figure.low, figure.high))
    columns = np.array(sorted(edges), np.int64).reshape(-1, 5).T
    columns[3:] = wider_ends(columns[2], columns[3], columns[4])
    graph = ReleasedGraph(groups.names, *columns[:2].astype(np.int32), *columns[2:])
    activities, of = (pa.array(list(column), pa.string()) for column in (members, members.values()))
    return ReleasedGroups(activities, of, graph)


def _steps(
    measures: ReleasedMeasures,
    variants: VariantHistogram,
    names: ActivityVocabulary,
    groups: ActivityVocabulary,
    members: dict[str, str],
) -> tuple[np.ndarray, np.ndarray]:
    """How often a released log goes from group to group, and how often its clipped cases do.

    Returns:
        float64[n+1, n+1] twice: START is the last source, and END the last target.
    """
    [clip] = (row.value for row in measures.rows(sums.GROUP_CLIP))
    begins = [int(row.value) for row in measures.rows(sums.GROUP_POSITION)]
    longest = int(np.diff(variants.offsets).max(initial=0))
    bins = np.searchsorted(begins, np.arange(longest + 1), side="right") - 1
    cells = GroupCells(len(groups), bins)
    of_name = pa.array([members[name] for name in names.names.to_pylist()], pa.string())
    codes = groups.codes(of_name)
    vectors = GroupVectors.of(variants, codes, cells)
    norms = np.sqrt(vectors.squares.astype(np.float64))
    scales = np.minimum(1.0, clip * PARTS / np.maximum(norms, 1.0))
    size = cells.first_bin + cells.side  # after the steps, what cases begin with
    is_step = vectors.keys < size
    rows, keys = vectors.rows[is_step], vectors.keys[is_step]
    counts = (vectors.counts[is_step] / cells.weights[keys]) * variants.counts[rows]
    shape = cells.side, cells.side
    whole, clipped = (
        np.bincount(keys, values, size).reshape(shape) for values in (counts, counts * scales[rows])
    )
    return np.rint(whole), clipped
