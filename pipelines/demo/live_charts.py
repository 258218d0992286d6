"""Pictures of what a stream publishes: the graph of a step, its edges as bars, and all its steps.

All are SVG texts for a page that allows no style, script or address in them. What they say follows
from the releases: counts with noise, and errors that are public. Names are data and are escaped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from xml.sax.saxutils import escape

import numpy as np

from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.evidence import EXPECTED_FALSE, evidence_of
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.step import StepRelease
from tracecloak.transforms.models.dfg_labels import elide, isolated, plain_name
from tracecloak.transforms.models.dfg_svg import write_svg

# Half of the 95 % interval of a sum of many cells, in standard deviations: it is nearly normal,
# whatever the noise of each.
_Z = 1.96
_MAX_BARS = 15
_FONT_STYLE = re.compile(r'^(<svg [^>]*?) style="[^"]*"')

_INK, _FAINT, _BAR, _LINE = "#1c2b3a", "#52616f", "#a9c6e3", "#47688c"
_PALE = "#e3edf6"  # of what is doubtful, and of intervals along a line
_SIZE = 12.0  # of letters, in pixels
# Of charts by step, in pixels: the axes, and beside them room for words.
_LEFT, _RIGHT, _WIDTH, _HEIGHT, _BELOW = 60.0, 760.0, 900.0, 170.0, 22.0


@dataclass(frozen=True, eq=False)
class ShownGraph:
    """The edges of a step that are worth a look.

    Attributes:
        graph: The edges, with their counts and 95 % intervals.
        is_doubtful: bool[n_edges], those that may well be noise alone.
    """

    graph: ReleasedGraph
    is_doubtful: np.ndarray


def shown_graph(release: StepRelease) -> ShownGraph:
    """Returns the edges that noise alone hardly makes, and doubtful ones between their activities.

    Which are which is decided for all cells together (`schemas.published.evidence`). Nothing is
    left of the rest: most counts of a public alphabet are zero, and noise makes half of these
    positive. Of doubtful edges those stay whose activities have sure edges as well.
    """
    found = evidence_of(release)
    start, end = ActivityVocabulary.of([]).labels
    reached = {
        start,
        end,
        *(name for i in np.flatnonzero(found.is_sure) for name in release.cells[i]),
    }
    near = np.fromiter((reached.issuperset(cell) for cell in release.cells), bool)
    vocabulary = ActivityVocabulary.of(reached - {start, end})
    codes = {label: code for code, label in enumerate(vocabulary.labels)}
    rows = np.flatnonzero(found.is_sure | (found.is_doubtful & near))
    pairs = [(codes[release.cells[i][0]], codes[release.cells[i][1]]) for i in rows.tolist()]
    order = sorted(range(len(pairs)), key=pairs.__getitem__)
    rows = rows[order]
    counts, half = release.counts[rows], found.half_widths[rows]
    sources, targets = np.array([pairs[i] for i in order], np.int32).reshape(-1, 2).T
    lows = np.maximum(counts - half, 0)
    graph = ReleasedGraph(vocabulary.names, sources, targets, counts, lows, counts + half)
    return ShownGraph(graph, found.is_doubtful[rows])


@dataclass(frozen=True)
class Total:
    """The number of cases that a step, or several, published counts of.

    Attributes:
        step: The last step that is counted.
        count: Cases, each as far as the clip lets it count; with noise, so it may be negative.
        error: Standard deviation of the noise in it.
    """

    step: int
    count: float
    error: float


def total_of(release: StepRelease) -> Total:
    """Returns the number of cases of a graph.

    Each case begins and ends once, so the edges from the start and those into the end both add up
    to it. Their noise is independent, and that of the mean of both sums is less.
    """
    start, end = ActivityVocabulary.of([]).labels
    sums = [
        [i for i, cell in enumerate(release.cells) if cell[at] == label]
        for at, label in ((0, start), (1, end))
    ]
    rows = sums[0] + sums[1]
    error = math.hypot(*release.standard_errors[rows].tolist()) / 2
    return Total(release.step, float(release.counts[rows].sum()) / 2, error)


def totals_of(views: Mapping[str, Sequence[StepRelease]]) -> list[Total]:
    """Returns the number of cases so far after each step; none where it was not published.

    Totals are taken as they are. Windows are added up from step 0 to the first that is missing;
    their noise is independent.

    Args:
        views: The releases of each view, in the order of their steps.
    """
    if "total" in views:
        return [total_of(release) for release in views["total"]]
    totals: list[Total] = []
    count, variance = 0.0, 0.0
    for step, release in enumerate(views.get("window", ())):
        if release.step != step:
            break
        own = total_of(release)
        count, variance = count + own.count, variance + own.error**2
        totals.append(Total(step, count, math.sqrt(variance)))
    return totals


def graph_picture(release: StepRelease) -> str:
    """Draws the graph of a step."""
    shown = shown_graph(release)
    caption = (
        f"epsilon {release.epsilon}, delta {release.delta} for the whole horizon. All "
        f"{len(release.cells):,} possible pairs are decided together: noise alone makes "
        f"{EXPECTED_FALSE:g} solid edges on average at most. What noise hides is not drawn."
    )
    picture = write_svg(shown.graph, _headline(release), caption, is_doubtful=shown.is_doubtful)
    return _FONT_STYLE.sub(r"\1", picture)


def _headline(release: StepRelease) -> str:
    what = {
        "window": "Cases that closed in this step",
        "total": "All cases that have closed so far",
        "sliding": "Cases that closed in the last steps",
    }[release.view]
    return f"{what}: {_moment(release.start_us)} to {_moment(release.end_us)} UTC"


def _moment(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")


def edge_bars(release: StepRelease) -> str:
    """Draws the largest counts of a step as bars, each with its 95 % interval."""
    shown = shown_graph(release)
    graph = shown.graph
    order = np.argsort(-graph.counts, kind="stable")[:_MAX_BARS].tolist()
    names = [plain_name(label) for label in graph.labels]
    left, room, height = 330.0, 330.0, 24.0
    largest = int(graph.highs[order].max(initial=1))
    parts = []
    for row, edge in enumerate(order):
        y = row * height + height / 2
        ends = (names[codes[edge]] for codes in (graph.sources, graph.targets))
        label = " → ".join(isolated(elide(name, _SIZE, left / 2 - 16)) for name in ends)
        count = int(graph.counts[edge])
        low, high = (room * int(ends[edge]) / largest for ends in (graph.lows, graph.highs))
        long = room * count / largest
        fill = _PALE if shown.is_doubtful[edge] else _BAR
        note = " (doubtful)" if shown.is_doubtful[edge] else ""
        parts += [
            _text(label, left - 8, y + 4, anchor="end"),
            f'<rect x="{left:.1f}" y="{y - 8:.1f}" width="{long:.1f}" height="16" fill="{fill}"/>',
            _whisker(left + low, left + high, y),
            _text(f"{count}{note}", left + max(long, high) + 8, y + 4),
        ]
    if not order:
        parts.append(_text("No count stands out from the noise yet.", 0, height / 2 + 4))
    return _picture(left + room + 120, max(len(order), 1) * height, "Largest counts", parts)


def timeline(releases: Sequence[StepRelease]) -> str:
    """Draws the number of cases that each release is about, by step, with its 95 % interval."""
    totals = [total_of(release) for release in releases]
    axes = _Axes(totals)
    parts = [f'<path d="M{axes.line(totals)}" fill="none" stroke="{_LINE}"/>', *axes.parts()]
    for total in totals:
        x, half = axes.x(total.step), _Z * total.error
        low, high = axes.y(total.count - half), axes.y(total.count + half)
        parts.append(f'<path d="M{x:.1f} {low:.1f}V{high:.1f}" stroke="{_BAR}" stroke-width="3"/>')
        parts.append(
            f'<circle cx="{x:.1f}" cy="{axes.y(total.count):.1f}" r="2.5" fill="{_LINE}"/>'
        )
    return axes.picture("Number of cases by step", parts)


def totals_chart(totals: Sequence[Total]) -> str:
    """Draws the number of cases so far as a line with its 95 % intervals; there must be one."""
    axes = _Axes(totals)
    above = [Total(t.step, t.count + _Z * t.error, 0.0) for t in totals]
    below = [Total(t.step, t.count - _Z * t.error, 0.0) for t in reversed(totals)]
    newest = totals[-1]
    words = f"{newest.count:,.0f} ± {_Z * newest.error:,.0f} cases"
    x, y = axes.x(newest.step), axes.y(newest.count)
    parts = [
        f'<path d="M{axes.line([*above, *below])}Z" fill="{_PALE}"'
        f' stroke="{_BAR}" stroke-width="0.5"/>',
        *axes.parts(),
        f'<path d="M{axes.line(totals)}" fill="none" stroke="{_LINE}" stroke-width="2"/>',
        *(
            f'<circle cx="{axes.x(t.step):.1f}" cy="{axes.y(t.count):.1f}" r="2.5" fill="{_LINE}"/>'
            for t in totals
        ),
        _text(words, x + 10, y + 4, ink=_INK),
    ]
    return axes.picture("Number of cases so far, after each step", parts)


class _Axes:
    """Where steps and numbers of cases lie in a chart."""

    def __init__(self, totals: Sequence[Total]) -> None:
        self._highest = max([1.0, *(t.count + _Z * t.error for t in totals)])
        self._lowest = min([0.0, *(t.count - _Z * t.error for t in totals)])
        self._first, self._last = totals[0].step, totals[-1].step
        self._stride = (_RIGHT - _LEFT - 20) / max(self._last - self._first, 1)

    def x(self, step: int) -> float:
        """Where a step is."""
        return _LEFT + 10 + (step - self._first) * self._stride

    def y(self, value: float) -> float:
        """Where a number is."""
        return 10 + (_HEIGHT - 20) * (self._highest - value) / (self._highest - self._lowest)

    def line(self, totals: Sequence[Total]) -> str:
        """The points of a path through the counts."""
        return "L".join(f"{self.x(t.step):.1f} {self.y(t.count):.1f}" for t in totals)

    def parts(self) -> list[str]:
        """The line of no cases, and the words at the axes."""
        words = [
            f'<path d="M{_LEFT} {self.y(0):.1f}H{_RIGHT}" stroke="{_FAINT}" stroke-width="0.5"/>',
            _text(f"{self._highest:,.0f}", _LEFT - 8, self.y(self._highest) + 4, anchor="end"),
            _text("0", _LEFT - 8, self.y(0) + 4, anchor="end"),
            _text(f"step {self._first}", self.x(self._first), _HEIGHT + _BELOW - 4),
        ]
        if self._last > self._first:
            at = self.x(self._last), _HEIGHT + _BELOW - 4
            words.append(_text(f"step {self._last}", *at, anchor="end"))
        return words

    def picture(self, title: str, parts: Sequence[str]) -> str:
        """The whole chart."""
        return _picture(_WIDTH, _HEIGHT + _BELOW, title, parts)


def _whisker(low: float, high: float, y: float) -> str:
    return (
        f'<path d="M{low:.1f} {y - 4:.1f}V{y + 4:.1f}M{low:.1f} {y:.1f}H{high:.1f}'
        f'M{high:.1f} {y - 4:.1f}V{y + 4:.1f}" stroke="{_INK}" fill="none"/>'
    )


def _text(text: str, x: float, y: float, anchor: str = "start", ink: str = _FAINT) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{_SIZE:g}" fill="{ink}"'
        f' text-anchor="{anchor}">{escape(text)}</text>'
    )


def _picture(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    size = f"{width:.0f} {height:.0f}"
    across, down = size.split()
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{across}" height="{down}"'
        f' viewBox="0 0 {size}" role="img"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )
