"""Whether a release is worth its budget, by its estimated utility, and what would make it better.

Nothing here depends on an input: the numbers of cases are those that somebody names, the logs are
synthetic, and the noise is that of the configuration. The answers have these bounds:

* A graph, or a log of whose graph the counts are compared, is worth it if the errors of its counts
  add up to a third of the counts at most. Then, of two counts of which one is twice the other, the
  larger one stays the larger: 2 (1 - x) > 1 + x as long as x < 1/3.
* Variants are worth it, too, if those that come out are the variants of half of the cases: with
  less, most of what happened is not in the release.
* A tree has no counts to compare. It is made of noisy counts of pairs, and a step that every case
  takes is counted once a case. It is worth it if the deviation of the noise is a tenth of the cases
  at most: then a step that three cases in ten take stands out by three deviations. If it is a third
  or more, not even a step that all cases take stands out by more than three.
* Of any of them, at least half of the activities must come out by name.
* A list of figures is worth it if at least half of them are expected to be good or rough
  (`schemas.published.figures`).

It is not worth it if nobody could use what is released (`UtilityEstimate.is_useless`), and hardly
worth it if it lies between. Where the best and the worst that is likely have different answers, it
depends: on how alike the cases are, if that is not declared.

What would help a release most: each change is tried on synthetic logs, with its figure.

A change is a larger epsilon, fewer names, more cases, something that is declared instead of bought,
or less that is published. It helps if the middle one of several releases is clearly better. Where a
release is not sure to be worth it, other methods that publish less are tried as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import pydantic

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.configuration.plan import ReleasePlan
from tracecloak.pipelines.planning import utility
from tracecloak.schemas.errors import TracecloakError
from tracecloak.transforms.pages.page import from_template

# ---
# Whether a release is worth its budget, in words: from what `worth` foretells, and what to change.


Grade = Literal["worth it", "hardly", "no", "depends"]

_HALF = 0.5
GOOD: dict[utility.Kind, float] = {
    "graph": 1 / 3,
    "variants": 1 / 2,
    "tree": 1 / 10,
    "figures": 1 / 2,
}
"""Up to which shortfall a release is worth it, by what it is judged by."""
USELESS = {"graph": 0.9, "variants": 0.9, "tree": 1 / 3, "figures": 1.0}
"""From which shortfall on nobody could use it."""
ENOUGH = 0.05
"""A shortfall that needs no help."""


@dataclass(frozen=True)
class Verdict:
    """Whether a release of so many cases is worth it.

    Attributes:
        worth: What is released of a synthetic log of that size, in the middle of the range.
        ends: The best and the worst that is likely.
        grade: The answer.
        n_variants: How many variants the cases have, if that is declared.
        remedy: What would make it better; None: that was not tried.
        obstacle: What makes it worth nothing whatever its size, or empty.
    """

    worth: utility.UtilityEstimate
    ends: tuple[utility.UtilityEstimate, utility.UtilityEstimate]
    grade: Grade
    n_variants: int | None = None
    remedy: Recommendations | None = None
    obstacle: str = ""

    @property
    def sentence(self) -> str:
        """The verdict in words, for somebody who sees such numbers for the first time."""
        return f"{self._answer}: {self.why}."

    @property
    def in_short(self) -> str:
        """The verdict with the numbers that it follows from."""
        kind = self.worth.kind
        return (
            f"{self._answer} ({utility.in_words(kind, *self.between(kind)) if kind else self.why})"
        )

    def between(self, kind: utility.Kind) -> tuple[float, float]:
        """Returns the shortfalls of the best and of the worst."""
        best, worst = self.ends
        return best.shortfall(kind), worst.shortfall(kind)

    @property
    def _answer(self) -> str:
        size = f"{self.worth.n_cases:,} case{'s' if self.worth.n_cases != 1 else ''}"
        answers = {"worth it": "Worth it", "hardly": "Hardly", "no": "No", "depends": "It depends"}
        return f"{answers[self.grade]}, with {size}"

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON values; ranges are from the best to the worst."""
        ends, share = self.ends, self.worth.noise_share
        return {
            "cases": self.worth.n_cases,
            "verdict": self.grade.replace(" ", "_"),
            "graph_error": _rounded([end.graph_error for end in ends]),
            "case_share": _rounded([end.case_share for end in ends]),
            "noise_share": None if share is None else round(share, 4),
            "sentence": self.sentence,
            "would_help": [] if self.remedy is None else self.remedy.to_json(),
            "other_methods": [
                {"method": name, **verdict.to_json()}
                for name, verdict in (() if self.remedy is None else self.remedy.others)
            ],
        }

    @property
    def why(self) -> str:
        """What the answer follows from, as a part of a sentence."""
        return _text("why", verdict=self, names_share=_names_share)


def judged_at(
    method: Anonymizer, params: Any, n_cases: int, n_variants: int | None = None
) -> Verdict:
    """Returns the verdict for a number of cases, without the remedy.

    It is of public numbers alone, or of what was released before.

    Args:
        method: A rigorous method.
        params: Its parameters.
        n_cases: Cases of the release.
        n_variants: How many variants they have, if that is declared.
    """
    found = utility.processes(n_variants, n_cases)
    worth = utility.median_utility(method, params, n_cases, found[len(found) // 2])
    is_drawn = worth.graph_error is not None  # else no log has a part in it, or it is refused
    ends = utility.ends_at(method, params, n_cases, n_variants) if is_drawn else (worth, worth)
    best, worst = map(grade_of, ends)
    return Verdict(worth, ends, best if best == worst else "depends", n_variants)


@dataclass(frozen=True)
class Recommendations:
    """What would help a release.

    Attributes:
        kind: What it is judged by.
        now: Its shortfall of that as it is.
        helpful: What helps, with the shortfall then; what gains most is first.
        others: Verdicts of other methods that would do, by their names.
    """

    kind: utility.Kind
    now: float
    helpful: tuple[tuple[str, float], ...]
    others: tuple[tuple[str, Verdict], ...] = ()

    @property
    def sentence(self) -> str:
        """What would help most, by figures; or what else to do; and which methods would do."""
        return _text("remedy", remedy=self, enough=ENOUGH)

    def to_json(self) -> list[dict[str, Any]]:
        """Returns what helps as JSON values."""
        now = round(self.now, 4) if math.isfinite(self.now) else None
        of = {"of": self.kind, "now": now}
        return [{"what": what, **of, "then": round(then, 4)} for what, then in self.helpful]


def _text(name: str, **given: Any) -> str:
    return "".join(from_template(__package__, f"{name}.txt.j2", utility=utility, **given))


def advice_on(method: Anonymizer, params: Any, n_cases: int) -> str:
    """Returns that a release is mostly noise; empty where it is not.

    Tried on synthetic logs of as many cases as were released, so it follows from what is released
    and public. It is tried where noise is large beside that number, as it takes some seconds; what
    would help takes more of them, and is left to the plan.

    Args:
        method: A rigorous method.
        params: Its parameters.
        n_cases: Cases of what was released, noise included.
    """
    if not utility.is_mostly_noise(method, params, n_cases):
        return ""
    verdict = judged_at(method, params, n_cases)
    if verdict.grade == "worth it":
        return ""
    shares = {"no": "most of what is released is noise", "depends": "much may be noise"}
    share = shares.get(verdict.grade, "much of what is released is noise")
    remedy = "`tracecloak plan` tries what would help most."
    return f"{share}. On synthetic logs of as many cases, {verdict.why}. {remedy}"


def grade_of(worth: utility.UtilityEstimate) -> Grade:
    """Returns the answer; see the module for the bounds."""
    noise = worth.shortfall("tree")
    if worth.is_useless or worth.refusal or USELESS["tree"] <= noise < math.inf:
        return "no"
    is_good = any(worth.shortfall(kind) <= most for kind, most in GOOD.items())
    return "worth it" if is_good and _names_share(worth) >= _HALF else "hardly"


def _names_share(worth: utility.UtilityEstimate) -> float:
    n = worth.held.n_activities
    return 1.0 if n is None else n / worth.n_names


def _rounded(values: list[float | None]) -> Any:
    """Returns numbers for JSON; None where there are none."""
    return None if None in values else [round(value, 4) for value in values if value is not None]


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
        "dates that are declared, by first_date and last_date",
        *("first_date", None, {"first_date": "2020-01-01", "last_date": "2021-12-31"}),
    ),
    ("closed_vocabulary", "closed_vocabulary", False, {"closed_vocabulary": True}),
    (
        f"a length that is declared, as by max_trace_length {utility.LONGEST_CASE}",
        *("max_trace_length", None, {"max_trace_length": utility.LONGEST_CASE}),
    ),
    ("products variants, so without times", "products", "log", {"products": "variants"}),
    ("no durations", "durations", True, {"durations": False}),
)


# Methods of which each publishes less than those before it and than all others; the last one with
# figures that can be had of any log.
_LESS = ("auto-variants", "private-dfg", "process-tree", "private-indicators")
_FIGURES = ("cases", *(f"throughput of={of} at_most=30d" for of in ("mean", "median")),
            "within limit=7d")  # fmt: skip


_Change = tuple[str, Any, int]
"""Something else that could be released: what it is called, its parameters and cases."""


def recommend(method: Anonymizer, params: Any, verdict: Verdict) -> Recommendations:
    """Returns what would help a release, by public numbers alone.

    Args:
        method: A rigorous method.
        params: Its parameters.
        verdict: On them.
    """
    worth = verdict.worth
    kind = worth.kind or "graph"
    if worth.shortfall(kind) <= ENOUGH:
        return Recommendations(kind, worth.shortfall(kind), ())
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
    return Recommendations(kind, worth.shortfall(kind), tuple(helpful), others)


def _others(method: Anonymizer, params: Any, verdict: Verdict) -> Iterator[tuple[str, Verdict]]:
    """Yields methods that publish less and are worth it, of a usual process."""
    given = {**params.model_dump(exclude_unset=True), "indicators": _FIGURES}
    begin = _LESS.index(method.name) + 1 if method.name in _LESS else 0
    for name in _LESS[begin:] if "epsilon" in given else ():
        other = method_named(name)
        known = {key: given[key] for key in other.Params.model_fields if key in given}
        try:
            suggested = other, other.Params(**known), verdict.worth.n_cases
            judged = judged_at(*suggested, verdict.n_variants)
        except (pydantic.ValidationError, TracecloakError):
            continue
        if grade_of(judged.worth) == "worth it":
            yield name, judged


def shortfall_at(
    method: Anonymizer,
    params: Any,
    n_cases: int,
    kind: utility.Kind,
    process: utility.Process = utility.USUAL,
) -> float:
    """Returns the middle shortfall on a synthetic log, which a tree does without."""
    if kind == "tree":
        share = utility.noise_share_of(method, params, n_cases)
        return math.inf if share is None else share
    return utility.median_utility(method, params, n_cases, process).shortfall(kind)


def _changes(
    method: Anonymizer, params: Any, worth: utility.UtilityEstimate
) -> Iterator[list[_Change]]:
    """Yields what is tried: changes of one kind, of which a larger one follows a smaller one."""
    n_cases, more_cases = worth.n_cases, _MORE_CASES * worth.n_cases
    can_be_made = (
        more_cases <= utility.LARGEST_TRIED and more_cases * worth.n_names <= _LARGEST_TABLE
    )
    if can_be_made:
        yield [(f"{_MORE_CASES} times the cases", params, more_cases)]
    ladders: list[list[tuple[str, dict[str, Any]]]] = [[], []]
    for factor in _MORE_EPSILON if "epsilon" in params.model_fields_set else ():
        text = decimal_text(Fraction(params.epsilon) * factor)
        beside = "" if can_be_made else f", or about {factor} times the cases"
        if float(text) <= _MOST_EPSILON:
            ladders[0].append((f"epsilon {text}{beside}", {"epsilon": text}))
    names = method.bounds(params).vocabulary or ()
    see = ", see groups" * ("groups" in type(params).model_fields)
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


# --- Whether public numbers say beforehand that nobody could use a release. -----------------------
# Suppose that a log has 400 activities and about 40 cases. At epsilon 1 the noise of each of its
# 160,000 possible pairs is larger than what any pair counts, so what comes out is off by as much as
# it counts, and to publish nothing would be as good. Three public numbers are enough to find that
# before anything is read or paid: the declared cases, the declared activities and epsilon.
#
# The rule is that of a plan's verdict: on synthetic logs of those numbers, released with such
# noise, the answer is "no" (`verdict`; for graphs and logs that is an error of more than nine
# tenths of what is counted, even where all cases have one of a few variants). Nothing is said
# where the cases or the activities are not declared, where there are more than 100,000 cases, or
# where the noise is small beside them.


def unusable(plan: ReleasePlan, judged: Sequence[Verdict] | None = None) -> Verdict | None:
    """Returns the verdict by which a release is not usable; None: nothing speaks against it.

    It takes no time where nothing is declared or the noise is small.

    Args:
        plan: What would be released.
        judged: Verdicts by public numbers alone, of the expected cases if these are declared; None:
            that is judged here, with what would help.
    """
    method, params, n_cases = plan.method, plan.params, plan.keys.expected_cases
    if n_cases is None or plan.guarantee.kind != "rigorous":
        return None
    if plan.bounds.vocabulary is None or not utility.may_be_noise(method, params, n_cases):
        return None
    if judged is not None:
        return next((verdict for verdict in judged if verdict.grade == "no"), None)
    verdict = judged_at(method, params, n_cases, plan.keys.expected_variants)
    return with_recommendations(plan, verdict) if verdict.grade == "no" else None


def with_recommendations(plan: ReleasePlan, verdict: Verdict) -> Verdict:
    """Returns a verdict with what would help most, which is tried on synthetic logs."""
    return replace(verdict, remedy=recommend(plan.method, plan.params, verdict))


def unusable_sentence(verdict: Verdict) -> str:
    """Returns why a release is not usable and what would help, by public numbers alone."""
    n_cases, n_names = verdict.worth.n_cases, verdict.worth.n_names
    said = (
        f"NOT USABLE, by public numbers alone: with {n_cases:,} cases and {n_names:,} activities, "
        f"{verdict.why}."
    )
    return said if verdict.remedy is None else f"{said} {verdict.remedy.sentence}"
