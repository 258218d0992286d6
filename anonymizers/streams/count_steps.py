"""Products of a stream that are counts: their parameters and what they have in common."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.contract.sentences import sentence, sentences
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.rigorous.names import excess_of_names, most_names_of_pairs
from tracecloak.anonymizers.rigorous.params import LONGEST_TRACE, RigorousParams, guarantee_of
from tracecloak.anonymizers.streams.continual import ContinualNoise, continual_noise
from tracecloak.anonymizers.streams.matrix_mechanism import (
    MAX_HORIZON,
    MAX_WINDOWS,
    Participation,
    Strategy,
)
from tracecloak.anonymizers.streams.steps import StepProduct, StreamName
from tracecloak.schemas.arrays.columnar import Columnar
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.manifest import Guarantee
from tracecloak.schemas.published.step import Step, StepRelease, View

# --- Parameters of the counts that a stream publishes: over which time, and the privacy of it all.
# Everything is declared before the stream begins, so all noise is known beforehand. What depends
# on the product is in the product's own file.


# Units of one occurrence under Gaussian noise: scaled cases lose less than one in each pair.
UNITS = 1024
# Numbers that the release stage keeps of the steps so far, eight bytes each.
_MAX_KEPT = 1 << 27
_HALF = Fraction(1, 2)


class StreamParams(RigorousParams, ABC):
    """Parameters of the counts that a stream publishes."""

    pure_views: ClassVar[tuple[View, ...]] = ("window",)
    """Views that can be published with delta 0."""

    view: Literal["window", "total", "sliding"] = "window"
    """window: counts of each step. total: of all steps so far. sliding: of the last sliding_steps
    steps."""
    horizon: int = Field(ge=1, le=MAX_WINDOWS)
    """Steps that are published for this budget, public; then the stream stops publishing."""
    sliding_steps: int | None = Field(default=None, ge=2)
    """Steps of a sliding sum, needed with view sliding; by default not set."""
    guarantee: Literal["case", "w_event"] = "case"
    """case: epsilon is for all steps together. w_event: for what an individual does within any
    w_event_steps steps."""
    vocabulary: tuple[str, ...]
    """Public activity names; any other activity counts as __other__."""
    max_trace_length: int = Field(ge=1, le=LONGEST_TRACE)
    """Events of a case that count, public."""
    w_event_steps: int | None = Field(default=None, ge=1)
    """Steps within which w_event protects an individual, needed with it; by default not set."""

    @pydantic.model_validator(mode="after")
    def _check_stream(self) -> StreamParams:
        if (self.view == "sliding") != (self.sliding_steps is not None):
            raise ValueError("sliding_steps goes with view sliding, and with no other")
        if (self.guarantee == "w_event") != (self.w_event_steps is not None):
            raise ValueError("w_event_steps goes with guarantee w_event, and with no other")
        if self.guarantee == "w_event" and self.max_cases_per_individual is None:
            raise ValueError("guarantee w_event is for individuals: map individual_id")
        if self.delta == 0 and self.view not in self.pure_views:
            raise ValueError("delta 0 is only for view window, of dfg and indicators; give more")
        self.check_product()
        if self.view != "window" and self.horizon > MAX_HORIZON:
            raise ValueError(f"horizon must be at most {MAX_HORIZON} steps for sums over steps")
        if excess := excess_of_names(self.n_words, most_names_of_pairs(1)):
            raise ValueError(excess)
        if self.view != "window" and 2 * self.n_cells * self.horizon > _MAX_KEPT:
            raise ValueError(
                f"{self.n_cells:,} cells in {self.horizon:,} steps are too many to keep for sums "
                "over steps; give a smaller vocabulary, a shorter horizon or longer steps"
            )
        try:
            _, delta = self.horizon_budget
        except UsageError as error:
            raise ValueError(str(error)) from None
        if delta >= _HALF:
            raise ValueError(
                f"delta adds up to {float(delta):.3g} over {self.horizon:,} steps, which promises "
                "nothing; give a smaller delta or a shorter horizon"
            )
        return self

    def check_product(self) -> None:
        """Makes sure that the product can be published with these parameters.

        Raises:
            ValueError: It cannot be published.
        """

    @property
    def words(self) -> ActivityVocabulary:
        """The public names, with OTHER unless they are closed."""
        words = super().words
        assert words is not None  # without them the parameters are refused
        return words

    @property
    def participation(self) -> Participation:
        """How often one unit of privacy counts."""
        if self.guarantee == "w_event":
            return Participation(self.max_units, self.w_event_steps)
        return Participation(self.max_units)

    @property
    def length(self) -> int | None:
        """Steps of a published sum; None for totals."""
        return {"window": 1, "total": None, "sliding": self.sliding_steps}[self.view]

    @property
    @abstractmethod
    def n_cells(self) -> int:
        """Cells that noise is drawn for in a step, at most."""

    @property
    @abstractmethod
    def noises(self) -> Mapping[str, ContinualNoise]:
        """The noise of each part; their epsilons and deltas add up to those of the stream.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """

    def noise_of_all(self, case_norm: int, units: int = 1) -> ContinualNoise:
        """Returns the noise of all cells, where one noise has all of the budget.

        Args:
            case_norm: As of `continual_noise`.
            units: As of `continual_noise`.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        return continual_noise(
            *(*self.budget, self.horizon, case_norm),
            n_cells=self.n_cells,
            length=self.length,
            participation=self.participation,
            units=units,
        )

    @cached_property
    def horizon_budget(self) -> tuple[Fraction, Fraction]:
        """(epsilon, delta) of all steps together, which is what a ledger has to set aside.

        Beyond `budget` only with w_event, whose promise is on fewer steps. Epsilon is rounded up to
        a decimal.
        """
        part = self.participation
        n_windows = part.n_windows(self.horizon)
        epsilon, delta = self.budget_at(n_windows, lambda of: of.norm_over_all(part))
        if self.guarantee == "w_event":
            epsilon = Fraction(math.ceil(epsilon * 10**6), 10**6)
        return epsilon, delta

    def budget_at(
        self, n_times: int, norm: Callable[[Strategy], Fraction]
    ) -> tuple[Fraction, Fraction]:
        """Returns (epsilon, delta) where a unit changes more; see `ContinualNoise.budget_at`."""
        parts = [noise.budget_at(n_times, norm) for noise in self.noises.values()]
        epsilon, delta = (sum(of, Fraction(0)) for of in zip(*parts, strict=True))
        return epsilon, delta


# --- What the products of a stream that are counts have in common. --------------------------------


class KeptCounts(Columnar, wire_name="kept-counts"):
    """What is kept of a step for sums over steps of a public domain.

    Attributes:
        counts: int64[n], exact, in units.
        measured: int64[n], what was measured in this step.
    """

    counts: np.ndarray
    measured: np.ndarray


class CountSteps(StepProduct):
    """What products that are counts have in common."""

    released: ClassVar[type[Step]] = StepRelease
    params: StreamParams

    def bounded(self, traces: TraceBatch) -> TraceBatch:
        """Returns cases within the public vocabulary and length, as `ContributionBounds` does.

        How many cases of an individual count is not decided here: it takes a memory of steps.
        """
        return traces.recode_public(self.params.words).truncate(self.params.max_trace_length)

    def sums_of(
        self,
        step: int,
        row: np.ndarray,
        domain: np.ndarray,
        past: Sequence[KeptCounts],
        randomness: Randomness,
    ) -> tuple[np.ndarray, KeptCounts | None]:
        """Returns float64[n], the sums that a step publishes, in occurrences; and what to keep.

        Of a product that has one noise for a public domain.

        Args:
            step: Of the stream.
            row: int64[n], the exact counts of the step.
            domain: int64[n], the numbers of the cells.
            past: What was kept of each step before.
            randomness: That of the step.
        """
        [(name, noise)] = self.params.noises.items()
        cells, what, length = cell_numbers(domain), f"stream {name}", self.params.length
        if length == 1:
            return noise.add(step, row[None], cells, randomness, what)[0] / noise.units, None
        counts = np.stack([*(kept.counts for kept in past), row])
        new = noise.measure(counts, cells, randomness, what, step)
        measured = np.concatenate([*(kept.measured[None] for kept in past), new])
        return noise.estimate(measured, length, step)[0], KeptCounts(row, new[0])

    def spends(self) -> tuple[Spend, ...]:
        """See `StepProduct`."""
        noises = self.params.noises
        if self.params.guarantee == "case":
            return tuple(noise.spend(name) for name, noise in noises.items())
        # More steps are published than the promise covers, so the budget of the whole horizon is
        # set aside.
        epsilon, delta = self.params.horizon_budget
        return (Spend("all steps", "approximate", epsilon, delta),)

    def guarantee(self) -> Guarantee:
        """See `StepProduct`."""
        params, in_all, each = self.params, None, ""
        if params.guarantee == "w_event":
            each = " in each step"
            epsilon, delta = params.horizon_budget
            in_all = f"{math.ceil(epsilon * 100) / 100:g}", f"{float(delta):g}"
        return guarantee_of(
            params,
            self.spends(),
            sentence("streams", "reality", params),
            *sentences("streams", "public", params),
            *sentences("streams", "not_covered", params, in_all=in_all),
            in_each=each,
        )

    def repeated(self, n_times: int, gap: int) -> tuple[Fraction, Fraction]:
        """See `StepProduct`."""
        n_times = min(n_times, 1 + (self.horizon - 1) // gap)
        most = self.params.participation.protected_cases
        return self.params.budget_at(n_times, lambda of: of.repeated_norm(n_times, gap) * most)

    def common(self, step: int, name: StreamName) -> dict[str, Any]:
        """Returns what the release of a step says beside its counts."""
        params = self.params
        first = {1: step, None: 0}.get(params.length, max(step + 1 - (params.length or 0), 0))
        facts = name.facts(step, params.horizon, params.horizon_budget, first)
        return {"product": self.name, "view": params.view, **facts}


def spent(params: StreamParams) -> str:
    """Returns what all steps together cost, in words."""
    return sentence("streams", "spent", params)
