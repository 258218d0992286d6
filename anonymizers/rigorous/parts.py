"""One part of a release as a value: what it counts, needs, says and decides.

A method is a tuple of them (`parts_method`). So the plan, the accounting and the noise that is
drawn cannot disagree, and a further part is one more value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.rigorous.budget import Budget, Means, Need, budget_of


@dataclass(frozen=True)
class Given:
    """What a part is decided on.

    Attributes:
        statistics: The totals of its round, by name.
        decisions: What was decided before, by the names of parts or of rounds: in the rounds
            before, and by the parts of the same round that come before it.
        means: What each need of the release may spend, by name.
        randomness: The release's.
    """

    statistics: Mapping[str, Any]
    decisions: Mapping[str, Any]
    means: Means
    randomness: Randomness


@dataclass(frozen=True)
class Part:
    """One part.

    Attributes:
        name: In the plan and in what is decided.
        needs: What it has to spend; of names of their own in the release.
        sentence: What it does with these means, and the error to expect.
        decide: What it decides: a columnar value.
        counters: What is counted for it, by name; equal names are one and the same counter.
        round: The round in which it is decided.
        reality: Why epsilon and delta hold for it, in sentences; empty where those of another part
            say it as well.
        chosen: What of the log's form it chooses, in words, such as a vocabulary that could be
            public instead; empty where it is what the release is about.
    """

    name: str
    needs: tuple[Need, ...]
    sentence: Callable[[Means], str]
    decide: Callable[[Given], Any]
    counters: Mapping[str, contract.Counter] = field(default_factory=dict)
    round: str = ""
    reality: str = ""
    chosen: str = ""


@dataclass(frozen=True)
class PartsDecision(contract.Decision):
    """What the parts of a round decided.

    Attributes:
        parts: By their names.
    """

    wire_name: ClassVar[str] = "parts"

    parts: dict[str, Any]


def budget_of_parts(parts: Iterable[Part], epsilon: Fraction, delta: Fraction) -> Budget:
    """Returns what the parts may spend of epsilon and delta.

    Raises:
        UsageError: See `budget_of`.
        AssertionError: See `Budget.check_order`, in the order in which `PartsMethod` decides.
    """
    parts = tuple(parts)
    rounds = [part.round for part in parts]
    in_order = sorted(parts, key=lambda part: rounds.index(part.round))
    budget = budget_of(epsilon, delta, tuple(need for part in parts for need in part.needs))
    budget.check_order(need for part in in_order for need in part.needs)
    return budget
