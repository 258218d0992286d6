"""What would help a release most: each change is tried on synthetic logs, with its figure.

A change is a larger epsilon, fewer names, more cases, something that is declared instead of bought,
or less that is published. It helps if the middle one of several releases is clearly better. Where a
release is not sure to be worth it, other methods that publish less are tried as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pydantic

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.planning.advice import LARGEST_TRIED, LONGEST_CASE
from tracecloak.pipelines.planning.verdict import (
    ENOUGH,
    GOOD,
    USELESS,
    Mends,
    Verdict,
    grade_of,
    judged_at,
)
from tracecloak.pipelines.planning.worth import (
    USUAL,
    Kind,
    Process,
    Worth,
    noise_share_of,
    worth_at,
)
from tracecloak.schemas.errors import TracecloakError

# What must be gained at least; the middle ones of three runs differ by less for chance.
_GAIN = 0.2
# An epsilon above the last number promises too little to be proposed, and so few names say too
# little of a process.
_MORE_EPSILON, _MOST_EPSILON = (2, 4, 16), 4
_FEWER_NAMES, _FEWEST_NAMES = 10, 10
_MORE_CASES = 10
# More cases than so many, times the activities, are not made up for that, as it takes minutes. To a
# count that is k times as large, noise is what noise of k times the epsilon is to the count itself.
_LARGEST_TABLE = 1_000_000
# What can be declared, or left out: how it is called, the parameter and its value until now, and
# the values instead. The dates are those of a synthetic log.
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


# Methods of which each publishes less than those before it and than all others; the last one with
# figures that can be had of any log.
_LESS = ("auto-variants", "private-dfg", "process-tree", "private-indicators")
_FIGURES = ("cases", *(f"throughput of={of} at_most=30d" for of in ("mean", "median")),
            "within limit=7d")  # fmt: skip


_Change = tuple[str, Any, int]
"""Something else that could be released: what it is called, its parameters and cases."""


def mends_of(method: Anonymizer, params: Any, verdict: Verdict) -> Mends:
    """Returns what would help a release, by public numbers alone.

    Args:
        method: A rigorous method.
        params: Its parameters.
        verdict: On them.
    """
    worth = verdict.worth
    kind = worth.kind or "graph"
    if worth.shortfall(kind) <= ENOUGH:
        return Mends(kind, worth.shortfall(kind), ())
    least = min(USELESS[kind], (1 - _GAIN) * worth.shortfall(kind))
    helpful = []
    for changes in _changes(method, params, worth):
        better = []
        for what, changed, n_cases in changes:
            then = shortfall_at(method, changed, n_cases, kind, worth.process)
            if then < least:
                better.append((what, then))
            if better and better[-1][1] <= GOOD[kind]:
                break
        helpful += better[-1:]
    helpful.sort(key=lambda lever: lever[1])
    others = () if verdict.grade == "worth it" else tuple(_others(method, params, verdict))
    return Mends(kind, worth.shortfall(kind), tuple(helpful), others)


def _others(method: Anonymizer, params: Any, verdict: Verdict) -> Iterator[tuple[str, Verdict]]:
    """Yields methods that publish less and are worth it, of a usual process."""
    given = {**params.model_dump(exclude_unset=True), "indicators": _FIGURES}
    begin = _LESS.index(method.name) + 1 if method.name in _LESS else 0
    for name in _LESS[begin:] if "epsilon" in given else ():
        other = method_named(name)
        known = {key: given[key] for key in other.Params.model_fields if key in given}
        try:
            of_other = other, other.Params(**known), verdict.worth.n_cases
            judged = judged_at(*of_other, verdict.n_variants)
        except (pydantic.ValidationError, TracecloakError):
            continue
        if grade_of(judged.worth) == "worth it":
            yield name, judged


def shortfall_at(
    method: Anonymizer, params: Any, n_cases: int, kind: Kind, process: Process = USUAL
) -> float:
    """Returns the middle shortfall on a synthetic log, which a tree does without."""
    if kind == "tree":
        share = noise_share_of(method, params, n_cases)
        return math.inf if share is None else share
    return worth_at(method, params, n_cases, process).shortfall(kind)


def _changes(method: Anonymizer, params: Any, worth: Worth) -> Iterator[list[_Change]]:
    """Yields what is tried: changes of one kind, of which a larger one follows a smaller one."""
    n_cases, more_cases = worth.n_cases, _MORE_CASES * worth.n_cases
    can_be_made = more_cases <= LARGEST_TRIED and more_cases * worth.n_names <= _LARGEST_TABLE
    if can_be_made:
        yield [(f"{_MORE_CASES} times the cases", params, more_cases)]
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
        changed = [(what, changed_params(params, **values), n_cases) for what, values in ladder]
        yield [change for change in changed if change[1] is not None]


def changed_params(params: Any, **values: Any) -> Any | None:
    """Returns parameters with other values; None: the method does not take them."""
    try:
        return type(params)(**{**params.model_dump(exclude_unset=True), **values})
    except (pydantic.ValidationError, TracecloakError):
        return None
