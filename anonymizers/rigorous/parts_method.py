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
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.accounting.sensitivity import of_count
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.method import Given as Given
from tracecloak.anonymizers.contract.sentences import sentence
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_sums
from tracecloak.anonymizers.rigorous.budget import Allowances, Budget, Need, Sums, budget_of
from tracecloak.anonymizers.rigorous.params import DECLARED, guarantee_of
from tracecloak.schemas.published.manifest import Guarantee
from tracecloak.schemas.published.variants import ReleasedVariants, most_frequent_first

# --- A method that is described by its parts: all that is said and done of it follows from these. -


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
        keep: What it needs of a part of its statistics, by name, see `Anonymizer.keep`; None: all.
            No other part of its round may need these statistics.
        chosen: What of the log's form it chooses, in words, such as a vocabulary that could be
            public instead; empty where it is what the release is about.
    """

    name: str
    needs: tuple[Need, ...]
    sentence: Callable[[Allowances], str]
    decide: Callable[[Given], Any]
    counters: Mapping[str, contract.Counter] = field(default_factory=dict)
    round: str = ""
    reality: str = ""
    chosen: str = ""
    keep: Callable[[Given], Mapping[str, Any]] | None = None


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


def step(
    name: str,
    sentence: str,
    counters: Mapping[str, contract.Counter],
    decide: Callable[[Given], contract.Decision],
) -> Part:
    """Returns a part that is a round of its own and spends nothing."""
    return Part(name, (), lambda means: sentence, decide, counters, name)


def noisy_part(
    need: Sums,
    counters: Mapping[str, contract.Counter],
    sentence: Callable[[SumNoise], str],
    decide: Callable[[Given, SumNoise], Any],
    round_name: str = "",
    reality: str = "",
    chosen: str = "",
) -> Part:
    """Returns a part that adds noise of one kind to what is counted for it.

    Args:
        need: What one unit changes, and the share of the budget. Its name is that of the part.
        counters: What is counted, by name.
        sentence: What it does, by its noise.
        decide: Decides, with its noise.
        round_name: In which it is decided.
        reality: Why the promise holds.
        chosen: What of the log's form it chooses.
    """

    def noise(means: Allowances) -> SumNoise:
        return means[need.name].noise(need.changed, need.units)

    return Part(
        need.name,
        (need,),
        lambda means: sentence(noise(means)),
        lambda given: decide(given, noise(given.means)),
        counters,
        round_name,
        reality,
        chosen,
    )


class PartsMethod(contract.Anonymizer):
    """A method of parts that pay for what they do; its parameters are `RigorousParams`.

    A subclass says its parts, and where something is released beside a log, its products. What else
    it may say has a default here.

    Attributes:
        between_chosen: What stands between the things that were chosen on the log.
    """

    between_chosen: ClassVar[str] = " and "

    def budget(self, params: Any) -> Budget:
        """Returns what each need of the parts may spend.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        return budget_of_parts(self.parts(params), *params.budget)

    def means(self, params: Any) -> Allowances:
        """Returns what each need of the parts may spend, by name."""
        return self.budget(params).means

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


# --- A part that counts the cells of a public list, each with noise and an interval. --------------
# The cells are known beforehand, such as the activities of a public vocabulary, and each of them
# gets noise, also those that nothing is counted of: that one is missing would tell of the log.


# Larger noisy counts are lowered to this, so that the sum of all fits 64 bits.
_LARGEST_COUNT = 1 << 40


class NoisyCounts(contract.Decision, wire_name="noisy-counts"):
    """Counts of known cells with noise.

    Attributes:
        counts: int64[n], in occurrences; negative ones too.
        half_width: Half the interval around each that holds what was counted with probability
            0.95, in occurrences.
    """

    counts: np.ndarray
    half_width: int

    def of_activities(self, names: pa.Array) -> ReleasedVariants:
        """Returns those above 0 as variants of one activity each, with intervals.

        Args:
            names: string[n], the activity of each cell.
        """
        n = len(names)
        offsets, codes = np.arange(n + 1), np.arange(n, dtype=np.int32)
        counts = np.clip(self.counts, 0, _LARGEST_COUNT)
        return most_frequent_first(names, offsets, codes, counts, self.half_width)


def counts_part(
    need: Sums,
    counters: Mapping[str, contract.Counter],
    exact: Callable[[Mapping[str, Any]], np.ndarray],
    counted: str,
    reality: str,
) -> Part:
    """Returns a part, in a round of its own, that decides `NoisyCounts`.

    Args:
        need: What one unit changes of the counts, and their share of the budget. Its name is that
            of the part, of its round and of its noise.
        counters: What is counted of the log, by name.
        exact: From the totals of these to int64[n], the exact count of each cell.
        counted: What is counted, in words, such as "cases by last activity".
        reality: By how much one unit changes the counts at most, and why, in a sentence.
    """

    def sentence(noise: SumNoise) -> str:
        return (
            f"counts {counted}, and adds discrete {noise.kind} noise to each number; expect each "
            f"within {noise.half_width:,} of what is counted (95 %)"
        )

    def decide(given: Given, noise: SumNoise) -> NoisyCounts:
        sums = exact(given.statistics) * noise.units
        noisy = noisy_sums(sums, noise, need.name, np.arange(len(sums)), given.randomness)
        counts = (2 * noisy + noise.units) // (2 * noise.units)  # to the nearest
        return NoisyCounts(counts, noise.half_width)

    covered = f"{reality} Exact discrete noise on every number covers that."
    return noisy_part(need, counters, sentence, decide, need.name, covered)


# --- Choices that spend epsilon and no delta, such as that of a quantile. -------------------------


_BESIDE = 20


def choose_quantile(
    cases: np.ndarray,
    epsilon: Fraction,
    quantile: Fraction,
    max_units: int,
    randomness: Randomness,
    purpose: str,
    shift: int | None = None,
    most_lost: int | None = None,
) -> int:
    """Returns the place on a public grid that about a share `quantile` of the cases reaches.

    Of a large log it is the place that all but `most_lost` cases reach, if that is further.

    Permute-and-flip. The score of g is 0 if #{values below g's bucket} <= quantile n <=
    #{values <= g}, and else minus the number of cases that it lacks to that. With
    -|#{values <= g} - quantile n| in its place, every g above a value that most cases share would
    be as good as any other, up to the largest of the grid. One case more changes each of the two
    differences, and so their maximum with 0, by at most max(quantile, 1 - quantile); with
    `most_lost`, where one case more raises the goal by up to 1, by at most 1. Spends epsilon and no
    delta.

    With a shift, what lies beyond all cases on its side can be chosen, too: for a lower rank the
    first place, whose score lacks all cases below the rank, and for a higher one the last. It
    counts twenty times as often as all places together, so where ranks cannot be told, such as of
    few cases, it is chosen rather than any place between.

    Args:
        cases: int64[n_grid+1], cases in each bucket of the grid; the last lie above it.
        epsilon: What the choice spends.
        quantile: The share; its denominator times the number of cases is below 2^63.
        max_units: Cases of one unit.
        randomness: The release's.
        purpose: What the choice is for; one of its own for each.
        shift: By how many cases the rank that is looked for is higher, not 0; public. None: by
            none, and nothing beyond all cases can be chosen.
        most_lost: See above; public. None: the share is all that counts.
    """
    q, scale = quantile.numerator, quantile.denominator
    reached = scale * np.cumsum(cases[:-1])
    before = np.concatenate([[0], reached[:-1]])
    total = int(cases.sum())
    goal = q * total if most_lost is None else max(q * total, scale * (total - most_lost))
    goal += scale * (shift or 0)
    scores = -np.maximum(np.maximum(before - goal, goal - reached), 0)
    n_beside = 0 if shift is None else _BESIDE * len(scores)
    beside = np.full(n_beside, -max(goal if (shift or 0) < 0 else scale * total - goal, 0))
    scores = np.concatenate([scores, beside])
    stream = CellStream(randomness, purpose, cell_numbers(np.arange(len(scores))))
    most_lost_of_one = max(q, scale - q) if most_lost is None else scale
    changed = of_count(most_lost_of_one).of_cases(max_units)
    place = stream.noise.select(stream, scores, epsilon, Fraction(changed.linf))
    if place < len(reached):
        return place
    return 0 if (shift or 0) < 0 else len(reached) - 1


# --- What releases of several windows cost together, where individuals are the unit. --------------
# Windows of a schedule hold different cases, so where the case is the unit all of them together
# cost what the dearest one costs. An individual may have cases in several windows, and at most m
# in all of them together. That costs it no more either if j of m cases cost at most j/m of what a
# window pays (`anonymizers.accounting.composed`); else the windows add up for it.


def windows_add_up(method: contract.Anonymizer, params: Any) -> bool:
    """Returns whether windows add up for an individual, rather than cost what the dearest costs.

    For individuals who count with one case in all windows, and for cases, they never do.

    Args:
        method: The method.
        params: Its parameters. The m of `max_cases_per_individual` must be at least the number of
            cases with which an individual counts in all windows together.

    Raises:
        UsageError: Noise as wide as some part may need cannot be drawn.
    """
    max_cases = method.bounds(params).max_cases_per_individual or 1
    return max_cases > 1 and not method.shares_by_case(params)


def windows_sentence(method: contract.Anonymizer, params: Any) -> str:
    """Returns what several windows of a schedule cost together, for the plan and the manifest.

    Empty where no finite epsilon holds: there is nothing to compare.

    Args:
        method: The method.
        params: Its parameters.

    Raises:
        UsageError: Noise as wide as some part may need cannot be drawn.
    """
    if method.guarantee(params).epsilon is None:
        return ""
    n, adds_up = method.bounds(params).max_cases_per_individual, windows_add_up(method, params)
    return sentence("rigorous", "windows", params, n=n, adds_up=adds_up)
