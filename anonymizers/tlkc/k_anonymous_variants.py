"""k-anonymity of variants by leaving out the rare ones: Baseline-1 of the TLKC paper.

Rafiei, van der Aalst: Group-Based Privacy Preservation Techniques for Process Mining, section 5.1.
Somebody is taken to know everything of a case: the sequence of its elements, and its relative times
where these are meant to be known. A variant is all of that, and one that fewer than k cases have is
not released. Where each case is its own variant, as in the paper's Table 3, nothing would be left,
and nothing is released.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.tlkc.known_cases import (
    KnownCaseCounter,
    Suppressing,
    released,
    syntactic,
)
from tracecloak.anonymizers.tlkc.params import KAnonymousParams
from tracecloak.anonymizers.tlkc.verify import VariantRequirement, verify_k_anonymity
from tracecloak.schemas.arrays.merging import offsets_of, ranges
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.events.attributes import Attribute, declared
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.guarantee import Guarantee
from tracecloak.schemas.statistics.background_knowledge import CaseTable, KnownCases


@dataclass(frozen=True, eq=False)
class EventsDecision(contract.Decision):
    """Which events of which variants go.

    Attributes:
        rows: large_binary[n], the variants that lose events, as in `KnownCases`.
        offsets: int64[n+1], where the events of each begin.
        kept: bool[n_events], which of them stay.
    """

    wire_name: ClassVar[str] = "k-anonymous-events"

    rows: pa.LargeBinaryArray
    offsets: np.ndarray
    kept: np.ndarray


class KAnonymous(Suppressing):
    """What the two baselines share: a variant keeps all of its events, some, or none."""

    Params: ClassVar[type[KAnonymousParams]] = KAnonymousParams
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"k": 2},
        {"k": 2, "knowledge_kind": "relative", "time_unit": "days"},
        {
            "k": 2,
            "perspective": "activity_resource",
            "resources": {"org:resource": {"values": ["R1", "R2"]}},
        },
    )

    def attributes(self, params: KAnonymousParams) -> tuple[Attribute, ...]:
        """Returns the resource, if it is known: it is read and released."""
        return declared(params.resources)

    def guarantee(self, params: KAnonymousParams) -> Guarantee:
        """Returns the property of the released log."""
        what = {
            "activity": "activities",
            "resource": "resources",
            "activity_resource": "activities and resources",
        }[params.perspective]
        times = (
            f" and {params.time_unit} since its first event"
            if params.knowledge_kind == "relative"
            else ""
        )
        return syntactic(
            f"Every released case has its sequence of {what}{times} in common with at least "
            f"{params.k - 1} other{'s' if params.k > 2 else ''}.",
            ("Cases that are alike may share a secret, which is then known of each of them.",),
            params,
            params.knowledge_kind,
        )

    def requires(self, round_name: str, params: KAnonymousParams) -> Mapping[str, contract.Counter]:
        """Returns the counter of the variants."""
        return {"cases": KnownCaseCounter(params.knowledge(params.knowledge_kind))}

    def decide(
        self,
        round_name: str,
        statistics: Mapping[str, Any],
        decisions: contract.Decisions,
        params: KAnonymousParams,
        randomness: Randomness,
    ) -> EventsDecision:
        """Decides which events of which variants go.

        Raises:
            GuaranteeError: Nothing would be left of the log.
        """
        known: KnownCases = statistics["cases"]
        cases = known.decoded()
        if cases.n_cases == 0:
            raise GuaranteeError("the log has no events, so there is nothing to anonymise")
        rare = np.flatnonzero(cases.counts < params.k)
        lengths = np.diff(cases.offsets)
        is_kept = self._is_kept(cases, rare, params.k)
        if len(rare) == len(lengths) and not is_kept.any():
            raise GuaranteeError(
                f"no case is left: nothing that k={params.k} cases have in common could be kept; "
                "lower it, or take a coarser time_unit"
            )
        return EventsDecision(known.rows.take(pa.array(rare)), offsets_of(lengths[rare]), is_kept)

    @abstractmethod
    def _is_kept(self, cases: CaseTable, rare: np.ndarray, k: int) -> np.ndarray:
        """Which events of the rare variants stay.

        Args:
            cases: The variants.
            rare: int64[n], those with fewer than k cases.
            k: How many cases must be alike.

        Returns:
            bool[n_events], the events of the first rare variant first.
        """

    def apply(
        self,
        traces: TraceBatch,
        decisions: contract.Decisions,
        params: KAnonymousParams,
        randomness: Randomness,
    ) -> TraceBatch:
        """Leaves the decided events out of one batch; see `known_cases.released`."""
        decided: EventsDecision = decisions["suppression"]
        words = params.knowledge(params.knowledge_kind).words(traces)
        nothing = np.zeros((traces.n_cases, 0), np.int64)
        rows = KnownCases.rows_of(traces.offsets, words, nothing)
        place = np.asarray(pc.fill_null(pc.index_in(rows, value_set=decided.rows), -1))
        shortened = np.flatnonzero(place >= 0)
        lengths = traces.lengths[shortened]
        is_kept = np.ones(traces.n_events, bool)
        is_kept[ranges(traces.offsets[:-1][shortened], lengths)] = decided.kept[
            ranges(decided.offsets[place[shortened]], lengths)
        ]
        return released(traces, is_kept, params, (), randomness)

    def verify(self, released: Sequence[TraceBatch], params: KAnonymousParams) -> None:
        """Checks the promise on a released log, and looks at nothing else.

        Raises:
            GuaranteeError: It does not hold.
        """
        verify_k_anonymity(
            released,
            VariantRequirement(
                params.knowledge_kind,
                params.perspective,
                params.time_unit,
                params.k,
                next(iter(params.resources), None),
            ),
        )


class KAnonymousVariants(KAnonymous):
    """The method; see the module."""

    name: ClassVar[str] = "k-anonymous-variants"
    summary: ClassVar[str] = "releases the cases of variants that k or more have"

    def explain(self, params: KAnonymousParams) -> tuple[str, ...]:
        """Returns one sentence for the round."""
        return (
            f"suppression: counts the variants, and leaves those of fewer than {params.k} cases "
            "out",
        )

    def _is_kept(self, cases: CaseTable, rare: np.ndarray, k: int) -> np.ndarray:
        """None of them."""
        return np.zeros(int(np.diff(cases.offsets)[rare].sum()), bool)
