"""A method that is described by its parts: all that is said and done of it follows from these.

A part says what is counted for it, what noise that gets and which share of the budget, what is
decided and why the promise holds. Bounds, rounds, spends, guarantee, explanation and decisions are
loops over the parts, so that plan, accounting and noise cannot disagree, and a further part is one
more value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Literal

from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.bounding import ContributionBounds
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.rigorous.budget import Budget, Means, Need, budget_of
from tracecloak.anonymizers.rigorous.params import DECLARED, guarantee_of
from tracecloak.schemas.published.guarantee import Guarantee, Kind


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


class PartsMethod(contract.Anonymizer):
    """A method of parts; its parameters are `RigorousParams`.

    A subclass says its parts, and where something is released beside a log, its products. What else
    it may say has a default here.

    Attributes:
        between_chosen: What stands between the things that were chosen on the log.
    """

    guarantee_kind: ClassVar[Kind] = "rigorous"
    log: ClassVar[Literal["transformed", "generated", "none"]] = "none"
    exact_noise: ClassVar[bool] = True
    between_chosen: ClassVar[str] = " and "

    def parts(self, params: Any) -> tuple[Part, ...]:
        """Returns the parts in the order in which they are decided; by default the parameters'.

        Raises:
            UsageError: The parameters cannot be kept, by public numbers.
        """
        parts: tuple[Part, ...] = params.parts
        return parts

    def budget(self, params: Any) -> Budget:
        """Returns what each need of the parts may spend.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        return budget_of_parts(self.parts(params), *params.budget)

    def reality(self, params: Any) -> str:
        """Returns why the promise holds, in sentences: what the parts say, and what is chosen."""
        parts = self.parts(params)
        sentences = [part.reality for part in parts if part.reality]
        if chosen := self.between_chosen.join(part.chosen for part in parts if part.chosen):
            sentences.append(f"Chosen on the log and paid for: {chosen}.")
        return " ".join(sentences)

    def not_covered(self, params: Any) -> tuple[str, ...]:
        """Returns what the release shows or allows beyond the promise, in sentences."""
        return (DECLARED,)

    def moves_by_case(self, params: Any) -> bool:
        """Returns whether j of a unit's m cases move all that is counted by at most j/m.

        j/m is a share of the change that the noise is made for; see `accounting.composed`. A method
        returns True only if this is proved and tested.
        """
        return False

    def known(self, decisions: contract.Decisions) -> Mapping[str, Any]:
        """Returns what was decided in the rounds before as parts look for it, by name."""
        return decisions

    def combined(
        self, round_name: str, decided: dict[str, Any], given: Given, params: Any
    ) -> contract.Decision:
        """Returns the decision of a round; by default that of the part of the round's name.

        Looks at what was decided alone, which costs nothing.

        Args:
            round_name: The round.
            decided: What its parts decided, by their names.
            given: What the first of them was decided on.
            params: The method's.
        """
        decision: contract.Decision = decided[round_name]
        return decision

    def bounds(self, params: Any) -> ContributionBounds:
        """Returns the public caps."""
        bounds: ContributionBounds = params.bounds
        return bounds

    def rounds(self, params: Any) -> tuple[str, ...]:
        """Returns the rounds of the parts, in the order in which they come first."""
        return tuple(dict.fromkeys(part.round for part in self.parts(params)))

    def spends(self, params: Any) -> tuple[Spend, ...]:
        """Returns what the parts spend, which adds up to epsilon and delta.

        Raises:
            UsageError: Noise as wide as some part may need cannot be drawn.
        """
        return self.budget(params).spends()

    def shares_by_case(self, params: Any) -> bool:
        """Returns whether j of m cases cost at most j/m of what is paid; see `moves_by_case`."""
        if not self.moves_by_case(params):
            return False
        from tracecloak.anonymizers.accounting.composed import divides_by_case

        return divides_by_case(self.spends(params))

    def guarantee(self, params: Any) -> Guarantee:
        """Returns the promise."""
        reality, not_covered = self.reality(params), self.not_covered(params)
        return guarantee_of(params, self.spends(params), reality, *not_covered)

    def explain(self, params: Any) -> tuple[str, ...]:
        """Returns a sentence for each part with what it spends, and what holds of all of them."""
        budget = self.budget(params)
        sentences = []
        for part in self.parts(params):
            spent = "; ".join(
                (f"{need.name} " if need.name != part.name or len(part.needs) > 1 else "")
                + budget.means[need.name].text
                for need in part.needs
            )
            sentences.append(f"{part.name}: {part.sentence(budget.means)}; {spent}")
        length = getattr(params, "max_trace_length", None)  # queries by prefix have none
        if length is not None:
            sentences.append(
                f"all parts: cases end after event {length:,}, the declared "
                "max_trace_length; what longer ones do later is not counted"
            )
        grouping = getattr(params, "grouping", None)  # few methods count groups
        if grouping is not None:
            sentences.append(grouping.explain(params.vocabulary))
        return (*sentences, budget.explanation) if budget.explanation else tuple(sentences)

    def requires(self, round_name: str, params: Any) -> Mapping[str, contract.Counter]:
        """Returns what is counted for the parts of a round, by name."""
        counters: dict[str, contract.Counter] = {}
        for part in self.parts(params):
            if part.round == round_name:
                counters |= part.counters
        return counters

    def decide(
        self,
        round_name: str,
        statistics: Mapping[str, Any],
        decisions: contract.Decisions,
        params: Any,
        randomness: Randomness,
    ) -> contract.Decision:
        """Decides the parts of a round one after the other."""
        known, means = self.known(decisions), self.budget(params).means
        decided: dict[str, Any] = {}
        for part in self.parts(params):
            if part.round == round_name:
                given = Given(statistics, {**known, **decided}, means, randomness)
                decided[part.name] = part.decide(given)
        given = Given(statistics, known, means, randomness)
        return self.combined(round_name, decided, given, params)
