"""What a page about a log shows: its map, its variants and its times, as JSON values.

Pure functions of published values. A page is small whatever the log's size: rare paths, variants
and the ends of very long ones are left out of it, and it says how many; the files have them all.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tracecloak.schemas.arrays.merging import sum_by_key
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.durations import ReleasedDurations
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.tree import ReleasedTree
from tracecloak.schemas.published.variants import ReleasedVariants, most_frequent_first
from tracecloak.schemas.statistics.directly_follows import DirectlyFollows
from tracecloak.schemas.statistics.log_times import BIN_EDGES_US, LogTimes, middle_of
from tracecloak.schemas.statistics.variants import VariantHistogram
from tracecloak.transforms.models.dfg_labels import plain_name

MAX_PATHS = 2000
MAX_VARIANTS = 300
_MAX_EVENTS = 120  # of a variant
_MAX_BARS = 48
_EPOCH = datetime.date(1970, 1, 1)
_MICROSECONDS = 1e-6

Medians = Mapping[tuple[int, int], float]


def graph_of_log(graph: DirectlyFollows, vocabulary: ActivityVocabulary) -> ReleasedGraph:
    """Returns the graph of a released log; its numbers have no intervals of their own."""
    return ReleasedGraph(
        vocabulary.names, graph.sources, graph.targets, graph.counts, graph.counts, graph.counts
    )


def graph_of_variants(variants: ReleasedVariants) -> ReleasedGraph:
    """Returns the graph of released variants, whose paths have no intervals of their own."""
    vocabulary = ActivityVocabulary(variants.names)
    words = DirectlyFollows.from_rows(variants.offsets, variants.codes, variants.counts, vocabulary)
    return graph_of_log(words, vocabulary)


def variants_of_log(variants: VariantHistogram, vocabulary: ActivityVocabulary) -> ReleasedVariants:
    """Returns the variants of a released log, the most frequent first."""
    return most_frequent_first(vocabulary.names, variants.offsets, variants.codes, variants.counts)


def map_data(graph: ReleasedGraph, medians: Medians) -> dict[str, Any]:
    """Returns activities and the most frequent paths of a graph.

    A path is doubtful if its interval reaches down to 0: what noise alone could have made.

    Args:
        graph: What was released.
        medians: About the median time in seconds of a path by the codes of its ends, if known.
    """
    passed = graph.throughputs()
    rows = np.sort(np.argsort(-graph.counts, kind="stable")[:MAX_PATHS])
    ends = np.concatenate([graph.sources[rows], graph.targets[rows], [graph.start, graph.end]])
    used, places = np.unique(ends, return_inverse=True)
    labels = graph.labels
    has_intervals = not np.array_equal(graph.lows, graph.highs)
    sources, targets = places[: len(rows)], places[len(rows) : 2 * len(rows)]
    edges = []
    for row, source, target in zip(rows.tolist(), sources, targets, strict=True):
        low, high = int(graph.lows[row]), int(graph.highs[row])
        median = medians.get((int(graph.sources[row]), int(graph.targets[row])))
        edges.append(
            {
                "source": int(source),
                "target": int(target),
                "count": int(graph.counts[row]),
                "low": low if has_intervals else None,
                "high": high if has_intervals else None,
                "doubtful": has_intervals and low <= 0,
                "median_s": None if median is None else float(f"{median:.3g}"),
            }
        )
    return {
        "nodes": [
            {"name": plain_name(labels[code]), "count": int(passed[code])} for code in used.tolist()
        ],
        "start": int(places[-2]),
        "end": int(places[-1]),
        "edges": edges,
        "n_left_out": len(graph.counts) - len(rows),
    }


def medians_of(durations: ReleasedDurations, graph: ReleasedGraph) -> dict[tuple[int, int], float]:
    """Returns about the median time in seconds of each path whose durations were released.

    Its ends are codes of the graph. The last bin has no upper border: durations in it count as its
    lower one.

    Args:
        durations: Whose activities are all among those of the graph.
        graph: Whose paths these are.
    """
    own = ActivityVocabulary(durations.names).labels
    # An activity that is called as the start or the end is comes before these.
    place = {name: code for code, name in reversed([*enumerate(graph.labels)])}
    edges = np.concatenate([[0], durations.edges_us, durations.edges_us[-1:]]) * _MICROSECONDS
    middles = np.sqrt(np.maximum(edges[:-1], 1e-3) * np.maximum(edges[1:], 1e-3))
    pairs = durations.sources.astype(np.int64) << 32 | durations.targets
    found = {}
    for pair in np.unique(pairs).tolist():
        rows = np.flatnonzero(pairs == pair)
        rows = rows[np.argsort(durations.bins[rows], kind="stable")]
        below = np.cumsum(durations.counts[rows])
        middle = rows[np.searchsorted(2 * below, below[-1])]
        source, target = (place[own[code]] for code in (pair >> 32, pair & 0xFFFFFFFF))
        found[source, target] = float(middles[durations.bins[middle]])
    return found


def variants_data(variants: ReleasedVariants, map_names: list[str]) -> dict[str, Any]:
    """Returns the most frequent variants, with codes that are those of a map where it has them.

    Args:
        variants: The most frequent first.
        map_names: Names of the activities of the map by code, "" for its start and end.
    """
    names = list(map_names)
    place = {name: code for code, name in enumerate(names) if name}
    words = [plain_name(name) for name in variants.names.to_pylist()]
    rows = []
    for i in range(min(variants.n_variants, MAX_VARIANTS)):
        first, last = variants.offsets[i], variants.offsets[i + 1]
        codes = []
        for code in variants.codes[first : min(last, first + _MAX_EVENTS)].tolist():
            if words[code] not in place:
                place[words[code]] = len(names)
                names.append(words[code])
            codes.append(place[words[code]])
        rows.append(
            {
                "codes": codes,
                "n_events": int(last - first),
                "count": int(variants.counts[i]),
                "low": None if variants.lows is None else int(variants.lows[i]),
                "high": None if variants.highs is None else int(variants.highs[i]),
            }
        )
    return {"names": names, "rows": rows, "n_cases": variants.n_cases}


def times_data(times: LogTimes, original: LogTimes | None = None) -> dict[str, Any]:
    """Returns durations of cases, beginnings by a fitting period, and hours of the week.

    Hours are None where all stamps are dates.

    Args:
        times: Of the released log.
        original: Of the log that it was made of, to stand beside it for its operator; None: no
            other numbers stand there.
    """
    both = times if original is None else LogTimes.merge([times, original])
    period, starts = _by_period(times, original, both)
    week = np.zeros(168, np.int64)
    week[times.hours] = times.hour_counts
    is_dates = len(times.hours) == 0 or not (times.hours % 24).any()
    return {
        "spans": _spans(times, original, both),
        "period": period,
        "starts": starts,
        "week": None if is_dates else week.tolist(),
        "median_s": middle_of(times.spans, times.span_counts) if len(times.spans) else None,
    }


def tree_data(tree: ReleasedTree) -> list[dict[str, Any]]:
    """Returns the nodes of a tree, parents before their children."""
    rows: list[dict[str, Any]] = tree.to_table().to_pylist()
    return [
        {
            "parent": row["parent"],
            "kind": row["kind"],
            "activity": None if row["activity"] is None else plain_name(row["activity"]),
        }
        for row in rows
    ]


def _spans(times: LogTimes, original: LogTimes | None, both: LogTimes) -> list[dict[str, Any]]:
    """Durations by bins of one ratio, so wide that they are not too many."""
    bins = both.spans
    if len(bins) == 0:
        return []
    borders = np.concatenate([[0], BIN_EDGES_US]) * _MICROSECONDS
    # The first bin, below a second, stays by itself.
    width = max(1, -(-int(bins[-1] - max(bins[0], 1) + 1) // _MAX_BARS))

    def grouped(of: LogTimes) -> dict[int, int]:
        groups = np.where(of.spans == 0, -1, (of.spans - 1) // width)
        kept, sums = sum_by_key(groups, of.span_counts)
        return dict(zip(kept.tolist(), sums.tolist(), strict=True))

    rows = []
    for group, counts in _side_by_side(grouped, times, original):
        first = 0 if group < 0 else 1 + group * width
        last = 1 if group < 0 else min(first + width, len(borders) - 1)
        ends = {"from_s": float(f"{borders[first]:.6g}"), "to_s": float(f"{borders[last]:.6g}")}
        rows.append({**ends, **counts})
    return rows


def _by_period(
    times: LogTimes, original: LogTimes | None, both: LogTimes
) -> tuple[str, list[dict[str, Any]]]:
    """Cases by day, week, month or year, by the range of the days."""
    days = both.days
    if len(days) == 0:
        return "day", []
    n_days = int(days[-1] - days[0]) + 1
    period = next(
        (name for name, limit in (("day", 62), ("week", 400), ("month", 4000)) if n_days <= limit),
        "year",
    )
    found = {day: _period(day, period) for day in days.tolist()}
    named = {first: (last, name) for first, last, name in found.values()}

    def grouped(of: LogTimes) -> dict[int, int]:
        firsts = np.array([found[day][0] for day in of.days.tolist()], np.int64)
        kept, sums = sum_by_key(firsts, of.day_counts)
        return dict(zip(kept.tolist(), sums.tolist(), strict=True))

    return period, [
        {"first_day": first, "last_day": named[first][0], "name": named[first][1], **counts}
        for first, counts in _side_by_side(grouped, times, original)
    ]


def _side_by_side(
    grouped: Callable[[LogTimes], dict[int, int]], times: LogTimes, original: LogTimes | None
) -> list[tuple[int, dict[str, int]]]:
    """The groups in order, each with its count and, where there is an original, that one's."""
    own = grouped(times)
    if original is None:
        return [(group, {"count": own[group]}) for group in sorted(own)]
    others = grouped(original)
    return [
        (group, {"count": own.get(group, 0), "original": others.get(group, 0)})
        for group in sorted(own.keys() | others.keys())
    ]


def _period(day: int, period: str) -> tuple[int, int, str]:
    """The first day of a day's period, the first one after it, and its name."""
    try:
        date = _EPOCH + datetime.timedelta(days=day)
        if period == "day":
            return day, day + 1, date.isoformat()
        if period == "week":
            monday = day - date.weekday()
            year, week, _ = date.isocalendar()
            return monday, monday + 7, f"{year}-W{week:02d}"
        if period == "month":
            first = date.replace(day=1)
            following = (first + datetime.timedelta(days=32)).replace(day=1)
            return (first - _EPOCH).days, (following - _EPOCH).days, f"{first:%Y-%m}"
        first = date.replace(month=1, day=1)
        return (
            (first - _EPOCH).days,
            (date.replace(month=12, day=31) - _EPOCH).days + 1,
            str(date.year),
        )
    except (OverflowError, ValueError):  # beyond the calendar of dates
        return day, day + 1, f"day {day} of 1970"
