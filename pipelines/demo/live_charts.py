"""Pictures of what a stream publishes: the graph of a step, its edges as bars, and all its steps.

All are SVG texts for a page that allows no style, script or address in them. What they say follows
from the releases: counts with noise, and errors that are public. Names are data and are escaped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from xml.sax.saxutils import escape

import numpy as np

from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.step import StepRelease
from tracecloak.transforms.models.dfg_labels import elide, isolated, plain_name
from tracecloak.transforms.models.dfg_svg import write_svg

# Half of the 95 % interval of a normal distribution, in standard deviations. The noise of windows
# under pure epsilon has a heavier tail, for which this is a little short.
_Z = 1.96
_MAX_EDGES = 60
_MAX_BARS = 15
_FONT_STYLE = re.compile(r'^(<svg [^>]*?) style="[^"]*"')

_INK, _FAINT, _BAR, _LINE = "#1c2b3a", "#52616f", "#a9c6e3", "#47688c"
_SIZE = 12.0  # of letters, in pixels


def shown_graph(release: StepRelease) -> ReleasedGraph:
    """Returns the edges that differ from none: those whose 95 % interval is above zero.

    Which are shown follows from counts with noise, and costs nothing. The rest are not known to be
    there: most counts of a public alphabet are zero, and noise makes half of these positive.
    """
    start, end = ActivityVocabulary.of([]).labels
    found = sorted({name for cell in release.cells for name in cell} - {start, end})
    vocabulary = ActivityVocabulary.of(found)
    codes = {label: code for code, label in enumerate(vocabulary.labels)}
    half = np.ceil(_Z * release.standard_errors).astype(np.int64)
    rows = np.flatnonzero((release.counts > 0) & (release.counts > half))
    pairs = [(codes[release.cells[i][0]], codes[release.cells[i][1]]) for i in rows.tolist()]
    order = sorted(range(len(pairs)), key=pairs.__getitem__)
    rows = rows[order]
    counts, half = release.counts[rows], half[rows]
    sources, targets = np.array([pairs[i] for i in order], np.int32).reshape(-1, 2).T
    lows = np.maximum(counts - half, 0)
    return ReleasedGraph(vocabulary.names, sources, targets, counts, lows, counts + half)


def total_of(release: StepRelease) -> tuple[int, float]:
    """Returns (cases, standard error) that a graph counts: the sum of the edges from the start."""
    start, _ = ActivityVocabulary.of([]).labels
    rows = [i for i, cell in enumerate(release.cells) if cell[0] == start]
    # The noise of the cells is independent.
    return int(release.counts[rows].sum()), math.hypot(*release.standard_errors[rows].tolist())


def graph_picture(release: StepRelease) -> str:
    """Draws the graph of a step."""
    caption = (
        f"epsilon {release.epsilon}, delta {release.delta} for the whole horizon. "
        "Edges that the noise hides are not drawn."
    )
    picture = write_svg(shown_graph(release), _headline(release), caption, _MAX_EDGES)
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
    graph = shown_graph(release)
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
        parts += [
            _text(label, left - 8, y + 4, anchor="end"),
            f'<rect x="{left:.1f}" y="{y - 8:.1f}" width="{long:.1f}" height="16" fill="{_BAR}"/>',
            _whisker(left + low, left + high, y),
            _text(str(count), left + max(long, high) + 8, y + 4),
        ]
    return _picture(left + room + 70, max(len(order), 1) * height, "Largest counts", parts)


def timeline(releases: Sequence[StepRelease]) -> str:
    """Draws the number of cases by step, each with its 95 % interval."""
    width, height, left, below = 760.0, 170.0, 60.0, 22.0
    totals = [total_of(release) for release in releases]
    highest = max([1.0, *(count + _Z * error for count, error in totals)])
    lowest = min([0.0, *(count - _Z * error for count, error in totals)])
    first, last = releases[0].step, releases[-1].step
    stride = (width - left - 20) / max(last - first, 1)

    def x(step: int) -> float:
        return left + 10 + (step - first) * stride

    def y(value: float) -> float:
        return 10 + (height - 20) * (highest - value) / (highest - lowest)

    parts = [
        f'<path d="M{left} {y(0):.1f}H{width}" stroke="{_FAINT}" stroke-width="0.5"/>',
        _text(f"{highest:.0f}", left - 8, y(highest) + 4, anchor="end"),
        _text("0", left - 8, y(0) + 4, anchor="end"),
        _text(f"step {first}", x(first), height + below - 4),
    ]
    if last > first:
        parts.append(_text(f"step {last}", x(last), height + below - 4, anchor="end"))
    line = []
    for release, (count, error) in zip(releases, totals, strict=True):
        at, low, high = x(release.step), y(count - _Z * error), y(count + _Z * error)
        line.append(f"{at:.1f} {y(count):.1f}")
        parts.append(f'<path d="M{at:.1f} {low:.1f}V{high:.1f}" stroke="{_BAR}" stroke-width="3"/>')
        parts.append(f'<circle cx="{at:.1f}" cy="{y(count):.1f}" r="2.5" fill="{_LINE}"/>')
    parts.insert(0, f'<path d="M{"L".join(line)}" fill="none" stroke="{_LINE}"/>')
    return _picture(width, height + below, "Number of cases by step", parts)


def _whisker(low: float, high: float, y: float) -> str:
    return (
        f'<path d="M{low:.1f} {y - 4:.1f}V{y + 4:.1f}M{low:.1f} {y:.1f}H{high:.1f}'
        f'M{high:.1f} {y - 4:.1f}V{y + 4:.1f}" stroke="{_INK}" fill="none"/>'
    )


def _text(text: str, x: float, y: float, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{_SIZE:g}" fill="{_FAINT}"'
        f' text-anchor="{anchor}">{escape(text)}</text>'
    )


def _picture(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    size = f"{width:.0f} {height:.0f}"
    across, down = size.split()
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{across}" height="{down}"'
        f' viewBox="0 0 {size}" role="img"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )
