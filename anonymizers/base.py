"""What a method is: rounds of counting and deciding, then, for some, a transformation of the log.

The drivers (`pipelines.in_memory` and `transforms.anonymize`) run every method alike:

    for each round:  COUNT what `requires` names on all traces, then `decide` on the totals
    if the method transforms the log:  `apply` to every batch of traces

`decide` is called once a round and is the only place where noise is drawn on counts. `apply` and
the counters see one batch at a time, in any order, so what they draw is keyed by case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import pydantic

from anonymizers.randomness import Randomness
from schemas.guarantee import Guarantee
from schemas.merging import Mergeable
from schemas.release import Operation
from schemas.traces import TraceBatch


class Params(pydantic.BaseModel):
    """Parameters of a method; frozen, unknown names refused, every field described.

    A field's description says what it is, its unit and range, and what it costs in utility: it is
    the help of the flag of the same name.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    def resolved(self) -> dict[str, Any]:
        """Returns the parameters in effect as JSON values, what a profile decides filled in."""
        return self.model_dump(mode="json")


@dataclass(frozen=True)
class Decision:
    """What a round decided: a columnar value (schemas.columnar) that every worker receives."""


# What the rounds so far decided, by the name of the round.
Decisions = Mapping[str, Any]


class Counter(Protocol):
    """Counts one statistic on one batch; pickles, holds no data."""

    @property
    def kind(self) -> type[Mergeable]:
        """The statistic's type, whose `merge` totals the batches."""
        ...

    def count(
        self, traces: TraceBatch, decisions: Decisions, randomness: Randomness | None
    ) -> Mergeable:
        """Returns the statistic of a batch.

        Args:
            traces: Complete cases.
            decisions: Those of the rounds before.
            randomness: The release's randomness; None in the first round, where the input's digest
                that it depends on is still being counted.
        """
        ...


class Anonymizer(Protocol):
    """One method; see the module."""

    name: ClassVar[str]
    summary: ClassVar[str]
    operations: ClassVar[tuple[Operation, ...]]
    exact_noise: ClassVar[bool]

    @property
    def Params(self) -> type[Params]:  # noqa: N802  # a type, named as one
        """The type of the method's parameters."""
        ...

    def rounds(self, params: Any) -> tuple[str, ...]:
        """Returns the names of the rounds that these parameters need, in order."""
        ...

    def guarantee(self, params: Any) -> Guarantee:
        """Returns what really holds, before anything runs."""
        ...

    def explain(self, params: Any) -> tuple[str, ...]:
        """Returns one sentence per round: what it counts, decides and spends."""
        ...

    def requires(self, round_name: str, params: Any) -> Mapping[str, Counter]:
        """Returns what must be counted for a round, by name."""
        ...

    def decide(
        self,
        round_name: str,
        statistics: Mapping[str, Any],
        decisions: Decisions,
        params: Any,
        randomness: Randomness,
    ) -> Decision:
        """Decides a round on the totals; pure, and the only place for noise on counts.

        Raises:
            GuaranteeError: The promise cannot be kept on this input.
        """
        ...

    def apply(
        self, traces: TraceBatch, decisions: Decisions, params: Any, randomness: Randomness
    ) -> TraceBatch:
        """Transforms one batch; its case ids are new ones.

        Case ids of the result are distinct over all batches.
        """
        ...
