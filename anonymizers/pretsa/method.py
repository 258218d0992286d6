"""The parameters of `pretsa` and `pretsa-case`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise, repeat
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pydantic
from pydantic import Field

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import Batch, Counted, CountVariants
from tracecloak.anonymizers.contract.sentences import promise
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers, hex_ids
from tracecloak.anonymizers.pretsa.tree import MergedTree, draw_durations
from tracecloak.anonymizers.pretsa.verify import verify_released
from tracecloak.anonymizers.rigorous.parts_method import Given, Part, step
from tracecloak.anonymizers.variants.distance import (
    EmbeddingDistance,
    LevenshteinDistance,
    PenaltyDirection,
    VariantDistance,
)
from tracecloak.schemas.arrays.merging import offsets_of, ranges
from tracecloak.schemas.arrays.sequences import CaseRanks, case_bytes
from tracecloak.schemas.errors import GuaranteeError, missing_extra
from tracecloak.schemas.events.declarations import Attribute, Declarations, declared
from tracecloak.schemas.events.events import EVENT_INDEX, MAX_TIME_US
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published import manifest
from tracecloak.schemas.published.manifest import Guarantee
from tracecloak.schemas.statistics.durations import DurationTable
from tracecloak.schemas.statistics.log_times import cumulated_stamps
from tracecloak.schemas.statistics.variants import VariantHistogram

# --- The parameters of `pretsa` and `pretsa-case`. ------------------------------------------------


class PretsaCaseParams(contract.Params):
    """Parameters of `pretsa-case`, and of `pretsa` but for t."""

    k: int = Field(default=4, ge=1, le=10**9)
    """Fewest cases of each prefix of the released log, and of each variant where the ends are
    protected. Larger merges more variants."""

    distance: Literal["levenshtein", "embedding"] = "levenshtein"
    """How the nearest variant is found: levenshtein counts edits, embedding compares the contexts
    of activities place by place, which keeps longer variants and needs the package gensim."""

    protect_ends: bool = True
    """Whether each released variant has at least k cases. Without it, as published, only each
    prefix has, and a variant that others continue can be that of a single case."""

    penalty_direction: PenaltyDirection = "text"
    """With distance embedding, how lengths count: text prefers to merge into longer variants,
    paper_formula is the formula as printed, which prefers shorter ones, and authors_code squares
    the difference of lengths."""

    rho_addition: float = Field(default=2.0, gt=1, le=100)
    """With distance embedding, the penalty of an event that is added, above 1; two activities are
    at most 2 apart, so above 2 a length always counts more than an activity."""

    rho_removal: float = Field(default=3.0, gt=1, le=100)
    """With distance embedding, the penalty of an event that is removed, above rho_addition."""

    epochs: int | None = Field(default=None, ge=1, le=10**6)
    """With distance embedding, how often Word2Vec goes through the log; by default 1000 times for
    small logs and less often for large ones, at least 5 times."""

    starts: Literal["dropped", "kept"] = "dropped"
    """Whether each case begins at the start of 1970, as in the paper's release, which has durations
    alone, or when it did. A start that is kept is exact, and can tell whose case it is."""

    duration: Declarations = Field(default_factory=dict)
    """What is taken for an event's duration; by default the time since its predecessor. Else one
    attribute of events, declared by bounds, which is released with new numbers. Fewer bins are
    coarser. The released events then have numbers in place of times, unless starts are kept."""

    @property
    def duration_attribute(self) -> Attribute | None:
        """The attribute that is the duration, if it is one."""
        return next(iter(declared(self.duration)), None)

    @pydantic.model_validator(mode="after")
    def _check(self) -> PretsaCaseParams:
        named = self.duration_attribute
        if named and (
            len(self.duration) > 1 or named.is_of_case or named.declaration.bounds is None
        ):
            raise ValueError("duration must be one attribute of events, declared by bounds")
        if not self.rho_removal > self.rho_addition:
            raise ValueError(
                f"rho_removal must be above rho_addition, got {self.rho_removal:g} and "
                f"{self.rho_addition:g}"
            )
        return self


class PretsaParams(PretsaCaseParams):
    """Parameters of `pretsa`."""

    t: float = Field(default=0.5, gt=0, le=1)
    """How far the durations at each prefix may be from those of all events of its activity, from
    above 0 to 1: every distance stays below t times the range of the latter. 1 allows all; smaller
    merges more variants."""

    closeness: Literal["released", "input"] = "released"
    """Whose durations t is about. released: those of the released log, which can be verified and is
    what t-closeness means; input, as the algorithm is published: those that the cases which stay at
    a prefix have in the input, among all of the input, and what is drawn for others counts
    nowhere. It releases some small logs that the other refuses."""


# --- Act2Vec: activities as vectors of their contexts, and how far apart two activities are. ------
# De Koninck, vanden Broucke, De Weerdt: act2vec, trace2vec, log2vec, and model2vec (2018): the
# continuous bag of words of Word2Vec with traces for sentences, by gensim. The vectors are
# learned on the log itself and are never released.
#
# The same variants, key and epochs give the same vectors on one machine, whatever PYTHONHASHSEED
# is. Their last bits follow the processor's floating-point kernels.


# As the authors of the embedding distance do, gensim's default sizes.
_DIMENSIONS = 100
_WINDOW = 5

# What training takes grows with events times epochs; beyond this many it learns little more.
_EVENTS_TRAINED_ON = 16_000_000
_WORD2VEC_BITS = np.uint64(0xFFFFFFFF)  # its generator starts from 32 bits
_FEWEST_EPOCHS, _MOST_EPOCHS = 5, 1000


def event_distances(
    variants: VariantHistogram, randomness: Randomness, epochs: int | None = None
) -> np.ndarray:
    """Returns float64[n_codes, n_codes], 1 - cosine of the vectors, from 0 to 2; 0 to itself.

    Args:
        variants: All variants with their numbers of cases; each case is a sentence.
        randomness: The release's, from which Word2Vec's own generator starts.
        epochs: Passes over the log; None: 1000, fewer where the log is large, but at least 5.

    Raises:
        UsageError: The package gensim is not installed.
    """
    try:
        from gensim.models import Word2Vec  # slow to import, and few releases need it
    except ImportError:
        raise missing_extra(
            "distance embedding", "gensim", "embedding", "use distance levenshtein"
        ) from None

    start = randomness.words("pretsa/embedding", cell_numbers(np.zeros(1)))[0, 0]
    if epochs is None:
        n_events = int((np.diff(variants.offsets) * variants.counts).sum())
        epochs = min(max(_EVENTS_TRAINED_ON // max(n_events, 1), _FEWEST_EPOCHS), _MOST_EPOCHS)
    words = [str(code) for code in variants.codes.tolist()]
    variant_words = [words[a:b] for a, b in pairwise(variants.offsets.tolist())]
    counts = variants.counts.tolist()
    # Cases of a variant are one and the same list.
    sentences = list(chain.from_iterable(map(repeat, variant_words, counts)))
    model = Word2Vec(
        sentences,
        vector_size=_DIMENSIONS,
        window=_WINDOW,
        min_count=1,
        seed=int(start & _WORD2VEC_BITS),  # from the key
        workers=1,  # more of them would race
        epochs=epochs,
    )
    n_codes = int(variants.codes.max()) + 1
    vectors = np.zeros((n_codes, _DIMENSIONS))
    known = [int(word) for word in model.wv.index_to_key]
    vectors[known] = model.wv.vectors
    norms = np.linalg.norm(vectors, axis=1)
    vectors /= np.where(norms > 0, norms, 1)[:, None]
    # A matrix product's last bits depend on the number of threads.
    distances = np.clip(1 - np.einsum("ik,jk->ij", vectors, vectors), 0, 2)
    np.fill_diagonal(distances, 0)
    return distances


# ---
# PRETSA: the cases of rare variants are merged into similar ones, and durations are drawn anew.
# Fahrenkrog-Petersen, van der Aa, Weidlich: PRETSA: Event Log Sanitization for Privacy-aware
# Process Discovery (2019), with the embedding distance of Rösel, Fahrenkrog-Petersen, van der Aa,
# Weidlich: A Distance Measure for Privacy-preserving Process Mining based on Feature Learning
# (2021). The merging is in `anonymizers.pretsa.tree`, the durations in `anonymizers.pretsa.tree`.
# `pretsa-case` is the variant that looks at cases alone, as Rafiei and van der Aalst recall it
# (Group-Based Privacy Preservation Techniques for Process Mining, 2021): k without t.
#
# A released case has a variant of the input, a new id, and durations that are nobody's. The paper's
# release has durations and no times of the calendar; so by default every case begins at the start
# of 1970. A duration is the time since the predecessor, or the number in a declared column.


_SECOND_US = 1_000_000


class VariantsDecision(contract.Decision, wire_name="pretsa-variants"):
    """Round `variants`.

    Attributes:
        variants: Those of the input.
    """

    variants: VariantHistogram


class MergingDecision(contract.Decision, wire_name="pretsa-merging"):
    """Round `merging`.

    Attributes:
        target: int64[n_variants], the variant that the cases of each variant of the input get.
        begins: int64[n_variants], where the durations of each released variant begin; those of its
            cases follow one another.
        durations: [n_released_events], int64 microseconds since the predecessor, or float64 numbers
            of the declared attribute, NaN for none.
    """

    target: np.ndarray
    begins: np.ndarray
    durations: np.ndarray


class PlacesDecision(contract.Decision, wire_name="pretsa-places"):
    """Round `places`.

    Attributes:
        cases: fixed_size_binary(16)[n_cases], keyed identities.
        places: int64[n_cases], which of the cases of its released variant each one is.
    """

    cases: pa.Array
    places: np.ndarray


class _Sanitised(contract.Anonymizer):
    """What `pretsa` and `pretsa-case` share."""

    def operations_of(self, params: PretsaCaseParams) -> tuple[manifest.Operation, ...]:
        """Returns what it does to a log; no time remains where neither starts nor durations do."""
        operations = super().operations_of(params)
        if params.starts == "kept":
            return operations
        if params.duration_attribute is None:
            return (*operations, manifest.SUPPRESSED_STARTS)
        return (*operations[:-1], manifest.SUPPRESSED_TIMES)

    def attributes(self, params: PretsaCaseParams) -> tuple[Attribute, ...]:
        """Returns the attribute that is the duration, if it is one: it is read and released."""
        return declared(params.duration)

    def guarantee(self, params: PretsaCaseParams) -> Guarantee:
        """Returns what is verified on the release, and what that leaves open."""
        said = promise(
            "pretsa",
            params,
            t=_t(params),
            attribute=params.duration_attribute,
            is_of_input=_is_of_input(params),
        )
        return Guarantee.without_epsilon("syntactic", **said)

    def parts(self, params: PretsaCaseParams) -> tuple[Part, ...]:
        """Returns the rounds."""
        t, merging = _t(params), Counted(DurationTable, _durations, (params.duration_attribute,))
        or_far = "" if t is None else f" or whose durations are {t:g} or more from their activity's"

        def decide_variants(given: Given) -> VariantsDecision:
            if given.statistics["variants"].n_cases < params.k:
                raise GuaranteeError(
                    f"the log has fewer cases than k={params.k}, so no variant can have as many; "
                    "lower k"
                )
            return VariantsDecision(given.statistics["variants"])

        return (
            step(
                "variants",
                "counts variants and builds their prefix tree",
                {"variants": CountVariants()},
                decide_variants,
            ),
            step(
                "merging",
                f"counts durations by variant and place; cuts prefixes of fewer than {params.k} "
                f"cases{or_far}, moves their cases to the nearest variant by the distance "
                f"{params.distance}, and draws the durations of all events anew",
                {"durations": merging},
                lambda given: _decide_merging(given, params),
            ),
            step(
                "places",
                "chooses by keyed ranks which case of a variant gets which of its durations",
                {"ranks": Counted(CaseRanks, _ranks)},
                _decide_places,
            ),
        )

    def apply(
        self,
        traces: TraceBatch,
        decisions: contract.Decisions,
        params: PretsaCaseParams,
        randomness: Randomness,
    ) -> TraceBatch:
        """Gives each case of a batch its variant, its durations and a new id."""
        variants = decisions["variants"].variants
        merging: MergingDecision = decisions["merging"]
        places: PlacesDecision = decisions["places"]
        goal = merging.target[variants.find(traces)]
        cells = randomness.identify("case", traces.case_ids)
        # The table that is searched holds the few cases of the batch, not the many of the log.
        batch_rows = pc.index_in(places.cases, value_set=case_bytes(cells))
        place = np.zeros(traces.n_cases, np.int64)
        place[np.asarray(batch_rows.drop_null())] = places.places[np.asarray(batch_rows.is_valid())]

        lengths = np.diff(variants.offsets)[goal]
        durations = merging.durations[ranges(merging.begins[goal] + place * lengths, lengths)]
        starts = traces.starts if params.starts == "kept" else np.zeros(traces.n_cases, np.int64)
        attribute = params.duration_attribute
        since = durations if attribute is None else np.full(len(durations), _SECOND_US)
        released = TraceBatch(
            hex_ids(randomness.words("pretsa/case-id", cells)),
            offsets_of(lengths),
            variants.codes[ranges(variants.offsets[goal], lengths)],
            since,  # until they are cumulated
            traces.vocabulary,
        )
        released = replace(released, times=cumulated_stamps(starts, since, released))
        if attribute is None:
            return released
        numbers = pa.array(durations, pa.float64(), from_pandas=True)  # NaN is no value
        values = {attribute.name: numbers.cast(attribute.arrow_type)}
        if manifest.has_times(self.operations_of(params)):
            return replace(released, attributes=values)
        index = ranges(np.ones(len(lengths), np.int64), lengths)
        return replace(released, times=index, attributes={EVENT_INDEX: pa.array(index), **values})

    def verify(self, released: Sequence[TraceBatch], params: PretsaCaseParams) -> None:
        """Checks the promise on a released log.

        Raises:
            GuaranteeError: It does not hold.
        """
        attribute = params.duration_attribute
        name = None if attribute is None else attribute.name
        t = None if _is_of_input(params) else _t(params)
        verify_released(released, params.k, t, params.protect_ends, name)


class Pretsa(_Sanitised, name="pretsa"):
    """The method with k and t; see the module."""

    Params: ClassVar[type[PretsaParams]] = PretsaParams


class PretsaCase(_Sanitised, name="pretsa-case"):
    """The method with k alone; see the module."""

    Params: ClassVar[type[PretsaCaseParams]] = PretsaCaseParams


def _t(params: PretsaCaseParams) -> float | None:
    t: float | None = getattr(params, "t", None)  # `pretsa-case` has none
    return t


def _is_of_input(params: PretsaCaseParams) -> bool:
    """Whether t is about the input's durations alone."""
    return getattr(params, "closeness", None) == "input"


def _decide_places(given: Given) -> PlacesDecision:
    ranks: CaseRanks = given.statistics["ranks"]
    first = np.searchsorted(ranks.groups, ranks.groups)
    return PlacesDecision(ranks.cases, np.arange(len(first)) - first)


def _decide_merging(given: Given, params: PretsaCaseParams) -> MergingDecision:
    """Merges variants and draws durations.

    Raises:
        GuaranteeError: There are durations that cannot be brought below t or add up beyond the
            calendar.
    """
    t, randomness = _t(params), given.randomness
    variants: VariantHistogram = given.decisions["variants"].variants
    durations: DurationTable = given.statistics["durations"]
    distance: VariantDistance = LevenshteinDistance(variants)
    if params.distance == "embedding":
        distances = event_distances(variants, randomness, params.epochs)
        rhos = params.rho_addition, params.rho_removal
        distance = EmbeddingDistance(variants, distances, *rhos, params.penalty_direction)
    tree = MergedTree(variants, durations, distance, params.k, t, params.protect_ends)
    tree.merge()
    attribute = params.duration_attribute
    t_of_drawn = None if _is_of_input(params) else t
    drawn = draw_durations(tree, t_of_drawn, randomness, attribute)
    lengths = np.diff(variants.offsets)
    if attribute is None:
        first_events = offsets_of(np.repeat(lengths, tree.n_cases))[:-1]
        # Cases that begin in 1970 and end after the year 9999 would lose their ends.
        if np.add.reduceat(drawn.astype(np.float64), first_events).max() > MAX_TIME_US:
            raise GuaranteeError(
                "a released case would last beyond the year 9999; drop events whose time is far "
                "from those of their case by a row filter"
            )
    begins = offsets_of(tree.n_cases * lengths)[:-1]
    return MergingDecision(tree.target, begins, drawn)


# --- What one batch contributes ----------------------------------------------------------------


def _durations(batch: Batch, attribute: Attribute | None) -> DurationTable:
    """Microseconds since the predecessor or bins of an attribute, by position in the variants."""
    traces, variants = batch.traces, batch.decisions["variants"].variants
    begins = variants.offsets[variants.find(traces)]
    positions = ranges(begins, traces.lengths)
    if attribute is None:
        return DurationTable.from_events(positions, traces.durations)
    if attribute.name not in traces.attributes:
        return DurationTable.merge(())
    bins = attribute.cells(traces.attributes[attribute.name])
    has_one = bins > 0
    return DurationTable.from_events(positions[has_one], bins[has_one])


def _ranks(batch: Batch) -> CaseRanks:
    """Keyed identities of all cases by the variant that they get."""
    variants: VariantHistogram = batch.decisions["variants"].variants
    goal = batch.decisions["merging"].target[variants.find(batch.traces)]
    return CaseRanks.of(goal, case_bytes(batch.randomness.identify("case", batch.traces.case_ids)))
