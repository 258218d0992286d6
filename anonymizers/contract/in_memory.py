"""Every round is decided once: what it decided is kept, and what follows depends on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from tracecloak.anonymizers.contract.case_digests import InputDigest
from tracecloak.anonymizers.contract.method import (
    Anonymizer,
    Counter,
    Decision,
    Decisions,
    Params,
    Products,
)
from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey, text_digest
from tracecloak.schemas.arrays.columnar import digest
from tracecloak.schemas.arrays.merging import PiecesByThread
from tracecloak.schemas.events.events import CASE_ID, ActivityVocabulary
from tracecloak.schemas.events.traces import INDIVIDUAL_ID, TraceBatch, split_by_shard

# --- Every round is decided once: what it decided is kept, and what follows depends on it. --------


def decided(decisions: Mapping[str, Decision]) -> str:
    """Returns the digest of the rounds so far, for `Randomness`; empty before the first.

    Args:
        decisions: What was decided, by the name of the round, in their order.
    """
    if not decisions:
        return ""
    return text_digest(
        *(part for name, decision in decisions.items() for part in (name, digest(decision)))
    )


class Draws(Protocol):
    """Where a release's decisions are made, and kept for whoever asks again."""

    def once(
        self, round_name: str, randomness: Randomness, decide: Callable[[], Decision]
    ) -> Decision:
        """Returns what a round decided: what is kept of it, or what is decided and kept now.

        Args:
            round_name: The round.
            randomness: Its randomness, which knows the input and the rounds before.
            decide: Draws the noise. It is not called where something is kept.
        """
        ...


class ImmediateDecisions:
    """Keeps nothing: for decisions that one process makes in one go and nobody pays for."""

    def once(
        self, round_name: str, randomness: Randomness, decide: Callable[[], Decision]
    ) -> Decision:
        """Returns what is decided now."""
        return decide()


# ---
# The rounds of the in-memory driver: those of the Beam pipeline, in one process and without Beam.
# The reference that the pipeline must equal bit for bit, and the floor that the benchmarks compare
# with. Every step looks at one batch of cases at a time and keeps none, so that what holds the
# batches decides how much memory a log takes.


S = TypeVar("S")
T = TypeVar("T")


class Each(Protocol):
    """How a function is called on every batch: `map`, or on several of them at once."""

    def __call__(self, function: Callable[[S], T], items: Iterable[S], /) -> Iterable[T]:
        """Returns what the function returns of each, in their order."""
        ...


@dataclass(frozen=True)
class Anonymised:
    """What a run in memory gives.

    Attributes:
        traces: The released cases, under new ids, in the batches in which they were made.
        products: What is released beside them.
        input_digest: Keyed digest of what went in.
    """

    traces: list[TraceBatch]
    products: Products
    input_digest: str


def group_into_traces(
    events: Iterable[pa.RecordBatch],
    n_shards: int = 1,
    by_individual: bool = False,
    drops_duplicates: bool = False,
) -> list[TraceBatch]:
    """Sorts canonical events into complete cases, one batch per shard that has any, one vocabulary.

    Args:
        events: Batches of EVENT_SCHEMA, the events of a case anywhere in them.
        n_shards: Number of shards; results do not depend on it.
        by_individual: All cases of an individual come in one batch; see TraceBatch.from_events.
        drops_duplicates: Whether equal events of a case count once.

    Raises:
        InputSchemaError: `by_individual`, and an event names no individual.
    """
    key = INDIVIDUAL_ID if by_individual else CASE_ID
    shards: dict[int, list[pa.RecordBatch]] = {}
    for batch in events:
        for shard, part in split_by_shard(batch, n_shards, key):
            shards.setdefault(shard, []).append(part)
    local = [TraceBatch.from_events(shards[shard], by_individual) for shard in sorted(shards)]
    if drops_duplicates:
        from tracecloak.schemas.events.traces import without_duplicates

        local = [without_duplicates(batch) for batch in local]
    vocabulary = ActivityVocabulary.merge([batch.vocabulary for batch in local])
    return [batch.recode(vocabulary) for batch in local]


def anonymise(
    traces: Sequence[TraceBatch],
    method: Anonymizer,
    params: Params,
    key: ReleaseKey,
    release_id: str,
    noise_digest: str,
    progress: Callable[[str], None] = lambda step: None,
    draws: Draws | None = None,
) -> Anonymised:
    """Runs all rounds of a method and applies what they decided.

    Args:
        traces: Batches of complete cases, of one vocabulary.
        method: The method.
        params: Its parameters.
        key: The release's key.
        release_id: The release's name, which its randomness depends on.
        noise_digest: Of the configuration and the method's version (`contract.identity`), likewise.
        progress: Called with the name of each step before it runs.
        draws: Where decisions are made and kept; None: they are not kept.

    Raises:
        GuaranteeError: The method cannot keep its promise on this input.
    """
    randomness, decisions = decide(
        traces, method, params, key, release_id, noise_digest, progress, draws
    )
    progress("release")
    log = released(traces, method, params, randomness, decisions)
    return Anonymised(list(log), method.products(decisions, params), randomness.input_digest)


def decide(
    traces: Iterable[TraceBatch],
    method: Anonymizer,
    params: Params,
    key: ReleaseKey,
    release_id: str,
    noise_digest: str,
    progress: Callable[[str], None] = lambda step: None,
    draws: Draws | None = None,
    each: Each = map,
) -> tuple[Randomness, dict[str, Decision]]:
    """Runs all rounds of a method; returns the randomness after them, and what was decided.

    Args:
        traces: As for `anonymise`; they are gone through once, and once more for every round.
        method: The method.
        params: Its parameters.
        key: The release's key.
        release_id: The release's name.
        noise_digest: See `anonymise`.
        progress: Called with the name of each round before it runs.
        draws: Where decisions are made and kept; None: they are not kept.
        each: How batches are gone through.

    Raises:
        GuaranteeError: The method cannot keep its promise on this input.
    """

    def digest_of(batch: TraceBatch) -> InputDigest:
        return InputDigest.from_traces(_declared_only(batch, method, params), key)

    digest = InputDigest.merge(list(each(digest_of, traces))).hex
    randomness = Randomness(key, release_id, digest, noise_digest)
    draws = draws or ImmediateDecisions()
    decisions: dict[str, Decision] = {}
    for i, round_name in enumerate(method.rounds(params)):
        progress(round_name)
        counters = method.requires(round_name, params)
        drawn_from = randomness if i else randomness.of_units
        pieces = PiecesByThread({name: counter.kind for name, counter in counters.items()})
        count = partial(_count, pieces, counters, method, params, decisions, randomness, drawn_from)
        for _ in each(count, traces):
            pass
        statistics = pieces.result()
        decide_round = partial(method.decide, round_name, statistics, decisions, params, randomness)
        decisions[round_name] = draws.once(round_name, randomness, decide_round)
        randomness = randomness.after(decided(decisions))
    return randomness, decisions


def _count(
    pieces: PiecesByThread,
    counters: Mapping[str, Counter],
    method: Anonymizer,
    params: Params,
    decisions: Decisions,
    randomness: Randomness,
    drawn_from: Randomness,
    batch: TraceBatch,
) -> None:
    (bounded,) = bound([batch], method, params, randomness)
    pieces.add({k: one.count(bounded, decisions, drawn_from) for k, one in counters.items()})


def released(
    traces: Iterable[TraceBatch],
    method: Anonymizer,
    params: Params,
    randomness: Randomness,
    decisions: Decisions,
    n_pieces: int = 1,
    each: Each = map,
) -> Iterator[TraceBatch]:
    """Yields the released cases batch by batch; none of a method that releases no log.

    Args:
        traces: As for `anonymise`.
        method: The method.
        params: Its parameters.
        randomness: After all rounds, as `decide` returns it.
        decisions: What they decided, likewise.
        n_pieces: In how many pieces a log is generated that is made up.
        each: How batches are gone through.
    """
    if method.log == "transformed":

        def apply(batch: TraceBatch) -> TraceBatch:
            (bounded,) = bound([batch], method, params, randomness)
            return method.apply(bounded, decisions, params, randomness)

        yield from each(apply, traces)
    elif method.log == "generated":

        def generate(piece: int) -> TraceBatch:
            return method.generate(piece, n_pieces, decisions, params, randomness)

        yield from each(generate, range(n_pieces))


def bound(
    traces: Sequence[TraceBatch], method: Anonymizer, params: Any, randomness: Randomness
) -> list[TraceBatch]:
    """Brings every trace under the method's public caps, with the declared attributes alone."""
    bounds = method.bounds(params)
    return [
        bounds.bound(_declared_only(batch, method, params), randomness.of_units) for batch in traces
    ]


def _declared_only(traces: TraceBatch, method: Anonymizer, params: Any) -> TraceBatch:
    """Drops attributes that are not declared, on which nothing may depend, nor may the digest."""
    names = list(method.carried(params))
    if list(traces.attributes) == names:
        return traces
    attributes = {name: traces.attributes[name] for name in names if name in traces.attributes}
    return replace(traces, attributes=attributes)
