"""The table of a plan that says how far each figure of a list will be off."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tracecloak.anonymizers.contract.figure_error import FigureError
from tracecloak.pipelines.planning.worth import Worth
from tracecloak.schemas.published.figure import LEGEND
from tracecloak.schemas.published.indicators import SHARE
from tracecloak.transforms.publish.figures_data import duration_in_words

_PERCENT_UNITS = {SHARE: "points", "ranges": "% of the range"}


def figure_lines(sizes: Sequence[Worth]) -> Iterator[str]:
    """Yields the errors of all figures, a column for each number of cases.

    Args:
        sizes: What is foretold, of the same figures.
    """
    yield "Is worth (95 % of all releases are within this of each figure; no log is looked at)"
    names = [error.figure for error in sizes[0].errors]
    columns = [[f"{worth.n_cases:,} cases", *map(_shown, worth.errors)] for worth in sizes]
    rows = zip(["", *names], *columns, strict=True)
    widths = [max(map(len, column)) for column in (["", *names], *columns)]
    for row in rows:
        first, *others = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        yield f"  {'  '.join([first, *others]).rstrip()}"
    yield f"  {LEGEND}"
    yield "  Groups are taken to be of one size; a filter or a step, to hold for half of the cases."
    yield ""


def _shown(error: FigureError) -> str:
    return f"± {_number(error)}, {error.grade}"


def _number(error: FigureError) -> str:
    half = error.half_width
    if not math.isfinite(half):
        return "anything"
    if error.unit == "s":
        return duration_in_words(round(half * 1_000_000))
    if error.unit in _PERCENT_UNITS:
        return f"{100 * half:.2g} {_PERCENT_UNITS[error.unit]}"
    what = "cases of its rank" if error.unit == "ranks" else error.unit
    size = f"{math.ceil(half):,}" if half >= 10 or what else f"{half:.3g}"
    return f"{size} {what}".rstrip()
