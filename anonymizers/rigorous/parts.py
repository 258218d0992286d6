"""One part of a release's epsilon as a value: what it counts, costs, says and decides.

A method of several parts is a loop over a tuple of them. So the plan, the accounting and the noise
that is drawn cannot disagree, and a further part is one more value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tracecloak.anonymizers import contract
from tracecloak.anonymizers.accounting.composition import Spend, decimal_text
from tracecloak.anonymizers.noise.randomness import Randomness

# (epsilon, delta) by the name of a part, in the order of the parts.
Shares = Mapping[str, tuple[Fraction, Fraction]]


@dataclass(frozen=True)
class Given:
    """What a part is decided on.

    Attributes:
        statistics: The totals of its round, by name.
        decisions: What was decided before, by the names of parts or of rounds.
        epsilon: The part's share.
        delta: The part's share; 0 unless it takes some.
        randomness: The release's.
    """

    statistics: Mapping[str, Any]
    decisions: Mapping[str, Any]
    epsilon: Fraction
    delta: Fraction
    randomness: Randomness


@dataclass(frozen=True)
class Part:
    """One part.

    Attributes:
        name: As in shares, in the plan and in what is decided.
        weight: Its share of epsilon, or its weight among the others where a method says so.
        spends: What it costs at an (epsilon, delta); refuses noise that cannot be drawn.
        sentence: What it does at an (epsilon, delta), and the error to expect.
        decide: What it decides: a columnar value.
        counters: What is counted for it, by name; equal names are one and the same counter.
        round: The round in which it is decided.
        takes_delta: Whether it needs a share of delta.
    """

    name: str
    weight: Fraction
    spends: Callable[[Fraction, Fraction], tuple[Spend, ...]]
    sentence: Callable[[Fraction, Fraction], str]
    decide: Callable[[Given], Any]
    counters: Mapping[str, contract.Counter] = field(default_factory=dict)
    round: str = ""
    takes_delta: bool = False


@dataclass(frozen=True)
class PartsDecision(contract.Decision):
    """What the parts of a round decided.

    Attributes:
        parts: By their names.
    """

    parts: dict[str, Any]


def divided(
    parts: Sequence[Part],
    epsilon: Fraction,
    delta: Fraction,
    rest: str,
    is_rest_pure: bool = False,
) -> Shares:
    """Returns the shares of parts whose weights are shares of epsilon; they add up exactly.

    Args:
        parts: The parts; that which has the rest may be left out, and comes last then.
        epsilon: Of all of them.
        delta: Of all of them.
        rest: The part that has what the others leave of both, whatever its weight.
        is_rest_pure: Whether that part has no use for delta: the parts that have one then divide
            all of it by their weights. Where there are none, it is spent on the rest, for nothing.
    """
    own = {part.name: part for part in parts if part.name != rest}
    left = 1 - sum((part.weight for part in own.values()), Fraction(0))
    takers = sum((part.weight for part in own.values() if part.takes_delta), Fraction(0))
    whole = takers if is_rest_pure and takers else Fraction(1)
    shares = {
        name: (epsilon * part.weight, delta * part.weight / whole * part.takes_delta)
        for name, part in own.items()
    }
    of_rest = epsilon * left, delta - sum((d for _, d in shares.values()), Fraction(0))
    names = [part.name for part in parts]
    if rest not in names:
        names.append(rest)
    return {name: shares.get(name, of_rest) for name in names}


def rounds_of(parts: Iterable[Part]) -> tuple[str, ...]:
    """Returns the rounds of parts, in the order in which they come first."""
    return tuple(dict.fromkeys(part.round for part in parts))


def spends_of(parts: Iterable[Part], shares: Shares) -> tuple[Spend, ...]:
    """Returns what the parts cost, in the order of the shares.

    Raises:
        UsageError: Noise as wide as some part may need cannot be drawn.
    """
    own = {part.name: part for part in parts}
    return tuple(spend for name, share in shares.items() for spend in own[name].spends(*share))


def sentences_of(parts: Iterable[Part], shares: Shares) -> tuple[str, ...]:
    """Returns a sentence for each part with what it spends, in the order of the shares."""
    own = {part.name: part for part in parts}
    return tuple(
        f"{name}: {own[name].sentence(epsilon, delta)}; spends epsilon {decimal_text(epsilon)}, "
        f"delta {decimal_text(delta)}"
        for name, (epsilon, delta) in shares.items()
    )


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
    shares: Shares,
    statistics: Mapping[str, Any],
    decisions: Mapping[str, Any],
    randomness: Randomness,
) -> dict[str, Any]:
    """Returns what the parts of a round decide, by their names."""
    return {
        part.name: part.decide(Given(statistics, decisions, *shares[part.name], randomness))
        for part in parts
        if part.round == round_name
    }
