"""What a page shows of graphs, trees, figures, variants and times, as JSON values."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tracecloak.schemas.arrays.merging import sum_by_key, sum_groups
from tracecloak.schemas.calendar.local_time import day_number, period_around
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.published.figures import (
    GRADES,
    LEGEND,
    Figure,
    ReleasedFigures,
    grades,
)
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.log_times import (
    BIN_EDGES_US,
    HOURS_OF_WEEK,
    SECOND_US,
    LogTimes,
    median_rows,
    middles,
)
from tracecloak.schemas.statistics.variants import DirectlyFollows
from tracecloak.transforms.models.dfg_svg import plain_name

if TYPE_CHECKING:
    from tracecloak.schemas.published.graph import ReleasedDurations, ReleasedGroups, ReleasedTree


# --- What a page shows of released figures, with intervals and grades, and of a graph or a tree. --
# The graph of a log is shown as a map, a tree by its nodes, as JSON values.
#
# Pure functions of published values. A page is small whatever the log's size: rare paths,
# variants and the ends of very long ones are left out of it, and it says how many; the files have
# them all.


MAX_PATHS = 2000
_MICROSECONDS = 1e-6

Medians = Mapping[tuple[int, int], float]


def graph_of_log(
    graph: DirectlyFollows, vocabulary: ActivityVocabulary, figures: ReleasedFigures | None = None
) -> ReleasedGraph:
    """Returns the graph of a released log, whose numbers have the intervals that figures give.

    Args:
        graph: The log's.
        vocabulary: What its codes mean.
        figures: Those of the log; of None, or of a path without one, both ends are its number.
    """
    labels, lows, highs = vocabulary.labels, graph.counts.copy(), graph.counts.copy()
    rows = () if figures is None else figures.rows()
    paths = {row.of: row for row in rows if row.name == "path"}
    for i, ends in enumerate(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)):
        row = paths.get((labels[ends[0]], labels[ends[1]]))
        if row is not None:
            lows[i], highs[i] = row.low, row.high
    return ReleasedGraph(vocabulary.names, graph.sources, graph.targets, graph.counts, lows, highs)


def graph_of_variants(variants: ReleasedVariants) -> ReleasedGraph:
    """Returns the graph of released variants, whose paths have no intervals of their own."""
    vocabulary = ActivityVocabulary(variants.names)
    words = DirectlyFollows.from_rows(variants.offsets, variants.codes, variants.counts, vocabulary)
    return graph_of_log(words, vocabulary)


def map_data(
    graph: ReleasedGraph,
    medians: Medians,
    figures: ReleasedFigures | None = None,
    *,
    is_graded: bool = False,
) -> dict[str, Any]:
    """Returns activities and the most frequent paths of a graph.

    A path is doubtful if its interval reaches down to 0: what noise alone could have made.

    Args:
        graph: What was released.
        medians: About the median time in seconds of a path by the codes of its ends, if known.
        figures: Of the same release, for a graded map: activities, start and end have the numbers
            of their figures, and a path its median time and the grade of that.
        is_graded: Whether it says how sure its numbers are: `grade` of each path, and of each
            activity with a figure.
    """
    passed = graph.throughputs()
    rows = np.sort(np.argsort(-graph.counts, kind="stable")[:MAX_PATHS])
    ends = np.concatenate([graph.sources[rows], graph.targets[rows], [graph.start, graph.end]])
    used, places = np.unique(ends, return_inverse=True)
    labels = [plain_name(label) for label in graph.labels]
    of_figures = figures.rows() if figures is not None and is_graded else ()
    known = {
        tuple(map(plain_name, row.of)): row
        for row in of_figures
        if row.name in ("activity", "cases", "median_time_us")
    }
    has_intervals = not np.array_equal(graph.lows, graph.highs)
    graded = grades(graph.counts, graph.lows, graph.highs).tolist()
    sources, targets = places[: len(rows)], places[len(rows) : 2 * len(rows)]
    edges = []
    for row, source, target in zip(rows.tolist(), sources, targets, strict=True):
        codes = int(graph.sources[row]), int(graph.targets[row])
        median, figure = medians.get(codes), known.get((labels[codes[0]], labels[codes[1]]))
        if figure is not None:
            median = figure.value * _MICROSECONDS
        low, high = int(graph.lows[row]), int(graph.highs[row])
        edges.append(
            {
                "source": int(source),
                "target": int(target),
                "count": int(graph.counts[row]),
                "low": low if has_intervals else None,
                "high": high if has_intervals else None,
                "doubtful": has_intervals and low <= 0,
                "median_s": None if median is None else float(f"{median:.3g}"),
                **({"grade": graded[row]} if is_graded else {}),
                **({"time_grade": figure.grade} if figure is not None else {}),
            }
        )
    nodes: list[dict[str, Any]] = []
    for code in used.tolist():
        nodes.append({"name": labels[code], "count": int(passed[code])})
        if total := known.get((labels[code],)):
            nodes[-1] |= {"count": total.value, "grade": total.grade}
        if code >= graph.start and (cases := known.get(())):
            nodes[-1]["count"] = cases.value
    return {
        "nodes": nodes,
        "start": int(places[-2]),
        "end": int(places[-1]),
        "edges": edges,
        "n_left_out": len(graph.counts) - len(rows),
        "n_activities_left_out": int(np.count_nonzero(np.delete(passed, used))),
    }


def tree_data(tree: ReleasedTree) -> list[dict[str, Any]]:
    """Returns the nodes of a tree, parents before their children."""
    rows: list[dict[str, Any]] = tree.to_table().drop_columns(["node"]).to_pylist()
    return [row | {"activity": row["activity"] and plain_name(row["activity"])} for row in rows]


def medians_of(durations: ReleasedDurations, graph: ReleasedGraph) -> dict[tuple[int, int], float]:
    """Returns about the median time in seconds of each path whose durations were released.

    Its ends are codes of the graph. The last bin has no upper border: durations in it count as its
    lower one.

    Args:
        durations: Whose activities are all among those of the graph.
        graph: Whose paths these are.
    """
    names = ActivityVocabulary(durations.names).labels
    # An activity that is called as the start or the end is comes before these.
    place = {name: code for code, name in reversed([*enumerate(graph.labels)])}
    edges = np.concatenate([[0], durations.edges_us, durations.edges_us[-1:]]) * _MICROSECONDS
    seconds = np.sqrt(np.maximum(edges[:-1], 1e-3) * np.maximum(edges[1:], 1e-3))
    pairs = durations.sources.astype(np.int64) << 32 | durations.targets
    rows = np.lexsort((durations.bins, pairs))
    rows = rows[median_rows(pairs[rows], durations.counts[rows])]
    ends = (of[rows].tolist() for of in (durations.sources, durations.targets))
    paths = ((place[names[a]], place[names[b]]) for a, b in zip(*ends, strict=True))
    return dict(zip(paths, seconds[durations.bins[rows]].tolist(), strict=True))


_DURATION = "_duration_us"
_N_ROWS = 200
_UNITS = ("day", 86400.0), ("hour", 3600.0), ("minute", 60.0), ("second", 1.0)


def figures_data(figures: ReleasedFigures) -> dict[str, Any]:
    """Returns totals, those of each activity, times, and the limit of what is hidden.

    Returns:
        `legend`, what the grades mean; `totals`, `activities`, the most frequent first, `times`,
        the surest first, and of a log `durations`, `waits`, likewise, and `starts`: lists of
        figures as they are printed, with name, text, kind and grade; `most_hidden`, the limit of a
        path that is not shown, as a text, empty where none is known.
    """
    rows = figures.rows()
    activities = sorted((r for r in rows if r.name == "activity"), key=lambda row: -row.value)
    times, waits = (
        sorted((row for row in rows if row.name == name), key=lambda row: GRADES.index(row.grade))
        for name in ("median_time_us", "mean_wait_us")
    )
    starts = [row for row in rows if row.name == "starts"]
    return {
        "legend": LEGEND,
        "totals": [_shown(row, row.name) for row in rows if row.name in ("cases", "events")],
        "activities": [_shown(row, plain_name(row.of[0])) for row in activities[:_N_ROWS]],
        "times": [_between(row) for row in times[:_N_ROWS]],
        "waits": [_between(row) for row in waits[:_N_ROWS]],
        "durations": [
            _shown(row, " ".join([row.name.removesuffix(_DURATION), *row.of]), duration_in_words)
            for row in rows
            if row.name.endswith(_DURATION)
        ],
        "starts": [_shown(row, " to ".join(row.of)) for row in starts[:_N_ROWS]],
        "most_hidden": next((f"{r.high:,}" for r in rows if r.name == "path_not_shown"), ""),
    }


def folded_map(groups: ReleasedGroups) -> dict[str, Any]:
    """Returns the map of groups, as `map_data` has that of activities, and which are in which.

    Returns:
        `map`; and `members`, the names of the activities by that of their group, of groups with
        several or whose name is another one, in the order of the groups.
    """
    shown = map_data(groups.graph, {}, is_graded=True)
    members: dict[str, list[str]] = {}
    for name, group in groups.members.items():
        members.setdefault(plain_name(group), []).append(plain_name(name))
    several = {group: names for group, names in sorted(members.items()) if names != [group]}
    return {"map": shown, "members": several}


def n_noise_of(variants: ReleasedVariants) -> int:
    """Returns how many numbers of variants are noise; none of those that have no intervals."""
    if variants.lows is None or variants.highs is None:
        return 0
    return grades(variants.counts, variants.lows, variants.highs).tolist().count("noise")


def duration_in_words(us: int) -> str:
    """Returns a time in the largest unit that it has one of, such as `3.2 hours`."""
    seconds = us * _MICROSECONDS
    if seconds < 1:
        return "at once"
    name, size = next(unit for unit in _UNITS if seconds >= unit[1])
    number = f"{seconds / size:,.1f}" if seconds < 9.95 * size else f"{seconds / size:,.0f}"
    number = number.removesuffix(".0")
    return f"{number} {name}{'' if number == '1' else 's'}"


def _between(figure: Figure) -> dict[str, str]:
    return _shown(figure, " → ".join(map(plain_name, figure.of)), duration_in_words)


def _shown(
    figure: Figure, name: str, words: Callable[[int], str] = "{:,}".format
) -> dict[str, str]:
    text = f"{words(figure.value)} ({words(figure.low)}\u2013{words(figure.high)})"
    return {"name": name, "text": text, "kind": figure.kind, "grade": figure.grade}


# ---
# What a page shows of the times of a log, as JSON values: how long cases take, when they begin.


NO_TIMES = (
    "Times are not part of this release. Its log has the order of the events of each case in "
    "event_index, and contains neither when a case begins nor how long anything takes."
)
"""What a page says in the place of times, see `manifest.has_times`."""
NO_STARTS = "All cases begin at one public time: when they began is not part of this release."
_MAX_BARS = 48

_EPOCH = datetime.date(1970, 1, 1)


def times_data(
    times: LogTimes, original: LogTimes | None = None, *, has_starts: bool = True
) -> dict[str, Any]:
    """Returns durations of cases, beginnings by a fitting period, and hours of the week.

    Hours are None where all stamps are dates.

    Args:
        times: Of the released log.
        has_starts: Whether it tells when cases begin; else there are no beginnings and no hours.
        original: Of the log that it was made of, to stand beside it for its operator; None: no
            other numbers stand there.
    """
    both = times if original is None else LogTimes.merge([times, original])
    median = median_rows(np.zeros_like(times.spans), times.span_counts)
    period, starts = _by_period(times, original, both)
    week = sum_groups(times.hours, times.hour_counts, HOURS_OF_WEEK)
    has_hours = has_starts and bool((times.hours % 24).any())
    return {
        "spans": _spans(times, original, both),
        "period": period,
        "starts": starts if has_starts else [],
        "week": week.tolist() if has_hours else None,
        "median_s": next(iter(middles(times.spans[median], SECOND_US).tolist()), None),
    }


def _spans(times: LogTimes, original: LogTimes | None, both: LogTimes) -> list[dict[str, Any]]:
    """Durations by bins of one ratio, so wide that they are not too many."""
    bins = both.spans
    if len(bins) == 0:
        return []
    borders = np.concatenate([[0], BIN_EDGES_US]) * _MICROSECONDS
    # The first bin, below a second, stays by itself.
    width = max(1, -(-int(bins[-1] - max(bins[0], 1) + 1) // _MAX_BARS))

    def grouped(of: LogTimes) -> tuple[np.ndarray, np.ndarray]:
        return np.where(of.spans == 0, -1, (of.spans - 1) // width), of.span_counts

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
    all_days = both.days
    if len(all_days) == 0:
        return "day", []
    n_days = int(all_days[-1] - all_days[0]) + 1
    period = next(
        (name for name, limit in (("day", 62), ("week", 400), ("month", 4000)) if n_days <= limit),
        "year",
    )
    periods = {day: _period(day, period) for day in all_days.tolist()}
    named = {first: (last, name) for first, last, name in periods.values()}

    def grouped(of: LogTimes) -> tuple[np.ndarray, np.ndarray]:
        return np.array([periods[day][0] for day in of.days.tolist()], np.int64), of.day_counts

    return period, [
        {"first_day": first, "last_day": named[first][0], "name": named[first][1], **counts}
        for first, counts in _side_by_side(grouped, times, original)
    ]


_Groups = Callable[[LogTimes], tuple[np.ndarray, np.ndarray]]


def _side_by_side(
    grouped: _Groups, times: LogTimes, original: LogTimes | None
) -> list[tuple[int, dict[str, int]]]:
    """The groups in order, each with its count and, where there is an original, that one's."""
    counts = {
        name: dict(zip(*map(np.ndarray.tolist, sum_by_key(*grouped(of))), strict=True))
        for name, of in (("count", times), ("original", original))
        if of is not None
    }
    groups: list[int] = sorted(set().union(*counts.values()))
    return [(g, {name: of.get(g, 0) for name, of in counts.items()}) for g in groups]


def _period(day: int, period: str) -> tuple[int, int, str]:
    """The first day of a day's period, the first one after it, and its name."""
    try:
        date = _EPOCH + datetime.timedelta(days=day)
        first, following, name = period_around(period, date)
        return day_number(first), day_number(following), name
    except (OverflowError, ValueError):  # beyond the calendar of dates
        return day, day + 1, f"day {day} of 1970"


# --- What a page shows of the variants of a log, as JSON values; see `figures_data`. --------------


MAX_VARIANTS = 300

_MAX_EVENTS = 120  # of a variant


def names_of_map(shown: dict[str, Any] | None) -> list[str]:
    """Returns the names of the activities of a map by code, "" for its start and end."""
    if shown is None:
        return []
    ends = (shown["start"], shown["end"])
    return ["" if i in ends else node["name"] for i, node in enumerate(shown["nodes"])]


def variants_data(
    variants: ReleasedVariants, map_names: list[str], figures: ReleasedFigures | None = None
) -> dict[str, Any]:
    """Returns the most frequent variants, with codes that are those of a map where it has them.

    Args:
        variants: The most frequent first.
        map_names: Names of the activities of the map by code, "" for its start and end.
        figures: Intervals of some of them, where they are those of a log.
    """
    known = {} if figures is None else {row.of: row for row in figures.rows()}
    texts = variants.names.to_pylist()
    names = list(map_names)
    place = {name: code for code, name in enumerate(names) if name}
    words = [plain_name(name) for name in texts]
    rows = []
    for i in range(min(variants.n_variants, MAX_VARIANTS)):
        first, last = variants.offsets[i], variants.offsets[i + 1]
        codes = []
        for code in variants.codes[first : min(last, first + _MAX_EVENTS)].tolist():
            if words[code] not in place:
                place[words[code]] = len(names)
                names.append(words[code])
            codes.append(place[words[code]])
        label = " → ".join(texts[code] for code in variants.codes[first:last].tolist())
        figure = known.get((label,))
        low, high = (None, None) if figure is None else (figure.low, figure.high)
        if variants.lows is not None and variants.highs is not None:
            low, high = int(variants.lows[i]), int(variants.highs[i])
        rows.append(
            {
                "codes": codes,
                "n_events": int(last - first),
                "count": int(variants.counts[i]),
                "low": low,
                "high": high,
            }
        )
    return {"names": names, "rows": rows, "n_cases": variants.n_cases}
