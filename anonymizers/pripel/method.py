"""PRIPEL: a log of sequences from a noisy query, filled with times and values of matched cases.

Fahrenkrog-Petersen, van der Aa, Weidlich ("PRIPEL: Privacy-Preserving Event Log Publishing
Including Contextual Information", 2020). A trace-variant query says which sequences are released
(`anonymizers.queries.prefix_query`, or SaCoFa's), each is matched with the case of the log that is
nearest to it (`anonymizers.pripel.matching`), takes its times and attribute values from that case
(`anonymizers.pripel.enrichment`), and times and values get noise. As
published; `guarantee` says what really holds, which is no finite epsilon.

Readings that the paper leaves open, fixed here: the Laplace query is the printed one, which prunes
on every level, with exact discrete Laplace noise; that of SaCoFa is as its authors' code has it,
which does not prune the last level. More sequences than cases take every case as often as
needed. The shift of a case is bounded Laplace noise on its start within the range of the log's
starts; a time between events gets bounded Laplace noise within the range that the log has between
its two activities, or between any. The authors' code sets up that mechanism and never calls it, so
that it releases the raw times; here all of them are perturbed. A text attribute is answered by
randomised response, where that code draws any value with equal chances. Bounds and values of
attributes are declared, not read from the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import RANGE_OF_STARTS, Batch, Counted
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.samplers import LARGEST_TERM
from tracecloak.anonymizers.pripel.enrichment import (
    MAX_ACTIVITIES,
    ContentsDecision,
    QueryDecision,
    assigned,
    enriched,
    pair_groups,
)
from tracecloak.anonymizers.queries.prefix_method import LaplaceVariants, LevelMethod, LevelParams
from tracecloak.anonymizers.queries.sacofa import Sacofa
from tracecloak.anonymizers.rigorous.params import Exact
from tracecloak.schemas.arrays.ranks import CaseRanks
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.errors import GuaranteeError, UsageError
from tracecloak.schemas.events.attributes import Attribute, declared
from tracecloak.schemas.events.declarations import Declarations
from tracecloak.schemas.events.timeline import StartRange
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.guarantee import Guarantee, Kind
from tracecloak.schemas.published.manifest import Operation
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.durations import DurationTable
from tracecloak.schemas.statistics.variants import VariantHistogram

VARIANTS, CONTENTS = "variants", "contents"
# Released cases at most: at a tiny epsilon the noise could ask for more than there is room for.
_MOST_CASES = 10_000_000
_QUERIES: dict[str, LevelMethod] = {"laplace": LaplaceVariants(), "sacofa": Sacofa()}


class PripelParams(contract.Params):
    """Parameters of PRIPEL."""

    epsilon: Exact = Field(gt=0, le=100)
    """As published: of every count of the query, of every time and of every attribute value,
    whatever it adds up to. A decimal above 0; smaller is noisier."""
    max_prefix_length: int = Field(ge=1, le=1000)
    """Levels of prefixes, at least 1; the end of a case counts as a symbol. Of longer cases a
    beginning of so many events comes out."""
    p_harmful: int = Field(ge=1, le=LARGEST_TERM)
    """Smallest noisy count of a prefix that is not pruned, in cases (the paper's k); higher loses
    more behaviour, lower invents more."""
    query: Literal["laplace", "sacofa"] = "laplace"
    """laplace: the query that the paper uses. sacofa: the one that prefers prefixes which keep the
    log's rules; p_harmful is then for those that do not."""
    p_harmless: int | None = Field(default=None, ge=1, le=LARGEST_TERM)
    """With query sacofa: the threshold of prefixes that keep the rules, at most p_harmful; without
    it, p_harmful."""
    duration_bounds: Literal["pair", "log"] = "pair"
    """Between which times a time between two events stays, and by which its noise is scaled: pair:
    those of the log between the same two activities. log: those between any two events, which is
    far noisier."""
    attributes: Declarations = Field(default_factory=dict)
    """Attributes to release, by name, each with all its values or its bounds; a name that begins
    with case: is one of the case. By default none is released."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> PripelParams:
        if self.p_harmless is not None and self.query != "sacofa":
            raise ValueError("p_harmless goes with query sacofa")
        if self.p_harmless is not None and self.p_harmless > self.p_harmful:
            raise ValueError("p_harmless must not be above p_harmful")
        return self

    @property
    def of_query(self) -> LevelParams:
        """The parameters of the query's own method."""
        given: dict[str, Any] = {
            "epsilon": self.epsilon,
            "max_prefix_length": self.max_prefix_length,
            "p_harmful": self.p_harmful,
            "profile": "reference" if self.query == "sacofa" else "paper",
        }
        if self.query == "sacofa":
            given["p_harmless"] = self.p_harmless
        return _QUERIES[self.query].Params(**given)  # type: ignore[return-value]

    @property
    def declared(self) -> tuple[Attribute, ...]:
        """The declared attributes."""
        return declared(self.attributes)


class Pripel(contract.Anonymizer):
    """The method; see the module."""

    name: ClassVar[str] = "pripel"
    summary: ClassVar[str] = "noisy variants filled with times and values of matched cases"
    guarantee_kind: ClassVar[Kind] = "published"
    Params: ClassVar[type[PripelParams]] = PripelParams
    log: ClassVar[Literal["transformed"]] = "transformed"
    operations: ClassVar[tuple[Operation, ...]] = (
        Operation("suppression", "case", "case"),
        Operation("addition", "case", "case"),
        Operation("substitution", "case", "concept:name"),
        Operation("substitution", "event", "concept:name"),
        Operation("substitution", "event", "time:timestamp"),
    )
    exact_noise: ClassVar[bool] = False
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"epsilon": "1", "max_prefix_length": 5, "p_harmful": 3},
    )

    def attributes(self, params: PripelParams) -> tuple[Attribute, ...]:
        """Returns the declared attributes."""
        return params.declared

    def rounds(self, params: PripelParams) -> tuple[str, ...]:
        """Returns the two rounds."""
        return (VARIANTS, CONTENTS)

    def guarantee(self, params: PripelParams) -> Guarantee:
        """Returns the published claim, and why no finite epsilon holds."""
        epsilon = decimal_text(Fraction(params.epsilon))
        of_query = _QUERIES[params.query].guarantee(params.of_query)
        each = "each time and each attribute value" if params.attributes else "each time"
        reality = (
            "No finite epsilon holds: each released case is made from the case of the log that it "
            "is matched with, which is chosen on the unprotected log. The bounds that times stay "
            "within, and the times and values that fill gaps, are read from the log as well, so "
            "what only one case has can prove that case's presence when it comes out. Were all of "
            f"that public, {each} would still have epsilon {epsilon}, which add up over the events "
            f"of a case. Of the variants alone: {of_query.reality}"
        )
        return Guarantee(
            kind="published",
            unit="case",
            adjacency="add_remove",
            epsilon=None,
            delta=None,
            claim=(
                f"epsilon = {epsilon}, for the variants, and as local differential privacy for "
                "each time and each attribute value."
            ),
            reality=reality,
            not_covered=(
                "Whether an event has a value of a declared attribute comes out as it is.",
                "Where all times between events of the log are equal, that time comes out.",
                "Releases of the same cases add up: so do their epsilons.",
            ),
        )

    def explain(self, params: PripelParams) -> tuple[str, ...]:
        """Returns one sentence per round."""
        query = {"laplace": "the trace-variant query", "sacofa": "the SaCoFa query"}[params.query]
        bounds = {"pair": "the same two activities", "log": "any two events"}[
            params.duration_bounds
        ]
        values = f" and {len(params.declared)} attributes" if params.attributes else ""
        epsilon = decimal_text(Fraction(params.epsilon))
        return (
            f"{VARIANTS}: asks {query} on {params.max_prefix_length} levels, with noise for "
            f"epsilon {epsilon} on each count, prunes below {params.p_harmful}, and matches each "
            "sequence with a case of the log at the smallest sum of edits; no finite epsilon holds",
            f"{CONTENTS}: fills each sequence with the times{values} of its case or of the log, "
            f"with bounded Laplace noise for epsilon {epsilon} on each, within the times that the "
            f"log has between {bounds}; no finite epsilon holds",
        )

    def requires(self, round_name: str, params: PripelParams) -> Mapping[str, contract.Counter]:
        """Returns the counters of a round."""
        if round_name == VARIANTS:
            asked = _QUERIES[params.query].requires("variants", params.of_query)
            return {**asked, "starts": RANGE_OF_STARTS}
        of_events = (a for a in params.declared if not a.is_of_case)
        return {
            "ranks": Counted(CaseRanks, _ranks),
            "durations": Counted(DurationTable, _durations),
            **{f"attribute {a.name}": Counted(DurationTable, _values, (a,)) for a in of_events},
        }

    def decide(
        self,
        round_name: str,
        statistics: Mapping[str, Any],
        decisions: contract.Decisions,
        params: PripelParams,
        randomness: Randomness,
    ) -> contract.Decision:
        """Decides a round.

        Raises:
            GuaranteeError: The log is empty.
            UsageError: The query has too many candidates, cases or variants to match, or the log
                has too many activities.
        """
        if round_name == VARIANTS:
            if not statistics["variants"].n_variants:
                raise GuaranteeError("the log has no events, so there is nothing to anonymise")
            asked = _QUERIES[params.query]
            answer = asked.decide("variants", statistics, {}, params.of_query, randomness)
            return _matched(
                answer.variants,  # type: ignore[attr-defined]
                statistics["variants"],
                statistics["names"],
                statistics["starts"],
            )
        sources, released, replica = assigned(statistics["ranks"], decisions[VARIANTS])
        values = {
            a.name: statistics[f"attribute {a.name}"] for a in params.declared if not a.is_of_case
        }
        return ContentsDecision(sources, released, replica, statistics["durations"], values)

    def apply(
        self,
        traces: TraceBatch,
        decisions: contract.Decisions,
        params: PripelParams,
        randomness: Randomness,
    ) -> TraceBatch:
        """Makes the released cases that are matched with the cases of one batch."""
        return enriched(
            traces,
            decisions[VARIANTS],
            decisions[CONTENTS],
            params.declared,
            float(params.epsilon),
            params.duration_bounds == "pair",
            randomness,
        )


def _matched(
    answer: ReleasedVariants,
    raw: VariantHistogram,
    vocabulary: ActivityVocabulary,
    starts: StartRange,
) -> QueryDecision:
    if len(vocabulary) > MAX_ACTIVITIES:
        raise UsageError(
            f"pripel takes logs of at most {MAX_ACTIVITIES:,} activities; map them to fewer names"
        )
    if answer.n_cases > _MOST_CASES:
        raise UsageError(
            f"the query releases more than {_MOST_CASES:,} cases: raise epsilon or p_harmful"
        )
    codes = vocabulary.codes(answer.names)[answer.codes]
    released = VariantHistogram.from_sequences(
        encode_sequences(answer.offsets, codes), answer.counts
    )
    # It loads scipy, which a plan or a catalogue need not wait for.
    from tracecloak.anonymizers.pripel.matching import match_variants

    matching = match_variants(released, raw)
    used, place = np.unique(matching.raw, return_inverse=True)
    return QueryDecision(
        released.offsets,
        released.codes,
        VariantHistogram(raw.sequences.take(used), raw.counts[used]),
        place,
        matching.released,
        matching.cases,
        starts,
    )


# --- What one batch contributes ----------------------------------------------------------------


def _ranks(batch: Batch) -> CaseRanks:
    """Keyed identities of the cases of the variants that are matched."""
    query: QueryDecision = batch.decisions[VARIANTS]
    variant = query.matched.find(batch.traces)
    used = np.flatnonzero(variant >= 0)
    identities = batch.randomness.identify("case", batch.traces.case_ids.take(used))
    return CaseRanks.of(variant[used], identities)


def _durations(batch: Batch) -> DurationTable:
    """Times between events by pair of activities, in microseconds."""
    traces = batch.traces
    later = np.flatnonzero(~traces.is_first)
    before, after = traces.activities[later - 1], traces.activities[later]
    pairs = pair_groups(before, after, len(traces.vocabulary))
    return DurationTable.from_events(pairs, traces.durations[later])


def _values(batch: Batch, attribute: Attribute) -> DurationTable:
    """Cells of an attribute of events by activity."""
    traces = batch.traces
    cells = np.zeros(traces.n_events, np.int64)
    if attribute.name in traces.attributes:
        cells = attribute.cells(traces.attributes[attribute.name])
    return DurationTable.from_events(traces.activities, cells)
