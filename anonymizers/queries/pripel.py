"""PRIPEL: a private variant query, enriched with times and attributes of matched cases."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pydantic
from pydantic import Field

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import RANGE_OF_STARTS, Batch, Counted
from tracecloak.anonymizers.contract.sentences import promise, sentence
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.samplers import LARGEST_TERM
from tracecloak.anonymizers.queries.prefix_method import LaplaceVariants, LevelMethod, LevelParams
from tracecloak.anonymizers.queries.pripel_enrichment import (
    MAX_ACTIVITIES,
    ContentsDecision,
    Enriched,
    QueryDecision,
    assigned,
    pair_groups,
)
from tracecloak.anonymizers.queries.sacofa import Sacofa
from tracecloak.anonymizers.rigorous.params import Exact
from tracecloak.anonymizers.rigorous.parts_method import Given, Part, step
from tracecloak.anonymizers.variants.distance import LevenshteinDistance
from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.arrays.sequences import CaseRanks, case_bytes, encode_sequences
from tracecloak.schemas.errors import GuaranteeError, UsageError
from tracecloak.schemas.events.declarations import Attribute, Declarations, declared
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.manifest import Guarantee
from tracecloak.schemas.published.variants import ReleasedVariants

if TYPE_CHECKING:
    from scipy.sparse import csr_array
from tracecloak.schemas.statistics.durations import DurationTable
from tracecloak.schemas.statistics.variants import VariantHistogram

# --- Which case of the log a released sequence is made from: the cheapest assignment by edits. ----
# PRIPEL (Fahrenkrog-Petersen, van der Aa, Weidlich, "PRIPEL: Privacy-Preserving Event Log
# Publishing Including Contextual Information", 2020) assigns every sequence that its query gives
# to a case of the log, each case at most once, so that the sum of the Levenshtein distances is
# smallest. Its authors' code fills a matrix of all sequences by all cases. Here it is a
# transportation problem between variants with their numbers of cases, with the same smallest sum:
#
# Equal variants are matched first. That is part of a cheapest assignment: if a sequence of
# variant v took a case of w, and a sequence of u a case of v, then by the triangle inequality v
# with v and u with w cost no more.
#
# Of what is left, with S sequences in all, each variant looks at its nearest ones alone, up to
# the distance within which there are S cases or more. All other sequences together take fewer, so
# one of these is always free, and nearer than any further one.
#
# The rest is solved exactly by the primal-dual method for transportation (Ford and Fulkerson,
# 1956; Kuhn, 1955): as many sequences as possible are sent along pairs whose distance is the sum
# of the prices at their ends, then the prices of what can still be reached move by the smallest
# step that opens a new pair. Distances are small integers, so there are few such steps.
#
# The assignment reads the unprotected log: no epsilon covers it.


# At most so many distances are computed, which takes minutes, and at most so many pairs are kept,
# which take 2 GB.
MAX_DISTANCES = 1 << 30
MAX_PAIRS = 1 << 26
_TOO_MANY = (
    f"more than {MAX_PAIRS:,} pairs of variants would be compared to match the released variants "
    "with those of the log: raise p_harmful or epsilon, or lower max_prefix_length"
)


Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]


def match_variants(released: VariantHistogram, raw: VariantHistogram) -> Pairs:
    """Assigns every released sequence to a case of the log at the smallest sum of distances.

    A case takes at most one sequence, or, where more sequences are released than the log has
    cases, as many as there are released for each case of the log, rounded up.

    Args:
        released: Variants of the query with their numbers of sequences.
        raw: Variants of the log; at least one unless nothing is released. Same codes.

    Returns:
        int64[n] thrice: numbers of the log's variants, ascending; of the released variants,
        ascending within each of the log's; and how many sequences of the one are made from cases
        of the other, all positive, which add up to those of each released variant.

    Raises:
        UsageError: There are too many pairs of variants to compare.
    """
    if not released.n_variants:
        return (np.zeros(0, np.int64),) * 3
    supply = released.counts.copy()
    capacity = raw.counts * -(-released.n_cases // raw.n_cases)
    twin = pc.index_in(released.sequences, value_set=raw.sequences)
    same = np.flatnonzero(twin.is_valid())
    twins = np.asarray(twin.drop_null(), np.int64)
    equal = np.minimum(supply[same], capacity[twins])
    supply[same] -= equal
    capacity[twins] -= equal

    rows, columns = np.flatnonzero(supply), np.flatnonzero(capacity)
    pairs = _nearest_pairs(released, raw, rows, columns, supply[rows], capacity[columns])
    sent = transport(pairs, supply[rows], capacity[columns])
    used = np.flatnonzero(sent)
    from_raw = np.concatenate([twins, columns[pairs[1][used]]])
    to_released = np.concatenate([same, rows[pairs[0][used]]])
    cases = np.concatenate([equal, sent[used]])
    order = np.lexsort((to_released, from_raw))
    order = order[cases[order] > 0]
    return from_raw[order], to_released[order], cases[order]


def _nearest_pairs(
    released: VariantHistogram,
    raw: VariantHistogram,
    rows: np.ndarray,
    columns: np.ndarray,
    supply: np.ndarray,
    capacity: np.ndarray,
) -> Pairs:
    """Returns the pairs that a cheapest assignment needs, see the module, as `transport` takes."""
    if len(rows) * len(columns) > MAX_DISTANCES:
        raise UsageError(_TOO_MANY)
    together = pa.concat_arrays(
        [released.sequences.take(pa.array(rows)), raw.sequences.take(pa.array(columns))]
    )
    both = VariantHistogram.of(together, np.ones(len(together), np.int64))
    number = np.asarray(pc.index_in(together, value_set=both.sequences), np.int64)
    distance = LevenshteinDistance(both)
    candidates = number[len(rows) :]
    total = int(supply.sum())
    near_columns: list[np.ndarray] = []
    costs: list[np.ndarray] = []
    n_pairs = 0
    for row in number[: len(rows)].tolist():
        distances = distance.between(row, candidates, None)
        within = np.cumsum(sum_groups(distances, capacity, int(distances.max()) + 1))
        near = np.flatnonzero(distances <= np.searchsorted(within, total))
        n_pairs += len(near)
        if n_pairs > MAX_PAIRS:
            raise UsageError(_TOO_MANY)
        near_columns.append(near.astype(np.int32))
        costs.append(distances[near].astype(np.int32))
    nothing = np.zeros(0, np.int32)
    return (
        np.repeat(np.arange(len(rows)), [len(near) for near in near_columns]),
        np.concatenate([nothing, *near_columns]).astype(np.int64),
        np.concatenate([nothing, *costs]).astype(np.int64),
    )


def transport(pairs: Pairs, supply: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """Returns int64[n_pairs], what is sent along each pair: all of the supply, at the least cost.

    Args:
        pairs: int64[n] thrice, those that may be used, in the order of their rows: places in the
            supply and in the capacity, and what a unit costs, which is not negative. There must be
            room for all of the supply along them.
        supply: int64[n_rows], positive.
        capacity: int64[n_columns], positive.
    """
    rows, columns, costs = pairs
    sent = np.zeros(len(rows), np.int64)
    if not len(supply):
        return sent
    left, room = supply.copy(), capacity.copy()
    # Rows and columns have prices: the cost of a pair is at least the sum of its two prices, and is
    # that sum where the pair is used.
    row_minima = np.minimum.reduceat(costs, np.searchsorted(rows, np.arange(len(supply))))
    column_prices = np.zeros(len(capacity), np.int64)
    slack = costs - row_minima[rows]
    while True:
        tight = np.flatnonzero(slack == 0)
        change = _largest_flow(rows[tight], columns[tight], sent[tight], left, room)
        sent[tight] += change
        left -= sum_groups(rows[tight], change, len(left))
        room -= sum_groups(columns[tight], change, len(room))
        if not left.any():
            return sent
        row_reached, column_reached = _reached(rows[tight], columns[tight], sent[tight], left, room)
        opens = row_reached[rows] & ~column_reached[columns]
        step = slack[opens].min()
        row_minima[row_reached] += step
        column_prices[column_reached] -= step
        slack = costs - row_minima[rows] - column_prices[columns]


def _largest_flow(
    rows: np.ndarray, columns: np.ndarray, sent: np.ndarray, left: np.ndarray, room: np.ndarray
) -> np.ndarray:
    """Returns int64[n], by how much to change what is sent so that most of what is left goes."""
    n, m = len(left), len(room)
    source, sink = n + m, n + m + 1
    waiting, free, back = np.flatnonzero(left), np.flatnonzero(room), np.flatnonzero(sent)
    tails = [np.full(len(waiting), source), rows, columns[back] + n, free + n]
    heads = [waiting, columns + n, rows[back], np.full(len(free), sink)]
    most = [left[waiting], np.full(len(rows), left.sum()), sent[back], room[free]]
    graph = _graph(tails, heads, most, n + m + 2)
    from scipy.sparse.csgraph import maximum_flow

    flow = maximum_flow(graph, source, sink).flow
    return np.asarray(flow[rows, columns + n], np.int64).ravel()


def _reached(
    rows: np.ndarray, columns: np.ndarray, sent: np.ndarray, left: np.ndarray, room: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns (bool[n_rows], bool[n_columns]), what more could be sent to without its being free.

    Rows that have something left, columns along their pairs, the rows that send there, and so on.
    """
    n, m = len(left), len(room)
    waiting, back = np.flatnonzero(left), np.flatnonzero(sent)
    tails = [np.full(len(waiting), n + m), rows, columns[back] + n]
    heads = [waiting, columns + n, rows[back]]
    graph = _graph(tails, heads, [np.ones(len(part)) for part in heads], n + m + 1)
    from scipy.sparse.csgraph import breadth_first_order

    order = breadth_first_order(graph, n + m, return_predecessors=False)
    is_reached = np.zeros(n + m + 1, bool)
    is_reached[order] = True
    return is_reached[:n], is_reached[n : n + m]


def _graph(
    tails: list[np.ndarray], heads: list[np.ndarray], weights: list[np.ndarray], n_nodes: int
) -> csr_array:
    from scipy import sparse

    ends = np.concatenate(tails), np.concatenate(heads)
    weight = np.concatenate(weights).astype(np.int32)
    return sparse.coo_array((weight, ends), shape=(n_nodes, n_nodes)).tocsr()


# --- PRIPEL: a log of sequences from a noisy query, filled with times and values of matched cases.
# Fahrenkrog-Petersen, van der Aa, Weidlich ("PRIPEL: Privacy-Preserving Event Log Publishing
# Including Contextual Information", 2020). A trace-variant query says which sequences are
# released (`anonymizers.queries.prefix_query`, or SaCoFa's), each is matched with the case of the
# log that is nearest to it (`anonymizers.queries.pripel`), takes its times and attribute values
# from that case (`anonymizers.queries.pripel_enrichment`), and times and values get noise. As
# published; `guarantee` says what really holds, which is no finite epsilon.


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
    def query_params(self) -> LevelParams:
        """The parameters of the query's own method."""
        given: dict[str, Any] = self.model_dump(
            include={"epsilon", "max_prefix_length", "p_harmful"}
        )
        if self.query == "sacofa":
            given |= {"profile": "reference", "p_harmless": self.p_harmless}
        else:
            given |= {"profile": "paper"}
        return _QUERIES[self.query].Params(**given)  # type: ignore[return-value]

    @property
    def declared(self) -> tuple[Attribute, ...]:
        """The declared attributes."""
        return declared(self.attributes)


class Pripel(contract.Anonymizer, name="pripel"):
    """The method; see the module."""

    Params: ClassVar[type[PripelParams]] = PripelParams

    def guarantee(self, params: PripelParams) -> Guarantee:
        """Returns the published claim, and why no finite epsilon holds."""
        of_variants = _QUERIES[params.query].guarantee(params.query_params).reality
        return Guarantee.without_epsilon(
            "published", **promise(self.name, params, of_variants=of_variants)
        )

    def parts(self, params: PripelParams) -> tuple[Part, ...]:
        """Returns the two rounds."""
        asked = _QUERIES[params.query].requires("variants", params.query_params)
        per_event = [a for a in params.declared if not a.is_of_case]
        counters = {
            "ranks": Counted(CaseRanks, _ranks),
            "durations": Counted(DurationTable, _durations),
            **{f"attribute {a.name}": Counted(DurationTable, _values, (a,)) for a in per_event},
        }

        def contents(given: Given) -> ContentsDecision:
            counted = given.statistics
            value_counts = {a.name: counted[f"attribute {a.name}"] for a in per_event}
            assignment = assigned(counted["ranks"], given.decisions[VARIANTS])
            return ContentsDecision(*assignment, counted["durations"], value_counts)

        return (
            step(
                VARIANTS,
                sentence(self.name, VARIANTS, params),
                {**asked, "starts": RANGE_OF_STARTS},
                lambda given: _matched(given, params),
            ),
            step(
                CONTENTS,
                sentence(self.name, CONTENTS, params),
                counters,
                contents,
            ),
        )

    def apply(
        self,
        traces: TraceBatch,
        decisions: contract.Decisions,
        params: PripelParams,
        randomness: Randomness,
    ) -> TraceBatch:
        """Makes the released cases that are matched with the cases of one batch."""
        cases = Enriched(traces, decisions[VARIANTS], decisions[CONTENTS], randomness)
        epsilon, by_pair = float(params.epsilon), params.duration_bounds == "pair"
        return replace(
            cases.released,
            times=cases.retimed(epsilon, by_pair, randomness),
            attributes={a.name: cases.value(a, epsilon, randomness) for a in params.declared},
        )


def _matched(given: Given, params: PripelParams) -> QueryDecision:
    """What is released, and of which cases it is made.

    Raises:
        GuaranteeError: The log is empty.
        UsageError: The query has too many candidates, cases or variants to match, or the log has
            too many activities.
    """
    raw: VariantHistogram = given.statistics["variants"]
    vocabulary: ActivityVocabulary = given.statistics["names"]
    if not raw.n_variants:
        raise GuaranteeError("the log has no events, so there is nothing to anonymise")
    query = _QUERIES[params.query]
    decided = query.decide("variants", given.statistics, {}, params.query_params, given.randomness)
    answer: ReleasedVariants = decided.variants  # type: ignore[attr-defined]
    if len(vocabulary) > MAX_ACTIVITIES:
        raise UsageError(
            f"pripel takes logs of at most {MAX_ACTIVITIES:,} activities; map them to fewer names"
        )
    if answer.n_cases > _MOST_CASES:
        raise UsageError(
            f"the query releases more than {_MOST_CASES:,} cases: raise epsilon or p_harmful"
        )
    codes = vocabulary.codes(answer.names)[answer.codes]
    released = VariantHistogram.of(encode_sequences(answer.offsets, codes), answer.counts)
    from_raw, to_released, cases = match_variants(released, raw)
    used, place = np.unique(from_raw, return_inverse=True)
    return QueryDecision(
        released.offsets,
        released.codes,
        VariantHistogram(raw.sequences.take(used), raw.counts[used]),
        place,
        to_released,
        cases,
        given.statistics["starts"],
    )


# --- What one batch contributes ----------------------------------------------------------------


def _ranks(batch: Batch) -> CaseRanks:
    """Keyed identities of the cases of the variants that are matched."""
    query: QueryDecision = batch.decisions[VARIANTS]
    variant = query.matched.find(batch.traces)
    used = np.flatnonzero(variant >= 0)
    identities = batch.randomness.identify("case", batch.traces.case_ids.take(used))
    return CaseRanks.of(variant[used], case_bytes(identities))


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
