"""What a generator of variants is: from exact counts to variants that may be published.

A generator is a pure function of the histogram of variants, so its budget, its noise and its error
can be looked at without a log. `anonymizers.variants.method` makes a method of each.

`StableVariants` is what `variant-histogram` releases, for methods that make more of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers, hex_ids
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.rigorous.bought import (
    VARIANTS_IN_DOMAIN,
    vocabulary_in_effect,
)
from tracecloak.anonymizers.rigorous.budget import (
    Allowance,
    Allowances,
    Need,
    Sums,
    least_cases,
    scaled,
)
from tracecloak.anonymizers.rigorous.parts_method import Given, Part
from tracecloak.schemas.arrays.merging import ranges
from tracecloak.schemas.events.events import EVENT_INDEX, ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.variants import ReleasedVariants, most_frequent_first
from tracecloak.schemas.statistics.variants import VariantHistogram


@dataclass(frozen=True)
class Domain:
    """What is public of the cases, or paid for, before their variants are looked at.

    Attributes:
        vocabulary: The activities, OTHER among them; every case is made of these.
        max_length: Largest number of events of a case, at least 1.
        max_units: Cases of one unit of privacy: adding or removing it changes the counts of
            variants by at most so many in total.
    """

    vocabulary: ActivityVocabulary
    max_length: int
    max_units: int


class VariantGenerator(contract.Declared, Protocol):
    """One way from exact counts of variants to published ones.

    Attributes:
        name: As in the configuration.
        summary: What it does, in a line.
        reality: Why its epsilon and delta hold, in sentences.
        version: Above 1 if it is not as it was at first, see `contract.Anonymizer`.
        is_pure: Whether it needs no delta.
        most_names: Activities, OTHER included, that it can count by; None: any number. Of a bought
            vocabulary no more are kept, and a public one is refused before anything is read.
        has_error_bars: Whether its counts have `lows` and `highs`.
        shares_by_case: Whether j of a unit's m cases cost at most j/m of what its needs have: all
            that it counts are sums over cases, none of which changes more than the others
            (`anonymizers.accounting.composed`).
        keeps_rows: Whether `keep` drops something.
        takes_whole_cases: Whether its noise and its time do not grow with the largest length: where
            no length is declared, `LONGEST_CASE` is taken for it, and none is bought.
    """

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    reality: ClassVar[str] = ""
    version: ClassVar[int] = 1
    is_pure: ClassVar[bool] = False
    most_names: ClassVar[int | None] = None
    has_error_bars: ClassVar[bool] = False
    shares_by_case: ClassVar[bool] = False
    takes_whole_cases: ClassVar[bool] = False
    keeps_rows: ClassVar[bool] = False

    def needs(self, max_units: int, max_length: int | None) -> tuple[Need, ...]:
        """Returns what it has to spend; the shares of what are no choices add up to 1.

        Args:
            max_units: Cases of one unit.
            max_length: Largest number of events of a case, or None: it is bought.
        """
        ...

    def explain(self, means: Allowances, max_units: int) -> str:
        """Returns what it does with these means and the error to expect, in a sentence."""
        ...

    def answer(
        self, counted: VariantHistogram, domain: Domain, means: Allowances, randomness: Randomness
    ) -> ReleasedVariants:
        """Returns variants with whole numbers of cases; may invent variants of the domain.

        Deterministic given the randomness; never fails on any histogram of a domain of at most
        `most_names` activities.

        Args:
            counted: Exact counts over the codes of `domain.vocabulary`, cases of 1 to
                `domain.max_length` events.
            domain: What is public.
            means: What its needs may spend, by name.
            randomness: The release's; every purpose begins with the generator's name.
        """
        ...

    def keep(
        self, counted: VariantHistogram, domain: Domain, means: Allowances, randomness: Randomness
    ) -> VariantHistogram:
        """Returns of some of the variants those on which the answer to all can depend."""
        return counted


def variants_part(
    generator: VariantGenerator,
    params: contract.NamesParams,
    share: Fraction,
    round_name: str = "variants",
) -> Part:
    """Returns the part that a generator is.

    Args:
        generator: Makes the variants.
        params: What is public; names and a length that are not have been bought before.
        share: Of all that is no choice, relative to the shares of the other parts.
        round_name: In which the variants are counted.
    """
    max_units, max_length = params.max_units, params.longest_case

    def counted_in(given: Given) -> tuple[VariantHistogram, Domain, Allowances, Randomness]:
        vocabulary = vocabulary_in_effect(params.words, given.decisions)
        length = max_length or given.decisions["length"].max_trace_length
        domain = Domain(vocabulary, length, max_units)
        return given.statistics["variants"], domain, given.means, given.randomness

    return Part(
        "variants",
        scaled(generator.needs(max_units, max_length), share),
        lambda means: generator.explain(means, max_units),
        lambda given: generator.answer(*counted_in(given)),
        {"variants": VARIANTS_IN_DOMAIN},
        round_name,
        generator.reality,
        keep=(lambda given: {"variants": generator.keep(*counted_in(given))})
        if generator.keeps_rows
        else None,
    )


# Cases and events that are released at most unless more are declared: at a tiny epsilon, or for
# very long cases, the noise could ask for more than there is room for.
_MOST_CASES = 10_000_000
_MOST_EVENTS = 1 << 26
_EVENTS_OF_A_DECLARED_CASE = 27
# Noisy counts beyond it are taken as it, so that the sum of all fits 64 bits.
_LARGEST_COUNT = 1 << 40


def fitting(variants: ReleasedVariants, max_cases: int | None) -> ReleasedVariants:
    """Returns as many cases of the variants as there is room for, in proportion.

    What the noise asks for must not decide whether there is a release. Looks at released numbers
    and a public one alone. Counts that had to be changed have no intervals.

    Args:
        variants: With noisy counts.
        max_cases: Public: how many cases the log has at most, or None. There is room for 10 million
            cases and 2^26 events, and for as many cases and 27 events of each if that is more.
    """
    counts = np.minimum(variants.counts, _LARGEST_COUNT)
    n_cases, most = int(counts.sum()), max(_MOST_CASES, max_cases or 0)
    most_events = max(_MOST_EVENTS, _EVENTS_OF_A_DECLARED_CASE * (max_cases or 0))
    n_events = float((np.diff(variants.offsets) * counts.astype(np.float64)).sum())
    if n_events > most_events:
        most = min(most, int(n_cases * (most_events / n_events)))
    if n_cases <= most:
        return variants
    return replace(variants, counts=counts).resized(most)


class VariantsDecision(contract.Decision, wire_name="generated-variants"):
    """What is released.

    Attributes:
        variants: The variants with their noisy numbers of cases.
    """

    variants: ReleasedVariants


def log_of(
    variants: ReleasedVariants, piece: int, n_pieces: int, randomness: Randomness
) -> TraceBatch:
    """Returns every `n_pieces`-th case of a histogram, from number `piece` on, as traces.

    Case ids are random. There are no times: events are numbered in their case, from 1.
    """
    case = np.arange(piece, variants.n_cases, n_pieces, dtype=np.int64)
    ends = np.cumsum(variants.counts)
    case_variants = variants.take(np.searchsorted(ends, case, side="right"))
    words = randomness.words("case id", cell_numbers(case))
    lengths = np.diff(case_variants.offsets)
    index = ranges(np.ones(len(lengths), np.int64), lengths)
    return TraceBatch(
        hex_ids(words),
        case_variants.offsets,
        case_variants.codes,
        index,
        ActivityVocabulary(variants.names),
        attributes={EVENT_INDEX: pa.array(index)},
    )


_MAX_COUNT = 1 << 40
CLEARLY_SHOWN = 4
"""At so many thresholds the last of `numbered_cases` begins."""


def numbered_cases(counted: VariantHistogram, threshold: int) -> np.ndarray:
    """Returns int64[3], cases by their number among those of their variant.

    Below the threshold, from it on, and from four times the threshold on. One case more adds 1 to
    one of them.
    """
    begins = np.array([1, threshold, CLEARLY_SHOWN * threshold])
    beyond = np.maximum(counted.counts[:, None] - (begins - 1), 0).sum(axis=0)
    return -np.diff(beyond, append=0)


def stable_variants(
    counted: VariantHistogram,
    allowance: Allowance,
    max_units: int,
    randomness: Randomness,
    prefix: str,
) -> VariantHistogram:
    """Returns the variants whose noisy counts reach a threshold, with these counts.

    See `budget.Allowance.threshold`.

    Args:
        counted: Exact counts.
        allowance: What the histogram may spend.
        max_units: Cases of one unit.
        randomness: The release's.
        prefix: What the purposes begin with.
    """
    cells = randomness.identify(f"{prefix}/variant", counted.sequences)
    changed = of_one_cell(max_units)
    noise = allowance.noise(changed)
    drawn = noise.draw(CellStream(randomness, f"{prefix}/count", cells))
    noisy = counted.counts * noise.units + drawn
    rows = np.flatnonzero(noisy >= allowance.threshold(changed))
    counts = np.rint(noisy[rows] / noise.units).astype(np.int64)
    return VariantHistogram(counted.sequences.take(rows), np.clip(counts, 1, _MAX_COUNT))


def released(
    variants: VariantHistogram, vocabulary: ActivityVocabulary, half_width: int | None = None
) -> ReleasedVariants:
    """Returns noisy variants in the form of a release; see `most_frequent_first`."""
    columns = variants.offsets, variants.codes, variants.counts
    return most_frequent_first(vocabulary.names, *columns, half_width)


class StableVariants(VariantGenerator):
    """The generator `variant-histogram`; see the module."""

    name: ClassVar[str] = "variant-histogram"
    summary: ClassVar[str] = "variants with noisy counts above a threshold"
    takes_whole_cases: ClassVar[bool] = True
    shares_by_case: ClassVar[bool] = True
    keeps_rows: ClassVar[bool] = True
    reality: ClassVar[str] = (
        "Exact discrete noise on the number of cases of each variant; the variants of one unit "
        "alone reach the threshold with a probability that delta covers. No variant is invented."
    )

    def needs(self, max_units: int, max_length: int | None) -> tuple[Need, ...]:
        """Returns what the counts need."""
        return (Sums("variants", Fraction(1), of_one_cell(max_units), is_open=True),)

    def explain(self, means: Allowances, max_units: int) -> str:
        """Returns what it does and what is lost."""
        least = least_cases(means["variants"], of_one_cell(max_units))
        return f"releases variants of at least {least:,} noisy cases"

    def answer(
        self, counted: VariantHistogram, domain: Domain, means: Allowances, randomness: Randomness
    ) -> ReleasedVariants:
        """Returns the variants above the threshold, without intervals."""
        own = means["variants"], domain.max_units, randomness, self.name
        return released(stable_variants(counted, *own), domain.vocabulary)

    def keep(
        self, counted: VariantHistogram, domain: Domain, means: Allowances, randomness: Randomness
    ) -> VariantHistogram:
        """Returns the variants above the threshold, with their exact counts."""
        own = means["variants"], domain.max_units, randomness, self.name
        stable = stable_variants(counted, *own).sequences
        return counted.take(np.flatnonzero(pc.is_in(counted.sequences, value_set=stable)))
