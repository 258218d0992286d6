"""The least epsilon by which a release is as good as somebody wants it, found on made-up logs.

A goal is `graph within 10 %`, `variants of 60 %`, `tree within 5 %`, or `figures` (of which all
are of use then; `figures of 80 %` asks for as many). Several logs are released, each with noise of
its own. For each of them bisection finds the least epsilon of a grid, whose steps are a tenth, from
which on the goal is reached: what comes out is better by a larger epsilon, but for chance. The
middle one is told. In fifteen of sixteen searches the middle of all possible runs lies between the
smallest and the largest of five (David and Nagaraja, Order Statistics, 2003, section 7.1).
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, cast

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.pipelines.planning.levers import NOT_DRAWN, changed_params, shortfall_of
from tracecloak.pipelines.planning.worth import Kind, in_words, worth_of
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.publish.promise import caution

# From 0.01 to 16, two digits each, 24 in each power of ten.
EPSILONS = tuple(decimal_text(Fraction(f"{10 ** (k / 24):.1e}")) for k in range(-48, 30))
_RUNS = 5
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
        n_cases: Cases of the made-up logs.
        places: Where in `EPSILONS` the least one of each run is, the smallest first; behind the
            last one where it is not reached.
        best: What the middle run comes to with the largest of all.
        caution: How little such an epsilon promises, or empty.
    """

    text: str
    kind: Kind
    n_cases: int
    places: tuple[int, ...]
    best: float
    caution: str

    @property
    def epsilon(self) -> str | None:
        """The least one; None: the goal is not reached."""
        place = self.places[len(self.places) // 2]
        return EPSILONS[place] if place < len(EPSILONS) else None

    @property
    def between(self) -> tuple[str, str]:
        """What it lies between: no run reaches the goal by the first, and all do by the second."""
        least, most = self.places[0], self.places[-1]
        after = EPSILONS[most] if most < len(EPSILONS) else f"more than {EPSILONS[-1]}"
        return EPSILONS[least - 1] if least else "0", after

    @property
    def sentence(self) -> str:
        """The least epsilon with its uncertainty, or how near one comes to the goal."""
        aim = f"For {self.text!r}, with {self.n_cases:,} cases"
        if self.epsilon is None:
            # Rounded away from the goal, which it is not.
            best = in_words(self.kind, math.ceil(100 * self.best) / 100)
            return f"{aim}: not reached up to epsilon {EPSILONS[-1]}, whose best is {best}."
        n_runs, (first, last) = len(self.places), self.between
        logs = "by public numbers alone" if n_runs == 1 else f"by {n_runs} releases of made-up logs"
        beside = f" {self.caution}" * bool(self.caution)
        return (
            f"{aim}: epsilon {self.epsilon} at least, {logs}, between {first} and {last}.{beside}"
        )

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        return {
            "for": self.text,
            "cases": self.n_cases,
            "epsilon": self.epsilon,
            "between": list(self.between),
            "best_shortfall": round(self.best, 4),
        }


def least_epsilon(method: Anonymizer, params: Any, n_cases: int, text: str) -> Least:
    """Returns the least epsilon for a goal; from public numbers alone.

    Args:
        method: A rigorous method.
        params: Its parameters, whose epsilon is replaced.
        n_cases: Cases of the made-up logs.
        text: The goal.

    Raises:
        UsageError: That is no goal, or none of this method, or the method takes no epsilon.
    """
    goal = Goal.of(text)

    def shortfall(run: int, place: int) -> float:
        return shortfall_of(method, _with(method, params, place), n_cases, goal.kind, run)

    def is_reached(run: int, place: int) -> bool:
        return shortfall(run, place) <= goal.shortfall + _ROUNDING

    runs = range(1 if goal.kind in NOT_DRAWN else _RUNS)
    best = sorted(shortfall(run, -1) for run in runs)[len(runs) // 2]
    if math.isinf(best):
        worth = worth_of(method, _with(method, params, -1), n_cases)
        judged = [kind for kind in _KINDS if math.isfinite(worth.shortfall(kind))]
        raise UsageError(
            f"--for is {text!r}, and what {method.name} releases is judged by "
            f"{' or '.join(judged) or 'nothing that could be foretold'}"
        )
    places = [len(EPSILONS)] * len(runs)
    if best <= goal.shortfall + _ROUNDING:
        for run in runs:
            grid = range(len(EPSILONS))
            places[run] = bisect_left(grid, True, key=partial(is_reached, run))
    places.sort()
    middle = min(places[len(runs) // 2], len(EPSILONS) - 1)
    promise = caution(method.guarantee(_with(method, params, middle)))
    return Least(text, goal.kind, n_cases, tuple(places), best, promise)


def _with(method: Anonymizer, params: Any, place: int) -> Any:
    changed = changed_params(params, epsilon=EPSILONS[place])
    if changed is None:
        raise UsageError(
            f"--for looks for the least epsilon, and {method.name} takes none with these parameters"
        )
    return changed
