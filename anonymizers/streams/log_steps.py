"""The product `log` of a stream: for every step a log that `private-log` makes of its cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

from pydantic import Field

from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.contract.case_digests import noise_digest
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.contract.sentences import sentences
from tracecloak.anonymizers.logs.params import PrivateLogParams
from tracecloak.anonymizers.logs.private_log import PrivateLog
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.anonymizers.streams.matrix_mechanism import MAX_WINDOWS
from tracecloak.anonymizers.streams.steps import StepProduct, StreamName
from tracecloak.schemas.arrays.merging import Mergeable, Statistics
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.manifest import Guarantee, Operation
from tracecloak.schemas.published.step import Step, StepLog, View
from tracecloak.schemas.streams.stream_caps import ClosedCases


class LogStepsParams(PrivateLogParams):
    """Parameters of the logs that a stream publishes: those of the log of each step."""

    horizon: int = Field(ge=1, le=MAX_WINDOWS)
    """Steps that are published, public."""


class LogSteps(StepProduct):
    """A log for every step, of the cases that closed in it.

    The steps hold different cases, so that all of them together cost what one does. The cases of a
    step are in the memory of one worker.
    """

    name: ClassVar[str] = "log"
    version: ClassVar[int] = 4
    summary: ClassVar[str] = "a log made up from noisy counts, as private-log makes it"
    Params: ClassVar[type[LogStepsParams]] = LogStepsParams
    views: ClassVar[tuple[View, ...]] = ("window",)
    guarantees: ClassVar[tuple[Literal["case", "w_event"], ...]] = ("case",)
    released: ClassVar[type[Step]] = StepLog
    kinds: ClassVar[Mapping[str, type[Mergeable]]] = {"cases": ClosedCases}
    operations: ClassVar[tuple[Operation, ...]] = PrivateLog.operations

    def __init__(self, params: LogStepsParams) -> None:
        """Keeps the parameters.

        Raises:
            UsageError: An individual may have several cases, which would be in several logs, or
                attributes, service times or groups are to be released, which no stream carries.
        """
        if (params.max_cases_per_individual or 1) > 1:
            raise UsageError(
                "max_cases_per_individual must be 1 for product log: each log of a step costs its "
                "epsilon again for an individual with cases in several steps"
            )
        if params.attributes:
            raise UsageError("attributes cannot be carried by a stream; leave them out")
        if params.service_times:
            raise UsageError("service_times cannot be released by a stream; leave it out")
        if params.grouping is not None:
            raise UsageError("groups cannot be released by a stream; leave them out")
        super().__init__(params)

    @property
    def inner_versions(self) -> Mapping[str, int]:
        """Those of `private-log`."""
        return PrivateLog().inner_versions(self.params)

    def count(self, traces: TraceBatch) -> Statistics:
        """Returns the cases themselves."""
        return Statistics({"cases": ClosedCases.merge([ClosedCases(traces)])})

    def publish(
        self, step: int, counted: Statistics, past: Sequence[Any], name: StreamName, key: ReleaseKey
    ) -> tuple[StepLog, None]:
        """Makes the log of a step; of no cases as well, for noise alone can make some."""
        traces: TraceBatch = counted.by_name["cases"].traces
        # As in any release, noise is bound to a digest of all cases of the step. All steps without
        # cases have the same digest, and differ by the number of the step in their name.
        anonymised = anonymise(
            [traces] if traces.n_cases else [],
            PrivateLog(),
            self.params,
            key,
            f"{name.both}/{step}",
            noise_digest(name.noise_digest, PrivateLog.version, self.inner_versions),
        )
        facts = name.facts(step, self.horizon, self.params.budget)
        released = StepLog(traces=TraceBatch.concat(anonymised.traces), **facts)
        return released, None

    def spends(self) -> tuple[Spend, ...]:
        """Returns the parts of one step, which are those of all together."""
        return PrivateLog().spends(self.params)

    def guarantee(self) -> Guarantee:
        """Returns the promise of one step, which is that of all together."""
        single = PrivateLog().guarantee(self.params)
        return replace(
            single,
            reality="Every case counts in one step, that in which it closes, so the logs of "
            f"different steps are made of different cases and cost what one does. {single.reality}",
            not_covered=(
                *single.not_covered,
                *sentences("streams", "not_covered", self.params, in_all=None),
            ),
        )

    def repeated(self, n_times: int, gap: int) -> tuple[Fraction, Fraction]:
        """See `StepProduct`; the logs of the steps cost their epsilon and delta each."""
        epsilon, delta = self.params.budget
        return n_times * epsilon, min(n_times * delta, Fraction(1))

    def explain(self) -> tuple[str, ...]:
        """Returns a sentence on what is published, and those of `private-log` for one step."""
        return (
            *sentences("streams", "log", self.params),
            *PrivateLog().explain(self.params),
            *PrivateLog().time_caveats(self.params),
        )
