"""The epsilon by which a release is as good as somebody wants it, found on synthetic logs.

A goal is `graph within 10 %`, `variants of 60 %`, `tree within 5 %`, or `figures` (of which all
are of use then; `figures of 80 %` asks for as many). Of a regular and of a variable process (see
`worth`), bisection finds the least epsilon of a grid, whose steps are a tenth, from which on the
goal is reached: what is released is better by a larger epsilon, but for chance.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, cast

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.pipelines.planning.verdict import changed_params, shortfall_at
from tracecloak.pipelines.planning.worth import Kind, ends_at, in_words, unknown, worth_at
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.publish.promise import caution

# From 0.01 to 16, two digits each, 24 in each power of ten.
EPSILONS = tuple(decimal_text(Fraction(f"{10 ** (k / 24):.1e}")) for k in range(-48, 30))
_KINDS: tuple[Kind, ...] = ("graph", "variants", "tree", "figures")
_ROUNDING = 1e-9
_GOAL = re.compile(r"(?:(graph|tree) within|(variants|figures) of) (\d+(?:\.\d+)?) ?%|figures")


@dataclass(frozen=True)
class Goal:
    """How good a release is to be.

    Attributes:
        kind: By what.
        shortfall: How far it may be from all that there is.
    """

    kind: Kind
    shortfall: float

    @classmethod
    def of(cls, text: str) -> Goal:
        """Reads one.

        Raises:
            UsageError: It is none.
        """
        found = _GOAL.fullmatch(text.strip())
        if found is None or not 0 <= (share := float(found[3] or 100) / 100) <= 1:
            raise UsageError(
                f"--for is {text!r}, and must be 'graph within 10 %', 'variants of 60 %', 'tree "
                "within 5 %', 'figures' or 'figures of 80 %'"
            )
        kind = cast(Kind, found[1] or found[2] or "figures")
        return cls(kind, share if found[1] else 1 - share)


@dataclass(frozen=True)
class Least:
    """The least epsilon for a goal.

    Attributes:
        text: The goal, as it was given.
        kind: By what it is measured.
        n_cases: Cases of the synthetic logs.
        places: Where in `EPSILONS` it is by the best and by the worst that is likely; behind the
            last one where the goal is not reached.
        best: The best that is likely with the largest of all.
        caution: How little the largest epsilon promises, or empty.
        n_variants: How many variants the cases have, if that is declared.
    """

    text: str
    kind: Kind
    n_cases: int
    places: tuple[int, int]
    best: float
    caution: str
    n_variants: int | None

    @property
    def epsilons(self) -> tuple[str | None, str | None]:
        """From which epsilon on the goal may be reached, and is; None: not up to the largest."""
        least, most = (EPSILONS[one] if one < len(EPSILONS) else None for one in self.places)
        return least, most

    @property
    def sentence(self) -> str:
        """The least epsilon with its range, or how near one comes to the goal."""
        aim, (least, most) = f"For {self.text!r}, with {self.n_cases:,} cases", self.epsilons
        if least is None:
            # Rounded away from the goal, which it is not.
            best = in_words(self.kind, math.ceil(100 * self.best) / 100)
            return f"{aim}: not reached up to epsilon {EPSILONS[-1]}, whose best is {best}."
        beside = f" {self.caution}" * bool(self.caution)
        if least == most:
            return f"{aim}: epsilon {least} at least, by public numbers alone.{beside}"
        up_to = most or f"more than {EPSILONS[-1]}"
        return (
            f"{aim}: epsilon {least} to {up_to}, depending on {unknown(self.n_variants)}.{beside}"
        )

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        return {
            "for": self.text,
            "cases": self.n_cases,
            "epsilon": list(self.epsilons),
            "best_shortfall": round(self.best, 4),
        }


def least_epsilon(
    method: Anonymizer, params: Any, n_cases: int, text: str, n_variants: int | None = None
) -> Least:
    """Returns the least epsilon for a goal; from public numbers alone.

    Args:
        method: A rigorous method.
        params: Its parameters, whose epsilon is replaced.
        n_cases: Cases of the synthetic logs.
        text: The goal.
        n_variants: How many variants they have, if that is declared.

    Raises:
        UsageError: That is no goal, or none of this method, or the method takes no epsilon.
    """
    goal = Goal.of(text)

    @lru_cache
    def between(place: int) -> tuple[float, ...]:
        changed = _with(method, params, place)
        if goal.kind == "tree":
            return (shortfall_at(method, changed, n_cases, goal.kind),) * 2
        return tuple(
            end.shortfall(goal.kind) for end in ends_at(method, changed, n_cases, n_variants)
        )

    grid = range(len(EPSILONS))
    best = between(len(EPSILONS) - 1)[0]
    if math.isinf(best):
        worth = worth_at(method, _with(method, params, -1), n_cases)
        judged = [kind for kind in _KINDS if math.isfinite(worth.shortfall(kind))]
        raise UsageError(
            f"--for is {text!r}, and what {method.name} releases is judged by "
            f"{' or '.join(judged) or 'nothing that could be foretold'}"
        )

    def place_of(end: int) -> int:
        reached = goal.shortfall + _ROUNDING
        return bisect_left(grid, True, key=lambda place: between(place)[end] <= reached)

    places = place_of(0), place_of(1)
    promise = caution(method.guarantee(_with(method, params, min(places[1], len(EPSILONS) - 1))))
    return Least(text, goal.kind, n_cases, places, best, promise, n_variants)


def _with(method: Anonymizer, params: Any, place: int) -> Any:
    changed = changed_params(params, epsilon=EPSILONS[place])
    if changed is None:
        raise UsageError(
            f"--for looks for the least epsilon, and {method.name} takes none with these parameters"
        )
    return changed
