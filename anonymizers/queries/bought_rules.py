"""Rules between activities that are paid for: from noisy counts of what comes before what.

A case is cut off after as many events as prefixes can have, so it changes at most k (k - 1) / 2
counts of pairs, k counts of activities and one of beginnings by one each. Discrete Laplace noise of
that many times 1 / epsilon on every count makes all of them epsilon-differentially private (Dwork,
McSherry, Nissim and Smith, 2006), and the rules follow from the noisy counts alone.

A pair never occurs if its noisy count is below a public threshold, and an activity is always
followed by another if fewer exceptions than that are left. It always comes before another if so in
the last place and if the other never comes before it, which together mean: before the first one.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tracecloak.anonymizers.accounting.calibration import laplace_scale
from tracecloak.anonymizers.accounting.sensitivity import Sensitivity, of_order
from tracecloak.anonymizers.noise.drawing import draw_laplace
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.queries.order_rules import OrderRules
from tracecloak.anonymizers.rigorous.params import drawable
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.statistics.relations import ActivityRelations


@dataclass(frozen=True)
class RuleQuery:
    """What is public of the noisy counts.

    Attributes:
        n_activities: Size of the public alphabet.
        max_events: Events of a case that count.
        max_units: Cases that one unit of privacy can have.
        epsilon: Of all counts together.
        threshold: Smallest noisy count that is taken for an occurrence.
    """

    n_activities: int
    max_events: int
    max_units: int
    epsilon: Fraction
    threshold: int

    @property
    def sensitivity(self) -> Sensitivity:
        """How far one unit moves all counts together."""
        return of_order(self.max_events, self.n_activities, self.max_units)

    @property
    def scale(self) -> tuple[int, int]:
        """(numerator, denominator) of the noise's scale, in cases.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        return drawable(laplace_scale(self.epsilon, self.sensitivity))

    def answer(
        self,
        relations: ActivityRelations,
        vocabulary: ActivityVocabulary,
        randomness: Randomness,
        name: str,
    ) -> OrderRules:
        """Returns the rules of the noisy counts.

        Args:
            relations: Exact counts of cases of at most `max_events` events.
            vocabulary: The public alphabet.
            randomness: The release's.
            name: What the purpose begins with.
        """
        n = self.n_activities
        exact = [relations.matrix(vocabulary).ravel(), relations.cases(vocabulary)]
        counts = np.concatenate([*exact, relations.firsts(vocabulary)])
        stream = CellStream(randomness, f"{name}/rule", cell_numbers(np.arange(len(counts))))
        noisy = counts + draw_laplace(stream, *self.scale)

        # From here on only noisy counts are read.
        pairs, cases, firsts = noisy[: n * n].reshape(n, n), noisy[-2 * n : -n], noisy[-n:]
        occurs = pairs >= self.threshold
        has_other = ~np.eye(n, dtype=bool)
        return OrderRules(
            ~occurs,
            occurs & (cases[:, np.newaxis] - pairs < self.threshold),
            occurs & has_other & ~occurs.T & (cases[np.newaxis] - pairs < self.threshold),
            firsts >= self.threshold,
        )
