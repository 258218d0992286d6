"""What would help a release most: each change is tried on made-up logs, and told with its figure.

A change is a larger epsilon, fewer names, more cases, something that is declared instead of bought,
or less that is published. It is tried several times, each time with other noise, beside the release
as it is. It helps if it comes out better in nearly all pairs of runs, and if the middle one gains
more than the runs differ by chance; what is told is the middle one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pydantic

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.pipelines.planning.advice import LARGEST_TRIED, LONGEST_CASE
from tracecloak.pipelines.planning.worth import (
    Kind,
    Worth,
    in_percent,
    in_words,
    noise_share_of,
    worth_of,
)
from tracecloak.schemas.errors import TracecloakError

# Of two independent runs of each three, as good as the other, so many pairs are better in one of
# ten comparisons; of five runs each in one of forty.
_NEARLY_ALL = 0.85
# How many runs are made. A method that draws a log takes long: of more cases than so many, times
# the activities, it is run once.
_RUNS, _RUNS_OF_LOGS, _SMALL_TABLE = 5, 3, 80_000
NOT_DRAWN = ("tree", "figures")
"""Kinds whose shortfall follows from the parameters, so that one run says it."""
# What must be gained at least to be told, and by a single run.
_GAIN, _GAIN_OF_ONE = 0.1, 0.25
# A shortfall of so little needs no help, so that nothing is tried.
_ENOUGH = 0.05
# From which shortfall on a release is good, so that no larger change is tried, and from which on
# nobody could do anything with it, so that to come there is no help; see `verdict`.
_GOOD = {"graph": 1 / 3, "variants": 1 / 2, "tree": 1 / 10, "figures": 1 / 2}
_USELESS = {"graph": 0.9, "variants": 0.9, "tree": 1 / 3, "figures": 1.0}
# An epsilon above the last number promises too little to be proposed, and so few names say too
# little of a process.
_MORE_EPSILON, _MOST_EPSILON = (2, 4, 16), 4
_FEWER_NAMES, _FEWEST_NAMES = 10, 10
_MORE_CASES = 10
# More cases than so many, times the activities, are not made up for that, as it takes minutes. To a
# count that is k times as large, noise is what noise of k times the epsilon is to the count itself.
_LARGEST_TABLE = 1_000_000
# What can be declared, or left out: how it is called, the parameter and its value until now, and
# the values instead. The dates are those of a made-up log.
_INSTEAD: tuple[tuple[str, str, Any, dict[str, Any]], ...] = (
    (
        "dates that are declared, by --first_date and --last_date",
        *("first_date", None, {"first_date": "2020-01-01", "last_date": "2021-12-31"}),
    ),
    ("--closed_vocabulary", "closed_vocabulary", False, {"closed_vocabulary": True}),
    (
        f"a length that is declared, as by --max_trace_length {LONGEST_CASE}",
        *("max_trace_length", None, {"max_trace_length": LONGEST_CASE}),
    ),
    ("--products variants, so without times", "products", "log", {"products": "variants"}),
    ("no durations", "durations", True, {"durations": False}),
)


@dataclass(frozen=True)
class _Change:
    """Something else that could be released: what it is called, its parameters and cases."""

    what: str
    params: Any
    n_cases: int


@dataclass(frozen=True)
class Mends:
    """What would help a release.

    Attributes:
        kind: What it is judged by.
        now: Its shortfall of that as it is.
        helpful: What helps, with the shortfall then; what gains most is first.
        tried: What else was tried, and does not help.
    """

    kind: Kind
    now: float
    helpful: tuple[tuple[str, float], ...]
    tried: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What would help most, by figures; or what else to do."""
        if self.helpful:
            (what, then), *others = self.helpful
            instead = [self.now] * math.isfinite(self.now)
            texts = [f"{what} ({in_words(self.kind, then, *instead)})"]
            texts += [f"{what} ({in_percent(self.kind, then)})" for what, then in others]
            return f"What would help most: {'; '.join(texts)}."
        if self.now <= _ENOUGH:
            return f"Little is left to gain: {in_words(self.kind, self.now)}."
        if self.now <= _GOOD[self.kind]:
            return "Nothing that was tried would help much."
        stays = f"With {' or '.join(self.tried)} that stays so: take" if self.tried else "Take"
        fewer = "figures" if self.kind == "figures" else "activities"
        return (
            f"{stays} fewer {fewer}, or another method (`tracecloak catalogue --all` lists them)."
        )

    def to_json(self) -> list[dict[str, Any]]:
        """Returns what helps as JSON values."""
        now = round(self.now, 4) if math.isfinite(self.now) else None
        of = {"of": self.kind, "now": now}
        return [{"what": what, **of, "then": round(then, 4)} for what, then in self.helpful]


def mends_of(method: Anonymizer, params: Any, worth: Worth) -> Mends:
    """Returns what would help a release, by public numbers alone.

    Args:
        method: A rigorous method.
        params: Its parameters.
        worth: What came out of a made-up log with them.
    """
    kind = worth.kind or "graph"
    if worth.shortfall(kind) <= _ENOUGH:
        return Mends(kind, worth.shortfall(kind), (), ())
    now = _shortfalls(method, _Change("", params, worth.n_cases), kind, math.inf)
    helpful, tried = [], []
    for changes in _changes(method, params, worth):
        better = []
        for change in changes:
            then = _shortfalls(method, change, kind, now[0])
            middle = then[len(then) // 2]
            if _is_less(then, now) and middle < min(_USELESS[kind], worth.shortfall(kind)):
                better.append((change.what, middle))
            if better and better[-1][1] <= _GOOD[kind]:
                break
        helpful += better[-1:]
        tried += [change.what for change in changes[-1:]]
    helpful.sort(key=lambda lever: lever[1])
    return Mends(kind, worth.shortfall(kind), tuple(helpful), tuple(tried))


def _is_less(then: Sequence[float], now: Sequence[float]) -> bool:
    """Whether some runs have a smaller shortfall than others, by more than by chance."""
    gain = _GAIN_OF_ONE if len(then) == len(now) == 1 else _GAIN
    share = np.less.outer(np.array(then), np.array(now)).mean()
    return bool(share >= _NEARLY_ALL and then[len(then) // 2] <= (1 - gain) * now[len(now) // 2])


def _shortfalls(method: Anonymizer, change: _Change, kind: Kind, below: float) -> list[float]:
    """Returns the shortfalls of some runs, the smallest first.

    One is enough if nothing is drawn for it, and where the first does not lie below a number.
    """
    given = method, change.params, change.n_cases
    first = shortfall_of(*given, kind)
    n_runs = _RUNS
    if method.log != "none":
        n_names = len(method.bounds(change.params).vocabulary or ())
        n_runs = _RUNS_OF_LOGS if change.n_cases * n_names <= _SMALL_TABLE else 1
    more = range(1, n_runs if kind not in NOT_DRAWN and first < below else 1)
    return sorted([first, *(shortfall_of(*given, kind, run) for run in more)])


def shortfall_of(method: Anonymizer, params: Any, n_cases: int, kind: Kind, run: int = 0) -> float:
    """Returns the shortfall of a run on a made-up log, which a tree does without.

    Args:
        method: A rigorous method.
        params: Its parameters.
        n_cases: Cases of the made-up log.
        kind: By what it is judged.
        run: Which of several runs it is; each has noise of its own.
    """
    if kind == "tree":
        share = noise_share_of(method, params, n_cases)
        return math.inf if share is None else share
    return worth_of(method, params, n_cases, run).shortfall(kind)


def _changes(method: Anonymizer, params: Any, worth: Worth) -> Iterator[list[_Change]]:
    """Yields what is tried: changes of one kind, of which a larger one follows a smaller one."""
    n_cases, more_cases = worth.n_cases, _MORE_CASES * worth.n_cases
    can_be_made = more_cases <= LARGEST_TRIED and more_cases * worth.n_names <= _LARGEST_TABLE
    if can_be_made:
        yield [_Change(f"{_MORE_CASES} times the cases", params, more_cases)]
    ladders: list[list[tuple[str, dict[str, Any]]]] = [[], []]
    for factor in _MORE_EPSILON if "epsilon" in params.model_fields_set else ():
        text = decimal_text(Fraction(params.epsilon) * factor)
        beside = "" if can_be_made else f", or about {factor} times the cases"
        if float(text) <= _MOST_EPSILON:
            ladders[0].append((f"epsilon {text}{beside}", {"epsilon": text}))
    names = method.bounds(params).vocabulary or ()
    see = ", see --groups" * ("groups" in type(params).model_fields)
    for n_left in (len(names) - max(_FEWER_NAMES, len(names) // 4), len(names) // 4,
                   len(names) // 16):  # fmt: skip
        if n_left >= _FEWEST_NAMES:
            what = f"{n_left:,} activities, each a group of the {len(names):,}{see}"
            ladders[1].append((what, {"vocabulary": names[:n_left]}))
    for what, name, until_now, values in _INSTEAD:
        if getattr(params, name, values) == until_now:
            ladders.append([(what, values)])
    indicators = getattr(params, "indicators", None) or ()
    if len(indicators) > 1:
        ladders.append(
            [("the first half of the figures", {"indicators": indicators[: len(indicators) // 2]})]
        )
    for ladder in ladders:
        changed = [(what, changed_params(params, **values)) for what, values in ladder]
        yield [_Change(what, one, n_cases) for what, one in changed if one is not None]


def changed_params(params: Any, **values: Any) -> Any | None:
    """Returns parameters with other values; None: the method does not take them."""
    try:
        return type(params)(**{**params.model_dump(exclude_unset=True), **values})
    except (pydantic.ValidationError, TracecloakError):
        return None
