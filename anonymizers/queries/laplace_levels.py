"""The Laplace trace-variant query as a generator, with an epsilon that holds for all its levels."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar

from tracecloak.anonymizers.accounting.calibration import laplace_interval
from tracecloak.anonymizers.accounting.sensitivity import of_distinct_cells
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.queries.prefix_query import LevelQuery, trace_variant_query
from tracecloak.anonymizers.rigorous.bought_length import length_grid
from tracecloak.anonymizers.rigorous.budget import Allowance, Means, Need, Pure
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.published.variants import ReleasedVariants, most_frequent_first
from tracecloak.schemas.statistics.variants import VariantHistogram


class LaplaceLevels:
    """The generator `laplace-levels`: the query with the epsilon of all of its levels together.

    It has `max_length` levels, on which every case of the domain is seen to its end: one of fewer
    events by its end, one of `max_length` by its last prefix. A unit has at most `max_units` cases
    m, so it changes the counts of each level by at most m in total, and what is asked on a level
    follows from noisy counts of the levels before. Discrete Laplace noise of scale
    m max_length / epsilon makes every level (epsilon / max_length)-DP (Dwork, McSherry, Nissim,
    Smith 2006), and max_length of them in sequence epsilon-DP. What is done with the noisy counts
    afterwards costs nothing.

    A candidate survives, on the last level and at its end too, if its noisy count reaches
    b ln(|A| + 1), for noise of scale b and the |A| + 1 continuations of a prefix: half a candidate
    without cases does so for each prefix that is continued. The threshold follows from public
    numbers alone. Where the survivors have more than MAX_CANDIDATES continuations, those of the
    largest noisy counts go on. Counts are released as they are; they need not add up.

    It is what the published query costs and gives when all of it is accounted for: the method to
    compare others with.
    """

    name: ClassVar[str] = "laplace-levels"
    version: ClassVar[int] = 2
    summary: ClassVar[str] = "the Laplace trace-variant query, epsilon divided among its levels"
    is_pure: ClassVar[bool] = True
    shares_by_case: ClassVar[bool] = True
    has_error_bars: ClassVar[bool] = True
    most_names: ClassVar[int | None] = None
    reality: ClassVar[str] = (
        "A case is in one candidate of each level, up to the length at which cases are cut; exact "
        "discrete Laplace noise on every candidate, of a scale that grows with the number of "
        "levels, covers all of them together with epsilon. Which prefixes are continued follows "
        "from noisy counts and public numbers alone."
    )

    def needs(self, max_units: int, max_length: int | None) -> tuple[Need, ...]:
        """Returns what all levels together need."""
        n_levels = int(length_grid()[-1]) if max_length is None else max_length
        return (Pure("levels", Fraction(1), largest=of_distinct_cells(n_levels, max_units)),)

    def explain(self, means: Means, max_units: int) -> str:
        """Returns what is done and the error to expect."""
        scale = float(max_units / means["levels"].epsilon)
        return (
            "asks level by level for the cases of prefixes and continues those of large noisy "
            "counts; releases those that end, with an error of about "
            f"{scale:.3g} times max_trace_length cases each, and loses what has fewer than a few "
            "times as many"
        )

    def query(self, domain: Domain, allowance: Allowance) -> LevelQuery:
        """Returns the query of a domain, of public numbers.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        n_levels, n_symbols = domain.max_length, len(domain.vocabulary) + 1
        scale = allowance.noise(of_distinct_cells(n_levels, domain.max_units)).scale
        threshold = max(1, math.ceil(scale[0] / scale[1] * math.log(n_symbols)))
        return LevelQuery(n_levels, scale, threshold, when_full="keep largest")

    def answer(
        self, counted: VariantHistogram, domain: Domain, means: Means, randomness: Randomness
    ) -> ReleasedVariants:
        """Returns the variants whose noisy counts survived.

        The intervals are those of the noise: for any one variant, chosen without looking, its holds
        the true number with probability 0.95.
        """
        query = self.query(domain, means["levels"])
        answer = trace_variant_query(counted, len(domain.vocabulary), query, randomness, self.name)
        variants = VariantHistogram.from_sequences(  # in the order of their codes
            encode_sequences(answer.offsets, answer.codes), answer.counts
        )
        return most_frequent_first(
            domain.vocabulary.names,
            variants.offsets,
            variants.codes,
            variants.counts,
            laplace_interval(Fraction(*query.scale)),
        )
