"""The rows of one log as a table: a figure by what was released (arm) and at which level."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from tracecloak.examination.comparison.compare import Row, quartiles

NOTHING = "-"
# The arms of the log itself, and of what a paper prints of it.
THE_LOG, THE_PAPER = "the log itself", "the paper"


class Figures:
    """Figures of one log.

    What has no level, as the log itself or a model of it, is at each level.

    Args:
        rows: Of the log, in the order of the releases; those of what has no level among them.
        levels: All that should be there, in order, whether or not a row has them.
        spec: The paper's, of which this is read: `figures`, which are titles by name; `errors`:
            figures of which less is better; `axis`: what the levels are; `uncharted`: levels that
            stand in no chart and no statement.
    """

    def __init__(self, rows: Sequence[Row], levels: Sequence[str], spec: Mapping[str, Any]) -> None:
        self.rows, self.levels, self.spec = rows, levels, spec
        self.arms = list(dict.fromkeys(row["arm"] for row in rows if row["level"]))
        self.models = [row["arm"] for row in rows[2:] if not row["level"]]
        self.charted = [one for one in levels if one not in spec.get("uncharted", ())]

    def levels_at(self, spec: Mapping[str, Any], default: Sequence[str]) -> Sequence[str]:
        """Returns the levels of a section or a statement: those that `at` lists, or all.

        `at = "the least"` is the smallest number among them, and `"falling"` all of them, the
        largest first.
        """
        at = spec.get("at", default)
        if not isinstance(at, str):
            return at
        falling = sorted(default, key=float, reverse=True)
        return falling if at == "falling" else falling[-1:]

    def values(self, figure: str, arm: str, level: str) -> list[float]:
        """Returns the values that are known, in the order of the repetitions."""
        at_level = (row for row in self.rows if row["level"] in (level, ""))
        return values_of(at_level, figure, arm=arm)

    def median(self, figure: str, arm: str, level: str) -> float | None:
        """Returns a median, or None without values.

        A release that was refused as nothing would be left of the log counts as 0; where less is
        better, it counts nowhere.

        Args:
            figure: Its name.
            arm: One of them, or a pattern with `*`: of those that match, the one nearest to 0.
            level: One of them.
        """
        medians = [self._median(figure, one, level) for one in self.matching([arm])]
        return min((one for one in medians if one is not None), default=None)

    def _median(self, figure: str, arm: str, level: str) -> float | None:
        values = self.values(figure, arm, level)
        if figure not in self.spec.get("errors", ()) and self.values("is_lost", arm, level):
            values.append(0.0)
        return median_of(values)

    def best(self, figure: str, pattern: str, level: str) -> str | None:
        """Returns the arm that has the smallest median of those that match; None without any."""
        known = {
            arm: median
            for arm in self.matching([pattern])
            if (median := self.median(figure, arm, level)) is not None
        }
        return min(known, key=lambda arm: known[arm]) if known else None

    def matching(self, patterns: Sequence[str]) -> list[str]:
        """Returns the arms that match one of some patterns, in their order."""
        arms = [THE_LOG, THE_PAPER, *self.models, *self.arms]
        return [arm for arm in arms if any(fnmatchcase(arm, one) for one in patterns)]

    def title(self, figure: str) -> str:
        """Returns what a figure is called."""
        return str(self.spec["figures"][figure])


def expanded(spec: Mapping[str, Any], words: Mapping[str, Any]) -> Iterator[str]:
    """Yields what `{}` stands for: each of a list, or of the values of the flag that is named."""
    each = spec.get("each", [""])
    for one in words[each] if isinstance(each, str) else each:
        yield str(one)


def values_of(rows: Iterable[Row], name: str, **wanted: str) -> list[float]:
    """Returns a figure of the rows that agree with what is wanted, where it is known."""
    return [
        row[name]
        for row in rows
        if row.get(name) is not None and all(row.get(key) == one for key, one in wanted.items())
    ]


def shown(value: float | None) -> str:
    """Returns a figure as a short text."""
    if value is None:
        return NOTHING
    if value == 0 or 0.001 <= abs(value) < 10:
        return f"{value:.3f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def quartiles_shown(values: Iterable[float | None]) -> str:
    """Returns the median and, in brackets, the quartiles where they differ."""
    spread = quartiles(values)
    if spread is None:
        return NOTHING
    median, low, high = map(shown, spread)
    return median if low == high else f"{median} ({low}-{high})"


def median_of(values: Iterable[float | None]) -> float | None:
    """Returns the median of what is known, or None."""
    spread = quartiles(values)
    return None if spread is None else spread[0]
