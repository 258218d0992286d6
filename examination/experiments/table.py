"""The rows of one log as a table: sections of a page, and statements, confirmed or not.

A figure stands by what was released (arm) and at which level. A statement of a paper is confirmed
or deviates on each log alone, whether or not it is a log of the paper; one of which a figure is
missing is undecided, unless the others refute it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

import numpy as np

from tracecloak.examination.comparison.rows import Row, quartiles

# --- The rows of one log as a table: a figure by what was released (arm) and at which level. ------
# Of these rows the sections of a page are made, as the file of a paper says: tables and charts.


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
        return [
            row[figure]
            for row in self.rows
            if row["arm"] == arm and row["level"] in (level, "") and row.get(figure) is not None
        ]

    def medians(self, figure: str, pattern: str, level: str) -> dict[str, float]:
        """Returns the medians of the arms that match a pattern, of those that have values.

        A release that was refused as nothing would be left of the log counts as 0; where less is
        better, it counts nowhere.
        """
        found = {}
        for arm in self.matching([pattern]):
            values = self.values(figure, arm, level)
            if figure not in self.spec.get("errors", ()) and self.values("is_lost", arm, level):
                values.append(0.0)
            if spread := quartiles(values):
                found[arm] = spread[0]
        return found

    def median(self, figure: str, pattern: str, level: str) -> float | None:
        """Returns the median of an arm: of those that match a pattern, the one nearest to 0."""
        return min(self.medians(figure, pattern, level).values(), default=None)

    def best(self, figure: str, pattern: str, level: str) -> str | None:
        """Returns the arm that has the smallest median of those that match; None without any."""
        known = self.medians(figure, pattern, level)
        return min(known, key=lambda arm: known[arm], default=None)

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


def format_figure(value: float | None) -> str:
    """Returns a figure as a short text."""
    if value is None:
        return NOTHING
    if value == 0 or 0.001 <= abs(value) < 10:
        return f"{value:.3f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def format_quartiles(values: Iterable[float | None]) -> str:
    """Returns the median and, in brackets, the quartiles where they differ."""
    spread = quartiles(values)
    if spread is None:
        return NOTHING
    median, low, high = map(format_figure, spread)
    return median if low == high else f"{median} ({low}-{high})"


@dataclass(frozen=True)
class Boxes:
    """Boxes of repeated figures, side by side in groups.

    Attributes:
        y: What is on the vertical axis.
        x: What the groups are.
        values: Figures by (arm, group), in the order in which they stand; an arm lacks the groups
            where it was not run.
        is_log: Whether the vertical axis is logarithmic.
        marks: Figures to be drawn as lines, by what they are, such as the log's own.
    """

    y: str
    x: str
    values: Mapping[tuple[str, str], Sequence[float]]
    is_log: bool = False
    marks: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Lines:
    """Lines over a common axis.

    Attributes:
        x: What is on the horizontal axis.
        y: What is on the vertical axis.
        places: float64[n], the horizontal places.
        values: n figures by line.
    """

    x: str
    y: str
    places: Sequence[float]
    values: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Section:
    """A figure or a table of the paper, for one log.

    Attributes:
        title: Its heading.
        text: What it shows, or an empty text.
        file: What its image is called, without an ending.
        header: Names of the columns of its table.
        rows: Texts, as many a row as columns; without any there is no table.
        chart: What is drawn, if anything.
        tree: A process model in its text form (schemas.models), if it shows one.
    """

    title: str
    text: str
    file: str
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    chart: Boxes | Lines | None = None
    tree: str | None = None


def sections_of(
    spec: Mapping[str, Any], table: Figures, words: Mapping[str, Any]
) -> Iterator[Section]:
    """Yields a section for each value of `each`, or one.

    Args:
        spec: `title`, `file` and `text`, in which `{}` is that value, `{title}` the first figure's
            and `{log}` the log's own; `figures`, a column each; `prefix` of their names; `arms`,
            patterns of what is shown (all), and `also`, of what the table alone shows; `at`, the
            levels; `from`, an arm whose figures are subtracted. `chart`: the first figure is drawn
            as well, by `is_log` with a logarithmic axis; `log`: with a line that is the log's own
            figure; `marks`: with these in place of those of models. `is_tree`: models are drawn,
            each in a section of its own, whose title has `{arm}` and `{level}`.
        table: The figures.
        words: Values of the flags by name.
    """
    for one in expanded(spec, words):
        names = [name.format(one) for name in spec.get("figures", ())]
        figures = {spec.get("prefix", "") + name: table.title(name) for name in names}
        arms, also = (
            table.matching([arm.format(one) for arm in spec.get(which, default)])
            for which, default in (("arms", ["*"]), ("also", []))
        )
        if spec.get("is_tree"):
            yield from _trees(spec, table, arms)
            continue
        first, title = next(iter(figures.items()))
        fields = {**words, "title": title, "log": format_figure(table.median(first, THE_LOG, ""))}
        header, rows = _table(spec, table, figures, [*arms, *also])
        yield Section(
            spec["title"].format(one, **fields),
            spec.get("text", "").format(one, **fields),
            spec["file"].format(one, **fields),
            header,
            rows,
            _chart(spec, table, first, title, arms) if spec.get("chart") else None,
        )


def _values(
    spec: Mapping[str, Any], table: Figures, figure: str, arm: str, level: str
) -> list[float]:
    """The values of a figure, or by how much they are more than those of the arm `from`."""
    known = table.values(figure, arm, level)
    if "from" not in spec:
        return known
    less = table.median(figure, spec["from"], "")
    return [] if less is None else [value - less for value in known]


def _table(
    spec: Mapping[str, Any], table: Figures, figures: Mapping[str, str], arms: Sequence[str]
) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Quartiles: a row an arm and level, a column a figure."""
    levels = table.levels_at(spec, table.levels)
    rows: list[Sequence[str]] = []
    for arm in arms:
        for level in levels if arm in table.arms else [""]:
            cells = [format_quartiles(_values(spec, table, name, arm, level)) for name in figures]
            if {*cells} != {NOTHING}:
                rows.append((arm, level, *cells))
    header = ("", table.spec["axis"], *figures.values())
    if any(row[1] for row in rows):
        return header, rows
    return header[:1] + header[2:], [(arm, *cells) for arm, _, *cells in rows]


def _chart(
    spec: Mapping[str, Any], table: Figures, figure: str, title: str, arms: Sequence[str]
) -> Boxes | None:
    """A group a level and a box an arm; or, if `is_grouped`, a group a level and a part of it."""
    values: dict[tuple[str, str], Sequence[float]] = {}
    for level in table.levels_at(spec, table.charted)[: table.spec.get("most_charted")]:
        for arm in arms:
            known = _values(spec, table, figure, arm, level) if arm in table.arms else []
            if known and table.spec.get("is_grouped"):
                method, part = arm.split(", ")[:2]
                values[method, f"{part}\n{level}"] = known
            elif known:
                values[arm, level] = known
    if not values:
        return None
    marks = spec.get("marks") or {
        arm: mark
        for arm in [THE_LOG] * spec.get("log", False) + table.models
        if arm in (THE_LOG, *arms) and (mark := table.median(figure, arm, "")) is not None
    }
    return Boxes(title, table.spec["axis"], values, spec.get("is_log", False), marks)


def _trees(spec: Mapping[str, Any], table: Figures, arms: Sequence[str]) -> Iterator[Section]:
    for arm in arms:
        for level in table.levels_at(spec, table.levels) if arm in table.arms else [""]:
            for tree in table.values("tree", arm, level)[:1]:
                title, file = (
                    spec[name].format(arm=arm, level=level) for name in ("title", "file")
                )
                yield Section(title, spec.get("text", ""), file.lower(), tree=str(tree))


# --- What a paper states of its results, and whether the figures of an experiment agree. ----------
# A paper says, for example, that one algorithm keeps more than another. An experiment has the
# medians of both on a log, so it can say whether that is so there: confirmed, or deviates. A
# statement of which a figure is missing is undecided, unless the others refute it. A statement is
# judged on each log alone, whether or not it is a log of the paper.


Verdict = Literal["confirmed", "deviates", "undecided"]
NO_FIGURES = "there are no figures of all that it compares"
# (place, first, second); None is a missing figure.
Pair = tuple[str, float | None, float | None]


@dataclass(frozen=True)
class Statement:
    """A sentence of a paper beside what was found on one log.

    Attributes:
        source: Where the paper has it, such as "section 5.3, Figure 2".
        text: What it states, in our words.
        verdict: Whether the figures agree.
        found: The figures; of one without any, why.
    """

    source: str
    text: str
    verdict: Verdict
    found: str


def judge_statement(spec: Mapping[str, Any], table: Figures, words: Mapping[str, Any]) -> Statement:
    """Returns a statement with its verdict.

    It deviates if a part of it does not hold, whatever the others are. Else it is confirmed only if
    all figures are there: where one is missing, it is undecided.

    Args:
        spec: `source` and `text`; `figure`, one or several; `more` and `than`, one or several of
            arms (see `Figures.median`) and numbers; `each`, whose values `{}` in an arm stands for;
            `at`, the levels, all by default. And how they are compared: see `_parts`. With `from`
            it is how far each figure is from that of an arm; with `of = "most"` the largest
            value counts and not the median.
        table: The figures.
        words: Values of the flags by name.
    """
    pairs = list(_pairs(spec, table, words))
    holds = _parts(spec, pairs) or [None]
    unrefuted: Verdict = "undecided" if None in holds else "confirmed"
    figures = "; ".join(
        f"{place}: {format_figure(a)} against {format_figure(b)}" for place, a, b in pairs
    )
    if "falls" in spec:
        figures = ", ".join(f"{place} {format_figure(a)}" for place, a, _ in pairs)
    elif spec.get("in", "every") != "every":
        figures = _summary(spec, pairs)
    is_known = any(a is not None and b is not None for _, a, b in pairs)
    return Statement(
        spec["source"],
        spec["text"],
        "deviates" if False in holds else unrefuted,
        figures if is_known else NO_FIGURES,
    )


def _pairs(spec: Mapping[str, Any], table: Figures, words: Mapping[str, Any]) -> Iterable[Pair]:
    levels = table.levels_at(spec, table.charted)
    sides = _listed(spec["more"]), _listed(spec.get("than", 0))
    for figure, level, one in itertools.product(
        _listed(spec["figure"]), levels, expanded(spec, words)
    ):
        for first, second in itertools.product(*sides):
            if first == second:
                continue
            place, values = [], []
            for side in (first, second):
                if isinstance(side, str):
                    place.append(side.format(one).removesuffix(", *"))
                values.append(_figure(spec, table, figure, side, level, one))
            where = " and ".join(place) + (f" at {level}" if level else "")
            if isinstance(spec["figure"], list):
                where = f"{table.title(figure)}, {where}"
            yield where, values[0], values[1]


def _figure(
    spec: Mapping[str, Any], table: Figures, figure: str, side: str | float, level: str, one: str
) -> float | None:
    if not isinstance(side, str):
        return side
    arm = side.format(one)
    if spec.get("of") == "most":
        return max(table.values(figure, arm, level), default=None)
    value = table.median(figure, arm, level)
    if "from" not in spec or value is None:
        return value
    beside = table.median(figure, spec["from"], level)
    return None if beside is None else abs(value - beside)


def _parts(spec: Mapping[str, Any], pairs: Sequence[Pair]) -> list[bool | None]:
    """Returns whether each part of a statement holds; None: a figure that this needs is missing.

    In every pair the first is not below the second (by more than `slack`), or `near` it. With
    `falls` it is the firsts alone, of which none is above the one before it. `in = "some"`: in one
    of them it is above; `in = "the middle"`: by the median of all it is not below; `in = "no
    order"`: it is neither above in all of them nor below in all, to two places.
    """
    slack, kind = spec.get("slack", 0.0), spec.get("in", "every")
    known = [(a, b) for _, a, b in pairs if a is not None and b is not None]
    if "falls" in spec:
        falls: list[bool | None] = [b <= a for (a, _), (b, _) in itertools.pairwise(known)]
        return falls + [None] * (len(pairs) - len(known))
    if kind == "every":
        nears = spec.get("near")
        bounds = itertools.cycle(_listed(nears if nears is not None else slack))
        return [
            None
            if a is None or b is None
            else (a >= b - by if nears is None else abs(a - b) <= by + 1e-9)
            for (_, a, b), by in zip(pairs, bounds, strict=False)
        ]
    more = np.array([a - b for a, b in known])
    if not pairs or len(known) < len(pairs) or (kind == "no order" and len(pairs) < 2):
        return [None]
    if kind == "some":
        return [bool((more > 0).any())]
    if kind == "the middle":
        return [bool(np.median(more) >= -slack)]
    return [len({*np.sign(more.round(2))}) > 1 or not more.round(2).any()]


def _summary(spec: Mapping[str, Any], pairs: Sequence[Pair]) -> str:
    more = np.array([a - b for _, a, b in pairs if a is not None and b is not None])
    by = format_figure(float(np.median(more)) if len(more) else None)
    first, second = (spec[side].format("*") for side in ("more", "than"))
    return (
        f"{first} against {second}: higher in {(more > 0).sum()} and lower in {(more < 0).sum()} "
        f"of {len(pairs)} settings, by {by} in the median"
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def counted(statements: Sequence[Statement]) -> str:
    """Returns a text that says how many of some statements have each verdict."""
    numbers = Counter(statement.verdict for statement in statements)
    return ", ".join(f"{numbers[verdict]} {verdict}" for verdict in get_args(Verdict))
