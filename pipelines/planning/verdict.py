"""Whether a release is worth its budget, in words: from what `worth` foretells, and what to change.

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
  (`schemas.published.figure`).

It is not worth it if nobody could use what is released (`Worth.is_useless`), and hardly worth it if
it lies between. Where the best and the worst that is likely have different answers, it depends: on
how alike the cases are, if that is not declared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.pipelines.planning.advice import is_mostly_noise
from tracecloak.pipelines.planning.worth import (
    Kind,
    Worth,
    ends_at,
    in_percent,
    in_words,
    percent,
    processes,
    unknown,
    worth_at,
)

Grade = Literal["worth it", "hardly", "no", "depends"]

_HALF = 0.5
GOOD = {"graph": 1 / 3, "variants": 1 / 2, "tree": 1 / 10, "figures": 1 / 2}
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
        mends: What would make it better; None: that was not tried.
        obstacle: What makes it worth nothing whatever its size, or empty.
    """

    worth: Worth
    ends: tuple[Worth, Worth]
    grade: Grade
    n_variants: int | None = None
    mends: Mends | None = None
    obstacle: str = ""

    def in_spite_of(self, obstacle: str) -> Verdict:
        """Returns the verdict of an input that an obstacle makes worthless, if it is not empty."""
        return replace(self, grade="no", mends=None, obstacle=obstacle) if obstacle else self

    @property
    def sentence(self) -> str:
        """The verdict in words, for somebody who sees such numbers for the first time."""
        return f"{self._answer}: {self.why}."

    @property
    def in_short(self) -> str:
        """The verdict with the numbers that it follows from."""
        kind = self.worth.kind
        return f"{self._answer} ({in_words(kind, *self.between(kind)) if kind else self.why})"

    def between(self, kind: Kind) -> tuple[float, float]:
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
            "would_help": [] if self.mends is None else self.mends.to_json(),
            "other_methods": [] if self.mends is None else self.mends.others_json(),
        }

    @property
    def why(self) -> str:
        """What the answer follows from, as a part of a sentence."""
        worth, (best, worst) = self.worth, self.ends
        if self.obstacle:
            return self.obstacle
        if worth.refusal:
            return f"the method refuses, {worth.refusal}"
        if worth.errors:
            return f"{worth.n_usable} of {len(worth.errors)} figures will be of use"
        if best.held.is_empty:
            return "the noise is larger than what there is to count, so nothing comes out"
        if worth.noise_share is not None:
            return (
                "the noise on each pair of steps that the tree is made of is as large as "
                f"{percent(worth.noise_share)} of the cases"
            )
        reasons = []
        if best.graph_error is not None:
            off = in_percent("graph", *self.between("graph"))
            reasons.append(f"the counts of the graph will be off by {off}")
        if best.case_share is not None:
            shares = in_percent("variants", *self.between("variants")[::-1])
            reasons.append(f"the variants that are released have {shares} of the cases")
        if _names_share(worst) < _HALF:
            n_released = sorted({worst.held.n_activities or 0, best.held.n_activities or 0})
            released = " to ".join(map(str, n_released))
            reasons.append(f"{released} of {worth.n_names} activities are released by name")
        said = ", and ".join(reasons) or "what comes out has no numbers to compare"
        return f"{said}, depending on {unknown(self.n_variants)}" if reasons else said


def judged_at(
    method: Anonymizer, params: Any, n_cases: int, n_variants: int | None = None
) -> Verdict:
    """Returns the verdict for a number of cases, without what would mend it.

    It is of public numbers alone, or of what was released before.

    Args:
        method: A rigorous method.
        params: Its parameters.
        n_cases: Cases of the release.
        n_variants: How many variants they have, if that is declared.
    """
    found = processes(n_variants, n_cases)
    worth = worth_at(method, params, n_cases, found[len(found) // 2])
    is_drawn = worth.graph_error is not None  # else no log has a part in it, or it is refused
    ends = ends_at(method, params, n_cases, n_variants) if is_drawn else (worth, worth)
    best, worst = map(grade_of, ends)
    return Verdict(worth, ends, best if best == worst else "depends", n_variants)


@dataclass(frozen=True)
class Mends:
    """What would help a release.

    Attributes:
        kind: What it is judged by.
        now: Its shortfall of that as it is.
        helpful: What helps, with the shortfall then; what gains most is first.
        others: Verdicts of other methods that would do, by their names.
    """

    kind: Kind
    now: float
    helpful: tuple[tuple[str, float], ...]
    others: tuple[tuple[str, Verdict], ...] = ()

    @property
    def sentence(self) -> str:
        """What would help most, by figures; or what else to do."""
        return " ".join(filter(None, (self._change, self._method)))

    @property
    def _change(self) -> str:
        if self.helpful:
            (what, then), *others = self.helpful
            instead = [self.now] * math.isfinite(self.now)
            texts = [f"{what} ({in_words(self.kind, then, *instead, joined=' instead of ')})"]
            texts += [f"{what} ({in_percent(self.kind, then)})" for what, then in others]
            usual = " for a usual process" * (self.kind in ("graph", "variants"))
            return f"What would help most{usual}: {'; '.join(texts)}."
        if self.now <= ENOUGH:
            return f"Little is left to gain: {in_words(self.kind, self.now)}."
        return "Nothing that was tried would help much."

    @property
    def _method(self) -> str:
        """Which other methods would do."""
        texts = []
        for name, verdict in self.others:
            usable = [error.figure for error in verdict.worth.errors if error.grade != "noise"]
            kind = verdict.worth.kind or "graph"
            texts.append(f"{name} ({', '.join(usable) or in_words(kind, *verdict.between(kind))})")
        return f"Other methods that would do: {'; '.join(texts)}." if texts else ""

    def others_json(self) -> list[dict[str, Any]]:
        """Returns the other methods as JSON values."""
        return [{"method": name, **verdict.to_json()} for name, verdict in self.others]

    def to_json(self) -> list[dict[str, Any]]:
        """Returns what helps as JSON values."""
        now = round(self.now, 4) if math.isfinite(self.now) else None
        of = {"of": self.kind, "now": now}
        return [{"what": what, **of, "then": round(then, 4)} for what, then in self.helpful]


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
    if not is_mostly_noise(method, params, n_cases):
        return ""
    verdict = judged_at(method, params, n_cases)
    if verdict.grade == "worth it":
        return ""
    shares = {"no": "most of what is released is noise", "depends": "much may be noise"}
    share = shares.get(verdict.grade, "much of what is released is noise")
    mend = "`tracecloak plan` tries what would help most."
    return f"{share}. On synthetic logs of as many cases, {verdict.why}. {mend}"


def grade_of(worth: Worth) -> Grade:
    """Returns the answer; see the module for the bounds."""
    noise_share = worth.noise_share
    if worth.is_useless or worth.refusal:
        return "no"
    if noise_share is not None and noise_share >= USELESS["tree"]:
        return "no"
    if worth.errors:
        return "worth it" if 2 * worth.n_usable >= len(worth.errors) else "hardly"
    error, share = worth.graph_error, worth.case_share
    if noise_share is not None:
        is_good = noise_share <= GOOD["tree"]
    else:
        is_good = (error is not None and error <= GOOD["graph"]) or (
            share is not None and share >= GOOD["variants"]
        )
    return "worth it" if is_good and _names_share(worth) >= _HALF else "hardly"


def _names_share(worth: Worth) -> float:
    n = worth.held.n_activities
    return 1.0 if n is None else n / worth.n_names


def _rounded(values: list[float | None]) -> Any:
    """Returns numbers for JSON; None where there are none."""
    return None if None in values else [round(value, 4) for value in values if value is not None]
