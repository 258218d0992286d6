"""What a paper states of its results, and whether the figures of an experiment agree.

A paper says, for example, that one algorithm keeps more than another. An experiment has the medians
of both on a log, so it can say whether that is so there: confirmed, or deviates. A statement of
which a figure is missing is undecided, unless the others refute it. A statement is judged on each
log alone, whether or not it is a log of the paper.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from tracecloak.examination.experiments.table import Figures, expanded, shown

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


def stated(spec: Mapping[str, Any], table: Figures, words: Mapping[str, Any]) -> Statement:
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
    figures = "; ".join(f"{place}: {shown(a)} against {shown(b)}" for place, a, b in pairs)
    if "falls" in spec:
        figures = ", ".join(f"{place} {shown(a)}" for place, a, _ in pairs)
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
    by = shown(float(np.median(more)) if len(more) else None)
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
