"""What the products of a stream that are counts have in common."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar, Literal

from tracecloak.anonymizers.accounting.composition import Spend, decimal_text
from tracecloak.anonymizers.rigorous.params import guarantee_of
from tracecloak.anonymizers.streams.params import StreamParams
from tracecloak.anonymizers.streams.steps import NOT_COVERED_BY_STREAMS, StreamName
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.guarantee import Guarantee
from tracecloak.schemas.published.manifest import CONDENSED, Operation
from tracecloak.schemas.published.step import Step, StepFacts, StepRelease, View


class CountSteps:
    """What products that are counts have in common."""

    name: ClassVar[str]
    inner_versions: ClassVar[Mapping[str, int]] = {}
    version: ClassVar[int] = 1
    views: ClassVar[tuple[View, ...]] = ("window", "total", "sliding")
    guarantees: ClassVar[tuple[Literal["case", "w_event"], ...]] = ("case", "w_event")
    released: ClassVar[type[Step]] = StepRelease

    operations: ClassVar[tuple[Operation, ...]] = (CONDENSED,)

    def __init__(self, params: StreamParams) -> None:
        self.params = params

    @property
    def horizon(self) -> int:
        """See `StepProduct`."""
        return self.params.horizon

    def bounded(self, traces: TraceBatch) -> TraceBatch:
        """Returns cases within the public vocabulary and length, as `ContributionBounds` does.

        How many cases of an individual count is not decided here: it takes a memory of steps.
        """
        assert self.params.max_trace_length is not None
        return traces.recode_public(self.params.words).truncate(self.params.max_trace_length)

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
        params = self.params
        epsilon, delta = (decimal_text(value) for value in params.budget)
        steps = f"{params.horizon:,} steps"
        within = (
            f"for what an individual does within any {params.w_event_steps:,} of {steps}: epsilon "
            f"{epsilon} with delta {delta}; what is said of the release as a whole is for all steps"
            if params.guarantee == "w_event"
            else f"for all {steps} together"
        )
        left_out = {s for noise in params.noises.values() for s in noise.not_covered()}
        return guarantee_of(
            params,
            self.spends(),
            "Every case counts in one step, that in which it closes, so steps hold different "
            "cases; exact discrete noise on the counts of every step covers what one case changes. "
            f"It holds {within}. Sums over steps look at the noisy counts only.",
            "The vocabulary, the length of steps, when they begin and all other parameters are "
            "taken to be public.",
            *NOT_COVERED_BY_STREAMS,
            *sorted(left_out),
            in_each=" in each step" if params.guarantee == "w_event" else "",
        )

    def repeated(self, n_times: int, gap: int) -> tuple[Fraction, Fraction]:
        """See `StepProduct`."""
        return self.params.repeated_budget(n_times, gap)

    def costs_of(self, other: CountSteps) -> tuple[Fraction, float] | None:
        """Returns what the horizon of another product of the same parameters costs.

        Args:
            other: The other product.

        Returns:
            (the epsilon for which the noise of this one is enough over that horizon, the largest
            standard deviation of the other as a multiple of that of this one); None where several
            noises share the budget, whose epsilons are not known one by one.
        """
        before, after = (list(one.params.noises.values()) for one in (self, other))
        if any(noise.threshold is not None and not noise.is_laplace for noise in before):
            return None
        epsilon = sum((noise.epsilon_over(other.horizon) for noise in before), Fraction(0))
        errors, of_other = (one[0].errors(self.params.length).max() for one in (before, after))
        return epsilon, float(of_other / errors)

    def common(self, step: int, name: StreamName) -> StepFacts:
        """Returns what the release of a step says beside its counts."""
        params = self.params
        first = {1: step, None: 0}.get(params.length, max(step + 1 - (params.length or 0), 0))
        epsilon, delta = params.horizon_budget
        return {
            "release_id": name.release_id,
            "epoch": name.epoch,
            "product": self.name,
            "view": params.view,
            "step": step,
            "start_us": name.start_us + first * name.period_us,
            "end_us": name.start_us + (step + 1) * name.period_us,
            "n_steps_left": params.horizon - step - 1,
            "epsilon": decimal_text(epsilon),
            "delta": decimal_text(delta),
        }


def spent(params: StreamParams) -> str:
    """Returns what all steps together cost, in words."""
    epsilon, delta = (decimal_text(value) for value in params.horizon_budget)
    return f"epsilon {epsilon}, delta {delta} for all steps together"
