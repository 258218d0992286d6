"""TLKC privacy: whatever little is known of a case matches many, and tells no sensitive value.

Rafiei, van der Aalst: Group-Based Privacy Preservation Techniques for Process Mining, section 5.2.
Elements of events are suppressed in the whole log until every set, multiset, sequence or timed
sequence of at most L elements that occurs matches at least K cases, in which no sensitive value has
a share above C. No noise is drawn: this is no differential privacy.

Fixed here, where the paper is silent or its example differs: knowing nothing counts as knowledge of
length 0, so C holds for the log as a whole too. Times are cut to T and count from the first event
left, for every kind of knowledge; where that makes new violations, the log is mined and suppressed
again until it has none. A case of which nothing is left is not released. A missing value is no
sensitive value; such a case counts among those that match. A multiset of at most L elements counts
repetitions, as the cardinality of a multiset does, and where a repetition violates, the second and
later ones can go while the first stays, which costs less than all of them. With the profile `paper`
all go, as its algorithms have it; see `anonymizers.tlkc.suppression` for what else differs there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.tlkc import suppression
from tracecloak.anonymizers.tlkc.k_anonymous_variants import (
    Suppressing,
    known_cases,
    released,
    syntactic,
)
from tracecloak.anonymizers.tlkc.params import TlkcParams
from tracecloak.anonymizers.tlkc.verify import verify_tlkc
from tracecloak.schemas.arrays.merging import offsets_of
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.events.attributes import Attribute, declared
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.guarantee import Guarantee
from tracecloak.schemas.statistics.background_knowledge import (
    CaseTable,
    codes_of_words,
    suppress,
    times_of_words,
)
from tracecloak.schemas.statistics.subsequences import Demand


@dataclass(frozen=True, eq=False)
class SuppressionDecision(contract.Decision):
    """Which elements go, one pass over the log after the other.

    Attributes:
        offsets: int64[n_passes+1].
        words: int64[n], the elements of each pass, as they are after the passes before it.
    """

    wire_name: ClassVar[str] = "tlkc-suppression"

    offsets: np.ndarray
    words: np.ndarray

    @property
    def passes(self) -> list[np.ndarray]:
        """The elements by pass."""
        return np.split(self.words, self.offsets[1:-1])


class Tlkc(Suppressing):
    """The method; see the module."""

    name: ClassVar[str] = "tlkc"
    summary: ClassVar[str] = "suppresses events until all knowledge matches k cases"
    Params: ClassVar[type[TlkcParams]] = TlkcParams
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"k": 2},)

    def attributes(self, params: TlkcParams) -> tuple[Attribute, ...]:
        """Returns the resource and the sensitive attributes: they are read and released."""
        return (*declared(params.resources), *params.sensitive_attributes)

    def guarantee(self, params: TlkcParams) -> Guarantee:
        """Returns the property of the released log."""
        return syntactic(
            f"{_knowledge_in_words(params)} matches at least {params.k} cases"
            f"{_confidence(params)}.",
            ("Somebody who knows more of a case than that can single it out.",),
            params,
            params.knowledge_kind,
        )

    def explain(self, params: TlkcParams) -> tuple[str, ...]:
        """Returns one sentence for the round."""
        how = {
            "n_score": f"alpha {params.alpha:g}",
            "frequent_traces": f"theta {params.theta:g}",
        }[params.algorithm]
        drawn = ", of equal scores one that is drawn," if params.profile == "paper" else ""
        return (
            "suppression: counts the distinct cases as they can be known, mines the minimal "
            f"violating traces and suppresses elements by {params.algorithm} ({how}){drawn} in the "
            "whole log, again and again until none is left",
        )

    def requires(self, round_name: str, params: TlkcParams) -> Mapping[str, contract.Counter]:
        """Returns the counter of the distinct cases."""
        knowledge = params.knowledge(params.knowledge_kind)
        return known_cases(knowledge, params.sensitive_attributes)

    def decide(
        self,
        round_name: str,
        statistics: Mapping[str, Any],
        decisions: contract.Decisions,
        params: TlkcParams,
        randomness: Randomness,
    ) -> SuppressionDecision:
        """Decides what to suppress.

        Raises:
            GuaranteeError: The log as a whole does not meet k or confidence, or nothing would be
                left of it.
        """
        passes = suppression_passes(statistics["cases"].decoded(), params, randomness)
        return SuppressionDecision(
            offsets_of(np.array([len(words) for words in passes], np.int64)),
            np.concatenate([np.zeros(0, np.int64), *passes]),
        )

    def apply(
        self,
        traces: TraceBatch,
        decisions: contract.Decisions,
        params: TlkcParams,
        randomness: Randomness,
    ) -> TraceBatch:
        """Suppresses the elements in one batch; see `k_anonymous_variants.released`."""
        decided: SuppressionDecision = decisions["suppression"]
        words = params.knowledge(params.knowledge_kind).words(traces)
        offsets, left = traces.offsets, np.arange(traces.n_events)
        for suppressed in decided.passes:
            is_kept, offsets, words = suppress(offsets, words, suppressed)
            left = left[is_kept]
        is_left = np.zeros(traces.n_events, bool)
        is_left[left] = True
        return released(traces, is_left, params, params.sensitive_attributes, randomness)

    def verify(self, released: Sequence[TraceBatch], params: TlkcParams) -> None:
        """Checks the promise on a released log, and looks at nothing else.

        Raises:
            GuaranteeError: It does not hold.
        """
        verify_tlkc(released, params)


def suppression_passes(
    cases: CaseTable, params: TlkcParams, randomness: Randomness
) -> list[np.ndarray]:
    """Returns the words to suppress, pass by pass, until the log satisfies TLKC privacy.

    Args:
        cases: The log as it can be known, with the cells of the sensitive attributes.
        params: What it is to satisfy.
        randomness: Where the draws of the profile `paper` come from.

    Raises:
        GuaranteeError: See `Tlkc.decide`.
    """
    demand = Demand(params.k, params.exact_confidence)
    kind = params.knowledge_kind
    passes: list[np.ndarray] = []
    while True:
        _require_cases(cases, params.k, is_suppressed=bool(passes))
        labels = suppression.labels_of(cases, params.sensitive_attributes)
        _require_confidence(cases, labels, params, is_suppressed=bool(passes))
        violating = suppression.minimal_violations(cases, labels, kind, demand, params.length)
        if violating.n == 0:
            return passes
        suppressed = _chosen(cases, violating, params, randomness, len(passes))
        if kind == "multiset":
            suppressed = _with_later_ones(suppressed, violating.elements)
        passes.append(suppressed)
        cases = cases.without(suppressed)


def _chosen(
    cases: CaseTable,
    violating: suppression.Patterns,
    params: TlkcParams,
    randomness: Randomness,
    n_before: int,
) -> np.ndarray:
    """The words to suppress of one pass, after so many others."""
    kind = params.knowledge_kind
    as_printed = params.profile == "paper"
    no_numbers = as_printed and kind == "multiset"
    if no_numbers:
        violating = suppression.without_numbers(violating)
    draws = None
    if as_printed:
        cells = cell_numbers(violating.elements.astype(np.uint64))
        draws = randomness.words("tlkc/ties", cells, n_before)[:, 0]
    share = suppression.cases_with(cases, violating.elements)
    if params.algorithm == "n_score":
        return suppression.suppressed_by_n_scores(
            violating, share, cases.n_cases, params.alpha, draws
        )
    frequent = suppression.maximal_frequent(cases, kind, Fraction(str(params.theta)))
    if no_numbers:
        frequent = suppression.without_numbers(frequent)
    return suppression.suppressed_by_frequent_traces(violating, frequent, share, draws)


def _with_later_ones(suppressed: np.ndarray, elements: np.ndarray) -> np.ndarray:
    """Elements of a multiset, and their equals with larger numbers."""
    codes, place = np.unique(codes_of_words(elements), return_inverse=True)
    smallest = np.full(len(codes), np.iinfo(np.int64).max)
    mine = np.searchsorted(codes, codes_of_words(suppressed))
    np.minimum.at(smallest, mine, times_of_words(suppressed))
    return elements[times_of_words(elements) >= smallest[place]]


def _require_cases(cases: CaseTable, k: int, is_suppressed: bool) -> None:
    """Checks that k cases match the knowledge of nothing, which every case matches."""
    if cases.n_cases == 0:
        raise GuaranteeError(
            "no case is left: every event takes part in a violation; lower k or length, raise "
            "confidence, or take a coarser time_unit"
            if is_suppressed
            else "the log has no events, so there is nothing to anonymise"
        )
    if cases.n_cases < k:
        left = "that suppression leaves " if is_suppressed else ""
        raise GuaranteeError(f"k={k} is more than the cases {left}in the log; lower it")


def _require_confidence(
    cases: CaseTable, labels: np.ndarray, params: TlkcParams, is_suppressed: bool
) -> None:
    """Checks the confidence in every sensitive value among all cases."""
    for k, attribute in enumerate(params.sensitive_attributes):
        totals = np.bincount(labels[:, k], cases.counts)
        totals[0] = 0
        if int(totals.max()) > params.exact_confidence * cases.n_cases:
            among = (
                "among the cases that suppression leaves"
                if is_suppressed
                else "even among all cases of the log"
            )
            raise GuaranteeError(
                f"confidence={params.confidence:g} cannot be met: {among}, the share of a "
                f"value of {attribute.name!r} is above it; raise confidence, or leave that "
                "out of sensitive"
            )


_ELEMENTS = {
    "activity": "activities",
    "resource": "resources",
    "activity_resource": "activities with their resources",
}
_KINDS = {
    "set": "set of at most {} {}",
    "multiset": "multiset of at most {} {}, repetitions counted,",
    "sequence": "sequence of at most {} {}",
    "relative": "sequence of at most {} {} with the {} since the case's first event",
}


def _knowledge_in_words(params: TlkcParams) -> str:
    kind = _KINDS[params.knowledge_kind]
    what = kind.format(params.length, _ELEMENTS[params.perspective], params.time_unit)
    return f"Every {what} that occurs in the released log"


def _confidence(params: TlkcParams) -> str:
    if not params.sensitive:
        return ""
    names = ", ".join(params.sensitive)
    return (
        f", and no value of {names} has a share above {params.confidence:g} among those (of "
        "numbers: no box of low, middle and high by the quartiles of the released log)"
    )
