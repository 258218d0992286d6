"""One part of a release as a value: what it counts, needs, says and decides.

A method of several parts is a loop over a tuple of them. So the plan, the accounting and the noise
that is drawn cannot disagree, and a further part is one more value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.rigorous.budget import Budget, Means, Need, budget_of


@dataclass(frozen=True)
class Given:
    """What a part is decided on.

    Attributes:
        statistics: The totals of its round, by name.
        decisions: What was decided before, by the names of parts or of rounds.
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
    """

    name: str
    needs: tuple[Need, ...]
    sentence: Callable[[Means], str]
    decide: Callable[[Given], Any]
    counters: Mapping[str, contract.Counter] = field(default_factory=dict)
    round: str = ""


@dataclass(frozen=True)
class PartsDecision(contract.Decision):
    """What the parts of a round decided.

    Attributes:
        parts: By their names.
    """

    parts: dict[str, Any]


def budget_of_parts(parts: Iterable[Part], epsilon: Fraction, delta: Fraction) -> Budget:
    """Returns what the parts may spend of epsilon and delta.

    Raises:
        UsageError: See `budget_of`.
    """
    return budget_of(epsilon, delta, tuple(need for part in parts for need in part.needs))


def rounds_of(parts: Iterable[Part]) -> tuple[str, ...]:
    """Returns the rounds of parts, in the order in which they come first."""
    return tuple(dict.fromkeys(part.round for part in parts))


def sentences_of(parts: Sequence[Part], budget: Budget) -> tuple[str, ...]:
    """Returns a sentence for each part with what it spends, and one for what they share."""
    found = []
    for part in parts:
        spent = "; ".join(
            (f"{need.name} " if len(part.needs) > 1 else "") + budget.means[need.name].text
            for need in part.needs
        )
        found.append(f"{part.name}: {part.sentence(budget.means)}; {spent}")
    return (*found, budget.explanation) if budget.explanation else tuple(found)


def counters_of(parts: Iterable[Part], round_name: str) -> dict[str, contract.Counter]:
    """Returns what must be counted for a round, by name."""
    return {
        name: counter
        for part in parts
        if part.round == round_name
        for name, counter in part.counters.items()
    }


def decided(
    parts: Iterable[Part],
    round_name: str,
    budget: Budget,
    statistics: Mapping[str, Any],
    decisions: Mapping[str, Any],
    randomness: Randomness,
) -> dict[str, Any]:
    """Returns what the parts of a round decide, by their names."""
    given = Given(statistics, decisions, budget.means, randomness)
    return {part.name: part.decide(given) for part in parts if part.round == round_name}
