"""k-anonymity of variants by leaving out the rare ones: Baseline-1 of the TLKC paper.

Rafiei, van der Aalst: Group-Based Privacy Preservation Techniques for Process Mining, section 5.1.
Somebody is taken to know everything of a case: the sequence of its elements, and its relative times
where these are meant to be known. A variant is all of that, and one that fewer than k cases have is
not released. Where each case is its own variant, as in the paper's Table 3, nothing would be left,
and nothing is released.

k-anonymity of variants by leaving events out: Baseline-2 of the TLKC paper.

Rafiei, van der Aalst: Group-Based Privacy Preservation Techniques for Process Mining, section 5.1.
Each variant that fewer than k cases have is mapped to the most similar subtrace that k or more have
after all are mapped, by removing events; one for which there is none is removed. Others stay. Known
are a case's sequence of elements and, if so declared, its relative times, as in
`anonymizers.tlkc.k_anonymous_variants`.

The paper does not say how the subtraces are found, and to remove the fewest events is a clustering
problem, for which a greedy way is taken here; see `anonymizers.tlkc.subtrace_groups`. On the
paper's Table 3 it removes as few events as can be: 10 for k = 2 and 18 for k = 4, where the paper
removes 12 and 18.

What the k-anonymity family does with traces: counts them as known, and releases what is left.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import Batch, Counted
from tracecloak.anonymizers.contract.sentences import promise, sentence
from tracecloak.anonymizers.noise.randomness import Randomness, hex_ids
from tracecloak.anonymizers.rigorous.parts_method import Given, Part, step
from tracecloak.anonymizers.tlkc.promise import KAnonymousParams, KnowledgeParams, verify_released
from tracecloak.anonymizers.tlkc.subtrace_groups import BLOCK, Group, grouped
from tracecloak.schemas.arrays.merging import distinct_counts, offsets_of, ranges
from tracecloak.schemas.arrays.sequences import N_CHARACTERS, characters_of
from tracecloak.schemas.calendar.local_time import microseconds_at
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.events.declarations import Attribute, declared
from tracecloak.schemas.events.events import MAX_TIME_US
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.manifest import Guarantee
from tracecloak.schemas.statistics.background_knowledge import (
    UNIT_US,
    CaseTable,
    Knowledge,
    KnownCases,
    cells_of,
)


def _known_cases(
    batch: Batch, knowledge: Knowledge, sensitive: tuple[Attribute, ...]
) -> KnownCases:
    traces = batch.traces
    first = traces.offsets[:-1]
    cells = [cells_of(traces, attribute)[first] for attribute in sensitive]
    return KnownCases.from_cases(
        traces.offsets,
        knowledge.words(traces),
        np.stack(cells, axis=1) if cells else np.zeros((traces.n_cases, 0), np.int32),
    )


class Suppressing(contract.Anonymizer):
    """What the methods of the family share: it is decided which events go, and the others stay."""

    def guarantee(self, params: KnowledgeParams) -> Guarantee:
        """Returns the property of the released log."""
        return Guarantee.without_epsilon("syntactic", **promise(self.name, params))

    def attributes(self, params: KnowledgeParams) -> tuple[Attribute, ...]:
        """Returns the resource, if it is known, and what is sensitive: all is read and released."""
        return (*declared(params.resources), *params.sensitive_attributes)

    def parts(self, params: Any) -> tuple[Part, ...]:
        """Returns the one part, in which everything is decided."""
        does = sentence(self.name, "suppression", params)
        known = params.knowledge(params.knowledge_kind), params.sensitive_attributes
        counters = {"cases": Counted(KnownCases, _known_cases, known)}

        def decide(given: Given) -> contract.Decision:
            return self.decided(given.statistics["cases"], params, given.randomness)

        return (step("suppression", does, counters, decide),)

    @abstractmethod
    def decided(self, known: KnownCases, params: Any, randomness: Randomness) -> contract.Decision:
        """Returns what goes.

        Raises:
            GuaranteeError: Nothing would be left of the log, or it cannot keep the promise.
        """

    @abstractmethod
    def is_kept(self, decided: Any, offsets: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Returns bool[n_events], which events of a batch stay.

        Args:
            decided: What goes.
            offsets: int64[n_cases+1], where the events of each case begin.
            words: int64[n_events], what is known of each.
        """

    def apply(
        self,
        traces: TraceBatch,
        decisions: contract.Decisions,
        params: Any,
        randomness: Randomness,
    ) -> TraceBatch:
        """Leaves events out of one batch; see `released`."""
        words = params.knowledge(params.knowledge_kind).words(traces)
        is_kept = self.is_kept(decisions["suppression"], traces.offsets, words)
        return released(traces, is_kept, params, randomness)

    def verify(self, released: Sequence[TraceBatch], params: Any) -> None:
        """Checks the promise on a released log, and looks at nothing else.

        Raises:
            GuaranteeError: It does not hold.
        """
        verify_released(released, params)


def released(
    traces: TraceBatch,
    is_kept: np.ndarray,
    params: KnowledgeParams,
    randomness: Randomness,
) -> TraceBatch:
    """Returns the cases with the events that are kept, without those that have none.

    Ids are new. Times are cut to the unit and count from the first event kept, which is at the
    initial time. Of the attributes there are the resource and then the sensitive ones, each
    value as its declaration has it: of a bin of numbers its lower end.

    Args:
        traces: Of the source.
        is_kept: bool[n_events].
        params: What is known of events and sensitive of cases, and the released accuracy.
        randomness: The release's.

    Raises:
        GuaranteeError: A case lasts longer than there is time after the initial one.
    """
    before = np.concatenate([[0], np.cumsum(is_kept)]).astype(np.int64)
    lengths = np.diff(before[traces.offsets])
    filled = np.flatnonzero(lengths)
    lengths, events = lengths[filled], np.flatnonzero(is_kept)
    offsets = offsets_of(lengths)
    units = traces.times[events] // UNIT_US[params.time_unit]
    since = units - np.repeat(units[offsets[:-1]], lengths)
    initial = microseconds_at(params.initial_time)
    if len(since) and int(since.max()) > (MAX_TIME_US - initial) // UNIT_US[params.time_unit]:
        raise GuaranteeError(
            f"initial_time={params.initial_time.isoformat()} puts released times beyond the year "
            "9999, which no file can hold; take an earlier one"
        )
    ids = randomness.identify("case", traces.case_ids.take(pa.array(filled)))
    attributes = {}
    for attribute in (*declared(params.resources), *params.sensitive_attributes):
        cells = cells_of(traces, attribute)[events]
        attributes[attribute.name] = attribute.values_of(cells, np.zeros(len(cells)))
    return TraceBatch(
        hex_ids(randomness.words("k-anonymity/case-id", ids)),
        offsets,
        traces.activities[events],
        initial + since * UNIT_US[params.time_unit],
        traces.vocabulary,
        attributes=attributes,
    )


class EventsDecision(contract.Decision, wire_name="k-anonymous-events"):
    """Which events of which variants go.

    Attributes:
        rows: large_binary[n], the variants that lose events, as in `KnownCases`.
        offsets: int64[n+1], where the events of each begin.
        kept: bool[n_events], which of them stay.
    """

    rows: pa.LargeBinaryArray
    offsets: np.ndarray
    kept: np.ndarray


class KAnonymous(Suppressing):
    """What the two baselines share: a variant keeps all of its events, some, or none."""

    Params: ClassVar[type[KAnonymousParams]] = KAnonymousParams

    def decided(
        self, known: KnownCases, params: KAnonymousParams, randomness: Randomness
    ) -> EventsDecision:
        """Returns which events of which variants go.

        Raises:
            GuaranteeError: Nothing would be left of the log.
        """
        cases = known.decoded()
        if cases.n_cases == 0:
            raise GuaranteeError("the log has no events, so there is nothing to anonymise")
        rare = np.flatnonzero(cases.counts < params.k)
        lengths = np.diff(cases.offsets)
        is_kept = self.kept_of_rare(cases, rare, params.k)
        if len(rare) == len(lengths) and not is_kept.any():
            raise GuaranteeError(
                f"no case is left: nothing that k={params.k} cases have in common could be kept; "
                "lower it, or take a coarser time_unit"
            )
        return EventsDecision(known.rows.take(pa.array(rare)), offsets_of(lengths[rare]), is_kept)

    @abstractmethod
    def kept_of_rare(self, cases: CaseTable, rare: np.ndarray, k: int) -> np.ndarray:
        """Returns which events of the rare variants stay.

        Args:
            cases: The variants.
            rare: int64[n], those with fewer than k cases.
            k: How many cases must be alike.

        Returns:
            bool[n_events], the events of the first rare variant first.
        """

    def is_kept(
        self, decided: EventsDecision, offsets: np.ndarray, words: np.ndarray
    ) -> np.ndarray:
        """Returns bool[n_events], which events of a batch stay."""
        nothing = np.zeros((len(offsets) - 1, 0), np.int64)
        rows = KnownCases.rows_of(offsets, words, nothing)
        place = np.asarray(pc.fill_null(pc.index_in(rows, value_set=decided.rows), -1))
        shortened = np.flatnonzero(place >= 0)
        lengths = np.diff(offsets)[shortened]
        is_kept = np.ones(len(words), bool)
        is_kept[ranges(offsets[:-1][shortened], lengths)] = decided.kept[
            ranges(decided.offsets[place[shortened]], lengths)
        ]
        return is_kept


class KAnonymousVariants(KAnonymous, name="k-anonymous-variants"):
    """The method; see the module."""

    def kept_of_rare(self, cases: CaseTable, rare: np.ndarray, k: int) -> np.ndarray:
        """Returns none of them."""
        return np.zeros(int(np.diff(cases.offsets)[rare].sum()), bool)


class KAnonymousSubtraces(KAnonymous, name="k-anonymous-subtraces"):
    """The method; see the module."""

    def kept_of_rare(self, cases: CaseTable, rare: np.ndarray, k: int) -> np.ndarray:
        """Returns which events of the rare variants stay."""
        lengths = np.diff(cases.offsets)
        begin = offsets_of(lengths[rare])
        is_kept = np.zeros(int(begin[-1]), bool)
        texts, frequent = _texts_of(cases, rare)
        groups = [Group(text, int(cases.counts[rare[i]]), [i]) for i, (text, _) in enumerate(texts)]
        for group in grouped(groups, frequent, k):
            for member in group.members:
                text, places = texts[member]
                at = -1
                for character in group.text:
                    at = text.index(character, at + 1)
                    is_kept[begin[member] + places[at]] = True
        return is_kept


def _texts_of(cases: CaseTable, rare: np.ndarray) -> tuple[list[tuple[str, np.ndarray]], list[str]]:
    """Variants as texts of the elements that at least two variants have; the others go anyway.

    Returns:
        Each rare variant, with where each of its characters is in it; and those that stay, the most
        frequent first.
    """
    lengths = np.diff(cases.offsets)
    row = np.repeat(np.arange(len(lengths)), lengths)
    elements, items = np.unique(cases.words, return_inverse=True)
    pairs, _ = distinct_counts(row * max(len(elements), 1) + items)
    n_rows = np.bincount(pairs % max(len(elements), 1), minlength=len(elements))
    # The most common elements come first, so that only rare ones can be without a character.
    order = np.argsort(-n_rows, kind="stable")
    rank = np.empty(len(elements), np.int64)
    rank[order] = np.arange(len(elements))
    shared = (n_rows > 1) & (rank + 1 < N_CHARACTERS)

    def text_of(i: int, has_all: bool) -> tuple[str, np.ndarray]:
        codes = items[cases.offsets[i] : cases.offsets[i + 1]]
        places = np.flatnonzero(shared[codes])
        if has_all and len(places) < len(codes):
            return "", places
        return characters_of(rank[codes[places]] + 1), places

    others = np.setdiff1d(np.arange(len(lengths)), rare)
    others = others[np.argsort(-cases.counts[others], kind="stable")][:BLOCK]
    frequent = (text_of(i, True)[0] for i in others.tolist())
    return [text_of(i, False) for i in rare.tolist()], [text for text in frequent if text]
