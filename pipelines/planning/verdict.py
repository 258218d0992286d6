"""Whether a release is worth its budget, in words: from what `worth` foretells, and what to change.

Nothing here depends on an input: the numbers of cases are those that somebody names, the logs are
made up of public names, and the noise is that of the configuration. Three answers are given, by
these bounds:

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
* A list of figures is worth it if half of them are of use: shares and ranks of quantiles within ten
  points, counts within what they are, means within a fifth of their range.

It is not worth it if nobody could do anything with what comes out (`Worth.is_useless`), even of a
log whose cases hardly depart from a main path. It is hardly worth it if it lies between.
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
from tracecloak.pipelines.planning.advice import LARGEST_TRIED, is_mostly_noise
from tracecloak.pipelines.planning.worth import ORDERLY, Worth, worth_at, worth_of
from tracecloak.schemas.errors import TracecloakError

Grade = Literal["worth it", "hardly", "no"]

_READABLE_ERROR = 1 / 3
_HALF = 0.5
_CLEAR_NOISE, _DROWNING_NOISE = 1 / 10, 1 / 3
# A case of 15 different steps has 16 pairs, so a vector of this norm, to which a bought clip comes
# near in logs of such cases.
_USUAL_CLIP = 4.0
# What is tried to mend a verdict: factors, of which a larger one is tried where a smaller one does
# not help. An epsilon above the last number promises too little to be proposed, and so few names
# say too little of a process.
_MORE_CASES, _MORE_EPSILON, _FEWER_NAMES = 10, (4, 16), (4, 16)
_MOST_EPSILON, _FEWEST_NAMES = 4, 10
# More cases than so many, times the activities, are not made up for that, as it takes minutes. To a
# count that is k times as large, noise is what noise of k times the epsilon is to the count itself.
_LARGEST_TABLE = 1_000_000


@dataclass(frozen=True)
class Verdict:
    """Whether a release of so many cases is worth it.

    Attributes:
        worth: What came out of a made-up log of that size.
        grade: The answer.
        noise_share: Deviation of the noise of the pairs of a tree to the number of cases; None:
            what is released has counts to compare, or nobody can tell.
        mends: What would make it better, in sentences.
        obstacle: What makes it worth nothing whatever its size, or empty.
        orderly: What came out of a made-up log of an orderly process, where that is of use and a
            usual one is of none.
    """

    worth: Worth
    grade: Grade
    noise_share: float | None
    mends: tuple[str, ...] = ()
    obstacle: str = ""
    orderly: Worth | None = None

    def in_spite_of(self, obstacle: str) -> Verdict:
        """Returns the verdict of an input that an obstacle makes worthless, if it is not empty."""
        return replace(self, grade="no", mends=(), obstacle=obstacle) if obstacle else self

    @property
    def sentence(self) -> str:
        """The verdict in words, for somebody who sees such numbers for the first time."""
        size = f"{self.worth.n_cases:,} case{'s' if self.worth.n_cases != 1 else ''}"
        answer = {"worth it": "Worth it", "hardly": "Hardly", "no": "No"}[self.grade]
        return " ".join([f"{answer}, with {size}: {self.why}.", *self.mends])

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        worth = self.worth
        return {
            "cases": worth.n_cases,
            "verdict": self.grade.replace(" ", "_"),
            "graph_error": _rounded(worth.graph_error),
            "case_share": _rounded(worth.case_share),
            "noise_share": _rounded(self.noise_share),
            "sentence": self.sentence,
        }

    @property
    def in_short(self) -> str:
        """The number that it follows from."""
        if self.noise_share is not None:
            return f"noise of {_percent(self.noise_share)} of the cases"
        if self.worth.graph_error is not None:
            return f"counts off by about {_percent(self.worth.graph_error)}"
        if self.worth.errors:
            return f"{self.worth.n_usable} of {len(self.worth.errors)} figures"
        return "something comes out"

    @property
    def why(self) -> str:
        """What the answer follows from, as a part of a sentence."""
        worth = self.worth
        if self.obstacle:
            return self.obstacle
        if worth.refusal:
            return f"the method refuses, {worth.refusal}"
        if worth.errors:
            return f"{worth.n_usable} of {len(worth.errors)} figures will be of use"
        if worth.held.is_empty:
            return "the noise is larger than what there is to count, so nothing comes out"
        if self.noise_share is not None:
            return (
                "the noise on each pair of steps that the tree is made of is as large as "
                f"{_percent(self.noise_share)} of the cases"
            )
        reasons = []
        if worth.graph_error is not None:
            reasons.append(_of_error(worth.graph_error))
        if worth.case_share is not None:
            reasons.append(
                f"the variants that come out have {_percent(worth.case_share)} of the cases"
            )
        if _names_share(worth) < _HALF:
            reasons.append(
                f"only {worth.held.n_activities} of {worth.n_names} activities come out by name"
            )
        if self.orderly is not None and self.orderly.graph_error is not None:
            reasons.append(
                "if hardly a case departs from the main path, the counts are off by about "
                f"{_percent(self.orderly.graph_error)}"
            )
        return ", and ".join(reasons) or "what comes out has no numbers to compare"


def verdicts(method: Anonymizer, params: Any, sizes: Sequence[int]) -> Iterator[Verdict]:
    """Yields a verdict for each number of cases, with what would mend it; none is of any input.

    Args:
        method: A rigorous method.
        params: Its parameters.
        sizes: Numbers of cases.
    """
    for n_cases in sizes:
        judged = judged_at(method, params, n_cases)
        yield judged if judged.grade == "worth it" else with_mends(method, params, judged)


def judged_at(method: Anonymizer, params: Any, n_cases: int) -> Verdict:
    """Returns the verdict for a number of cases, without what would mend it; see `verdicts`.

    Of 300 cases at epsilon 0.5 nothing is left if every case goes its own way, and the main path
    is if most cases follow it. So it is not said to be worth nothing unless both are.
    """
    judged = _judged(method, params, worth_at(method, params, n_cases))
    if judged.grade != "no" or judged.worth.refusal:
        return judged
    orderly = worth_at(method, params, n_cases, ORDERLY)
    if grade_of(orderly, judged.noise_share) == "no":
        return judged
    return replace(judged, grade="hardly", orderly=orderly)


def with_mends(method: Anonymizer, params: Any, verdict: Verdict) -> Verdict:
    """Returns a verdict with what would mend it, which is tried on logs that are made up."""
    return replace(verdict, mends=tuple(_mends(method, params, verdict)))


def advice_on(method: Anonymizer, params: Any, n_cases: int) -> str:
    """Returns that a release is mostly noise, and what would help; empty where it is not.

    Tried on made-up logs of as many cases as were released, so it follows from what is released and
    public. It is tried where noise is large beside that number, as it takes some seconds.

    Args:
        method: A rigorous method.
        params: Its parameters.
        n_cases: Cases of what was released, noise included.
    """
    if not is_mostly_noise(method, params, n_cases):
        return ""
    [verdict] = verdicts(method, params, [n_cases])
    if verdict.grade == "worth it":
        return ""
    share = "most" if verdict.grade == "no" else "much"
    tried = (
        f"{share} of what is released is noise. On a made-up log of as many cases, {verdict.why}."
    )
    return " ".join([tried, *verdict.mends])


def grade_of(worth: Worth, noise_share: float | None = None) -> Grade:
    """Returns the answer; see the module for the bounds."""
    if worth.is_useless or worth.refusal:
        return "no"
    if noise_share is not None and noise_share >= _DROWNING_NOISE:
        return "no"
    if worth.errors:
        return "worth it" if 2 * worth.n_usable >= len(worth.errors) else "hardly"
    error, share = worth.graph_error, worth.case_share
    if noise_share is not None:
        is_good = noise_share <= _CLEAR_NOISE
    else:
        is_good = (error is not None and error <= _READABLE_ERROR) or (
            share is not None and share >= _HALF
        )
    return "worth it" if is_good and _names_share(worth) >= _HALF else "hardly"


def _judged(method: Anonymizer, params: Any, worth: Worth) -> Verdict:
    noise_share = None
    if worth.graph_error is None and not worth.refusal and not worth.errors:
        noise = _noise_of_pairs(method, params)
        noise_share = None if noise is None else noise / worth.n_cases
    return Verdict(worth, grade_of(worth, noise_share), noise_share)


_ORDER: tuple[Grade, ...] = ("no", "hardly", "worth it")


@dataclass(frozen=True)
class _Change:
    """Something else that could be released: what it is called, its parameters and cases."""

    what: str
    params: Any
    n_cases: int


def _mends(method: Anonymizer, params: Any, verdict: Verdict) -> Iterator[str]:
    """Yields what each change that was tried would give, a sentence each."""
    n_cases, n_names = verdict.worth.n_cases, verdict.worth.n_names
    more_cases = _with_more_cases(params, n_cases, n_names)
    more_epsilon = _with_more_epsilon(params, n_cases, stands_for_cases=not more_cases)
    better, tried = [], []
    for changes in (more_cases, more_epsilon, _with_fewer_names(method, params, n_cases)):
        for change in changes:
            then = _judged(method, change.params, worth_of(method, change.params, change.n_cases))
            if _ORDER.index(then.grade) > _ORDER.index(verdict.grade):
                better.append((change.what, then))
                break
        tried += [change.what for change in changes[-1:]]
    for what, then in better:
        answer = "would be worth it" if then.grade == "worth it" else "would hardly be worth it"
        yield f"With {what} it {answer} ({then.in_short})."
    if not better:
        fewer = "figures" if verdict.worth.errors else "activities"
        yield (
            f"{'With ' + ' or '.join(tried) + ' that stays so: take' if tried else 'Take'} fewer "
            f"{fewer}, or another method (`tracecloak catalogue --all` lists them)."
        )


def _with_more_cases(params: Any, n_cases: int, n_names: int) -> list[_Change]:
    more = _MORE_CASES * n_cases
    if more > LARGEST_TRIED or more * n_names > _LARGEST_TABLE:
        return []
    return [_Change(f"{_MORE_CASES} times the cases", params, more)]


def _with_more_epsilon(params: Any, n_cases: int, stands_for_cases: bool) -> list[_Change]:
    """Returns the parameters with several times the epsilon; none if they cannot have it."""
    if "epsilon" not in params.model_fields_set:
        return []
    changes = []
    for number, factor in enumerate(_MORE_EPSILON):
        epsilon = Fraction(str(params.epsilon)) * factor
        if number and epsilon > _MOST_EPSILON:
            break
        text = decimal_text(epsilon)
        changed = _changed(params, epsilon=text)
        what = f"epsilon {text}"
        if stands_for_cases:
            what += f", or about {factor} times the cases,"
        changes += [] if changed is None else [_Change(what, changed, n_cases)]
    return changes


def _with_fewer_names(method: Anonymizer, params: Any, n_cases: int) -> list[_Change]:
    """Returns the parameters with a part of the declared names; none if they are few, or bought."""
    names = method.bounds(params).vocabulary or ()
    has_groups = "groups" in type(params).model_fields
    beside = " (`--groups` counts groups beside the activities)" * has_groups
    changes = []
    for factor in _FEWER_NAMES:
        n_left = len(names) // factor
        changed = _changed(params, vocabulary=names[:n_left]) if n_left >= _FEWEST_NAMES else None
        what = f"{n_left:,} activities, each a group of those there are{beside},"
        changes += [] if changed is None else [_Change(what, changed, n_cases)]
    return changes


def _changed(params: Any, **values: Any) -> Any | None:
    """Returns parameters with other values; None: the method does not take them."""
    try:
        return type(params)(**{**params.model_dump(exclude_unset=True), **values})
    except (pydantic.ValidationError, TracecloakError):
        return None


def _noise_of_pairs(method: Anonymizer, params: Any) -> float | None:
    """Returns the deviation of the noise on each directly-follows pair; None: it is not known."""
    for part in method.spends(params):
        for block in part.blocks:
            if block.what == "pairs":
                deviation = float(Fraction(*block.scale) / block.units)
                return deviation * (_USUAL_CLIP if block.is_per_clip else 1.0)
    return None


def _names_share(worth: Worth) -> float:
    n = worth.held.n_activities
    return 1.0 if n is None else n / worth.n_names


def _of_error(error: float) -> str:
    if error >= 1:
        return "the errors of the graph's counts are as large as the counts"
    return f"the counts of the graph will be off by about {_percent(error)}"


def _percent(share: float) -> str:
    """A share in percent, with as many digits as somebody would say: 0.4 %, 3 %, 28 %."""
    percent = 100 * share
    digits = 0 if percent >= 1 or percent == 0 else 1 - math.floor(math.log10(percent)) - 1
    return f"{percent:.{digits}f} %"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
