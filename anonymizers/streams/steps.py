"""What a stream publishes of one step: exact counts, then noise, as functions without a pipeline.

The noise is that of `anonymizers.streams.continual`. Of the steps before, only the exact counts
and what was measured of them with noise are needed; the caller keeps both and gives them to
`publish`.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, Protocol

from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.contract.input_digest import InputDigest
from tracecloak.anonymizers.contract.method import Params
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.release_key import ReleaseKey
from tracecloak.schemas.arrays.columnar import digest
from tracecloak.schemas.arrays.merging import Mergeable, Statistics
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.guarantee import Guarantee
from tracecloak.schemas.published.manifest import Operation
from tracecloak.schemas.published.step import Step, View

# The name of the statistic by which steps with equal counts of different cases are told apart.
_CASES = "digest of cases"

# What no promise of a stream covers, whatever its product is.
NOT_COVERED_BY_STREAMS = (
    "The noise key of an epoch is kept until its last step is published.",
    "When a step appears, and how long after its end, is not hidden.",
)


@dataclass(frozen=True)
class StreamName:
    """What a stream is called, and where its steps lie.

    Attributes:
        release_id: Its name.
        epoch: Which of its epochs: the noise of each is its own.
        noise_digest: Digest of all that determines what is published beside key and input, the
            version of the product included (`contract.identity`).
        start_us: Where step 0 begins, microseconds since 1970 UTC.
        period_us: Length of a step.
        counts_digest: Digest of the cases and counts of the step at hand and of all before it.
            Noise is drawn for these alone: where one case is another, all noise is. Sums over steps
            are sound with that as windows are: whatever is measured is measured in one step, once,
            and kept from then on; so every measured value has one digest and one noise, which is
            independent of that of any other, whether their digests agree or not.
    """

    release_id: str
    epoch: str
    noise_digest: str
    start_us: int
    period_us: int
    counts_digest: str = ""

    @property
    def both(self) -> str:
        """Name and epoch in one: what keys and budgets are kept under."""
        return f"{self.release_id}@{self.epoch}"

    def randomness(self, key: ReleaseKey) -> Randomness:
        """Returns the randomness of the step at hand."""
        return Randomness(key, self.both, self.counts_digest, self.noise_digest)


class StepProduct(Protocol):
    """A product of a stream: what is published of every step, and for which promise.

    Whatever depends on the product is said here, and nobody else tells products apart. The name of
    one is an entry of `anonymizers.streams.registry`.

    Attributes:
        name: As in the configuration and in what is published.
        version: Which of its versions it is, see `contract.Anonymizer`.
        summary: What is published, in a few words.
        Params: The type of its parameters. Those that are keys of a stream's configuration are
            taken from there; the others are its `log_params`, and flags.
        views: Times that it can be published over.
        guarantees: Promises that it can be published for, as `StreamParams.guarantee` has them.
        released: The type of what `publish` returns, which says how it is written.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    summary: ClassVar[str]
    Params: ClassVar[type[Params]]
    views: ClassVar[tuple[View, ...]]
    guarantees: ClassVar[tuple[Literal["case", "w_event"], ...]]
    released: ClassVar[type[Step]]

    def __init__(self, params: Any) -> None:
        """Keeps parameters of the type `Params`."""
        ...

    @property
    def kinds(self) -> Mapping[str, type[Mergeable]]:
        """The statistics that are counted of a step, by name."""
        ...

    @property
    def horizon(self) -> int:
        """Number of steps."""
        ...

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What it does to a log, in the words of the XES privacy extension."""
        ...

    @property
    def inner_versions(self) -> Mapping[str, int]:
        """The versions of what the parameters name, see `contract.Anonymizer`."""
        return {}

    def count(self, traces: TraceBatch) -> Statistics:
        """Returns the exact statistics of cases that close in one step."""
        ...

    def publish(
        self, step: int, counted: Statistics, past: Sequence[Any], name: StreamName, key: ReleaseKey
    ) -> tuple[Step, Any]:
        """Returns what is published of a step, and what to keep of it.

        The same arguments give the same result.

        Args:
            step: Its number.
            counted: Its exact statistics, of all its cases.
            past: What was kept of each step before, in their order.
            name: The stream's.
            key: The epoch's.

        Returns:
            The release, and a columnar value to keep, or None: nothing needs to be kept.
        """
        ...

    def spends(self) -> tuple[Spend, ...]:
        """Returns the parts of the guarantee, for the whole horizon."""
        ...

    def guarantee(self) -> Guarantee:
        """Returns what holds for the whole horizon."""
        ...

    def repeated(self, n_times: int, gap: int) -> tuple[Fraction, Fraction]:
        """Returns the (epsilon, delta) of a case that counts in several steps.

        Args:
            n_times: In how many, at most.
            gap: Steps from one to the next, at least.
        """
        ...

    def explain(self) -> tuple[str, ...]:
        """Returns, before anything runs, what each step publishes, at which error."""
        ...


def kinds_of(product: StepProduct) -> dict[str, type[Mergeable]]:
    """Returns what is counted of a step: the product's statistics, and which cases these were."""
    return {**product.kinds, _CASES: InputDigest}


def counted_of(product: StepProduct, traces: TraceBatch, key: ReleaseKey) -> Statistics:
    """Returns the statistics of `kinds_of` for cases that close in one step.

    Args:
        product: What is published.
        traces: The cases.
        key: The epoch's.
    """
    cases = InputDigest.from_traces(traces, key)
    return Statistics({**product.count(traces).by_name, _CASES: cases})


def counts_digest(before: bytes, step: int, counted: Statistics, key: ReleaseKey) -> bytes:
    """Returns 32 bytes that stand for what was counted in a step and in all steps before it.

    They are keyed, so that nobody without the key finds the counts by trying.

    Args:
        before: That of the step before; empty for step 0.
        step: Its number.
        counted: All that was counted of it, merged.
        key: The epoch's.
    """
    text = f"{before.hex()}\n{step}\n{digest(counted)}"
    return hmac.digest(key.derive(b"stream counts"), text.encode(), hashlib.sha256)
