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

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.pipelines.planning.advice import is_mostly_noise
from tracecloak.pipelines.planning.worth import ORDERLY, Worth, in_words, is_slow, percent, worth_at

if TYPE_CHECKING:
    from tracecloak.pipelines.planning.levers import Mends

Grade = Literal["worth it", "hardly", "no"]

READABLE_ERROR = 1 / 3
_HALF = 0.5
CLEAR_NOISE, _DROWNING_NOISE = 1 / 10, 1 / 3


@dataclass(frozen=True)
class Verdict:
    """Whether a release of so many cases is worth it.

    Attributes:
        worth: What came out of a made-up log of that size.
        grade: The answer.
        mends: What would make it better; None: that was not tried.
        obstacle: What makes it worth nothing whatever its size, or empty.
        orderly: What came out of a made-up log of an orderly process, where that is of use and a
            usual one is of none.
    """

    worth: Worth
    grade: Grade
    mends: Mends | None = None
    obstacle: str = ""
    orderly: Worth | None = None

    def in_spite_of(self, obstacle: str) -> Verdict:
        """Returns the verdict of an input that an obstacle makes worthless, if it is not empty."""
        return replace(self, grade="no", mends=None, obstacle=obstacle) if obstacle else self

    @property
    def sentence(self) -> str:
        """The verdict in words, for somebody who sees such numbers for the first time."""
        return f"{self._answer}: {self.why}."

    @property
    def in_short(self) -> str:
        """The verdict with the number that it follows from."""
        kind = self.worth.kind
        return (
            f"{self._answer} ({in_words(kind, self.worth.shortfall(kind)) if kind else self.why})"
        )

    @property
    def _answer(self) -> str:
        size = f"{self.worth.n_cases:,} case{'s' if self.worth.n_cases != 1 else ''}"
        answer = {"worth it": "Worth it", "hardly": "Hardly", "no": "No"}[self.grade]
        return f"{answer}, with {size}"

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        worth = self.worth
        return {
            "cases": worth.n_cases,
            "verdict": self.grade.replace(" ", "_"),
            "graph_error": _rounded(worth.graph_error),
            "case_share": _rounded(worth.case_share),
            "noise_share": _rounded(worth.noise_share),
            "sentence": self.sentence,
            "would_help": [] if self.mends is None else self.mends.to_json(),
        }

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
        if worth.noise_share is not None:
            return (
                "the noise on each pair of steps that the tree is made of is as large as "
                f"{percent(worth.noise_share)} of the cases"
            )
        reasons = []
        if worth.graph_error is not None:
            reasons.append(_of_error(worth.graph_error))
        if worth.case_share is not None:
            reasons.append(
                f"the variants that come out have {percent(worth.case_share)} of the cases"
            )
        if _names_share(worth) < _HALF:
            reasons.append(
                f"only {worth.held.n_activities} of {worth.n_names} activities come out by name"
            )
        if self.orderly is not None and self.orderly.graph_error is not None:
            reasons.append(
                "if hardly a case departs from the main path, the counts are off by about "
                f"{percent(self.orderly.graph_error)}"
            )
        return ", and ".join(reasons) or "what comes out has no numbers to compare"


def judged_at(method: Anonymizer, params: Any, n_cases: int) -> Verdict:
    """Returns the verdict for a number of cases, without what would mend it.

    It is of public numbers alone. Of 300 cases at epsilon 0.5 nothing is left if every case goes
    its own way, and the main path is if most cases follow it. So it is not said to be worth nothing
    unless both are.
    """
    worth = worth_at(method, params, n_cases)
    judged = Verdict(worth, grade_of(worth))
    if judged.grade != "no" or judged.worth.refusal:
        return judged
    orderly = worth_at(method, params, n_cases, ORDERLY)
    if grade_of(orderly) == "no":
        return judged
    return replace(judged, grade="hardly", orderly=orderly)


def advice_on(method: Anonymizer, params: Any, n_cases: int) -> str:
    """Returns that a release is mostly noise, and what would help; empty where it is not.

    Tried on made-up logs of as many cases as were released, so it follows from what is released and
    public. It is tried where noise is large beside that number, as it takes some seconds; what
    would help a log of many names takes more of them, and is left to the plan.

    Args:
        method: A rigorous method.
        params: Its parameters.
        n_cases: Cases of what was released, noise included.
    """
    if not is_mostly_noise(method, params, n_cases):
        return ""
    verdict = judged_at(method, params, n_cases)
    if verdict.grade == "worth it":
        return ""
    mend = "`tracecloak plan` tries what would help most."
    if not is_slow(method, verdict.worth.n_names):
        from tracecloak.pipelines.planning.levers import mends_of

        mend = mends_of(method, params, verdict.worth).sentence
    share = "most" if verdict.grade == "no" else "much"
    on_made_up = f"On a made-up log of as many cases, {verdict.why}."
    return f"{share} of what is released is noise. {on_made_up} {mend}"


def grade_of(worth: Worth) -> Grade:
    """Returns the answer; see the module for the bounds."""
    noise_share = worth.noise_share
    if worth.is_useless or worth.refusal:
        return "no"
    if noise_share is not None and noise_share >= _DROWNING_NOISE:
        return "no"
    if worth.errors:
        return "worth it" if 2 * worth.n_usable >= len(worth.errors) else "hardly"
    error, share = worth.graph_error, worth.case_share
    if noise_share is not None:
        is_good = noise_share <= CLEAR_NOISE
    else:
        is_good = (error is not None and error <= READABLE_ERROR) or (
            share is not None and share >= _HALF
        )
    return "worth it" if is_good and _names_share(worth) >= _HALF else "hardly"


def _names_share(worth: Worth) -> float:
    n = worth.held.n_activities
    return 1.0 if n is None else n / worth.n_names


def _of_error(error: float) -> str:
    if error >= 1:
        return "the errors of the graph's counts are as large as the counts"
    return f"the counts of the graph will be off by about {percent(error)}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
