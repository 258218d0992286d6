"""A run of a method: its steps, whoever carries them out, and the executor of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, Protocol

import pyarrow as pa

from tracecloak.anonymizers.contract.case_digests import InputDigest
from tracecloak.anonymizers.contract.method import (
    Anonymizer,
    Decision,
    Decisions,
    Params,
    Products,
)
from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey, text_digest
from tracecloak.schemas.arrays.columnar import digest
from tracecloak.schemas.arrays.merging import Totals
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch, split_by_shard, without_duplicates

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


# --- The steps of a method: what each is, and what it computes of what is given. ------------------
# `steps` says which there are, and two executors carry them out: `execute` in this process, and
# `transforms.batch.anonymize` on Beam, which must equal the other one bit for bit. Every step looks
# at one batch of cases at a time and keeps none, so that what holds the batches decides how much
# memory a log takes.


INPUT_DIGEST = "input digest"
"""What is counted beside the counters of the first round, and what all that follows depends on."""


@dataclass(frozen=True)
class Step:
    """One step of a method.

    Attributes:
        action: `count` a round on every batch of traces and merge what was counted; `keep` what is
            needed of each part of that, where it is merged in parts; `decide` on what is kept; list
            the `products` of the decisions; `apply` them to every batch, or `generate` a log from
            them piece by piece.
        known: What it depends on beside traces or totals, in the order in which it comes about:
            INPUT_DIGEST once the first round is counted, and the rounds that were decided.
        round: The name of the round that is counted or decided.
        kinds: The types of what is counted for it, by name.
    """

    action: Literal["count", "keep", "decide", "products", "apply", "generate"]
    known: tuple[str, ...] = ()
    round: str = ""
    kinds: Mapping[str, type[Any]] = field(default_factory=dict)


def steps(method: Anonymizer, params: Any, beside: Mapping[str, type[Any]]) -> Iterator[Step]:
    """Yields the steps of a method in the order in which they can be carried out.

    Args:
        method: The method.
        params: Its parameters.
        beside: Types of what else is counted for the first round, by name.
    """
    known: tuple[str, ...] = ()
    for name in method.rounds(params):
        counters = method.requires(name, params)
        kinds = {counted: counter.kind for counted, counter in counters.items()}
        if not known:
            kinds |= {INPUT_DIGEST: InputDigest, **beside}
        yield Step("count", known, name, kinds)
        known = known or (INPUT_DIGEST,)
        if method.keeps(name, params):
            yield Step("keep", known, name)
        yield Step("decide", known, name, kinds)
        known = (*known, name)
    yield Step("products", known)
    if method.log != "none":
        yield Step("apply" if method.log == "transformed" else "generate", known)


Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""How a function is called on every batch: `map`, or on several of them at once."""


@dataclass(frozen=True)
class Known:
    """What a step of a method depends on beside the traces.

    Attributes:
        randomness: What is drawn from now; before the input is digested, that of the units alone.
        decisions: What was decided, by the name of the round, in their order.
    """

    randomness: Randomness
    decisions: Decisions


class KeySource(Protocol):
    """A key, or a reference by which a worker finds it; then it pickles."""

    def resolve(self) -> ReleaseKey:
        """Returns the key."""
        ...


@dataclass(frozen=True)
class MethodRun:
    """One run of a method: what each of its steps computes; it pickles if its key is a reference.

    Attributes:
        method: The method.
        params: Its parameters.
        key: Where the release's key is.
        release_id: The release's name, which its randomness depends on.
        noise_digest: Of the configuration and the method's version (`contract.identity`), likewise.
        draws: Where decisions are made and kept; None: they are not kept.
        beside: Types of what `count` counts beside for the first round, by name.
    """

    method: Anonymizer
    params: Any
    key: KeySource
    release_id: str
    noise_digest: str
    draws: Draws | None = None
    beside: Mapping[str, type[Any]] = field(default_factory=dict)

    @cached_property
    def _key(self) -> ReleaseKey:
        return self.key.resolve()

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out what each worker finds for itself, such as the key."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def known(
        self, input_digest: InputDigest | None = None, decisions: Decisions | None = None
    ) -> Known:
        """Returns what the next step depends on, after some decisions or before the first."""
        digest = "" if input_digest is None else input_digest.hex
        first = Randomness(self._key, self.release_id, digest, self.noise_digest)
        return Known(first.after(decided(decisions or {})), decisions or {})

    def count(self, round_name: str, traces: TraceBatch, known: Known) -> dict[str, Any]:
        """Returns the statistics of a batch for a round, by name; the first digests it as well."""
        bounded, before = self._bounded(traces, known), self.method.known(known.decisions)
        counted: dict[str, Any] = {
            name: counter.count(bounded, before, known.randomness)
            for name, counter in self.method.requires(round_name, self.params).items()
        }
        if not known.decisions:
            declared = _declared_only(traces, self.method, self.params)
            counted[INPUT_DIGEST] = InputDigest.from_traces(declared, self._key)
        return counted

    def keep(self, round_name: str, part: Mapping[str, Any], known: Known) -> Mapping[str, Any]:
        """Returns what is needed of a part of what was counted of all batches."""
        return self.method.keep(round_name, part, known.decisions, self.params, known.randomness)

    def decide(self, round_name: str, totals: Mapping[str, Any], known: Known) -> Decision:
        """Decides a round on what was counted of all batches.

        Raises:
            GuaranteeError: The method cannot keep its promise on this input.
        """
        decide = partial(
            self.method.decide, round_name, totals, known.decisions, self.params, known.randomness
        )
        if self.draws is None:
            return decide()
        return self.draws.once(round_name, known.randomness, decide)

    def apply(self, traces: TraceBatch, known: Known) -> TraceBatch:
        """Returns the released cases of a batch, of a method that transforms a log."""
        bounded = self._bounded(traces, known)
        return self.method.apply(bounded, known.decisions, self.params, known.randomness)

    def generate(self, piece: int, n_pieces: int, known: Known) -> TraceBatch:
        """Returns one of some pieces of the log, of a method that makes one up."""
        return self.method.generate(piece, n_pieces, known.decisions, self.params, known.randomness)

    def products(self, known: Known) -> Products:
        """Returns what is released beside a log."""
        return self.method.products(known.decisions, self.params)

    def _bounded(self, traces: TraceBatch, known: Known) -> TraceBatch:
        (bounded,) = bound([traces], self.method, self.params, known.randomness)
        return bounded


# --- The executor of this process. ----------------------------------------------------------------


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


def anonymise(
    traces: Sequence[TraceBatch],
    method: Anonymizer,
    params: Params,
    key: ReleaseKey,
    release_id: str,
    noise_digest: str,
    draws: Draws | None = None,
) -> Anonymised:
    """Runs all steps of a method.

    Args:
        traces: Batches of complete cases, of one vocabulary.
        method: The method.
        params: Its parameters.
        key: The release's key.
        release_id: The release's name, which its randomness depends on.
        noise_digest: See `MethodRun`.
        draws: Where decisions are made and kept; None: they are not kept.

    Raises:
        GuaranteeError: The method cannot keep its promise on this input.
    """
    run = MethodRun(method, params, key, release_id, noise_digest, draws)
    made, products, known = execute(run, traces)
    return Anonymised(list(made), products, known.randomness.input_digest)


def execute(
    run: MethodRun,
    traces: Iterable[TraceBatch],
    each: Each = map,
    n_pieces: int = 1,
    last: Iterable[TraceBatch] | None = None,
) -> tuple[Iterable[TraceBatch], Products, Known]:
    """Carries out the steps of a method; its cases are released as they are taken.

    Args:
        run: The run.
        traces: As for `anonymise`; they are gone through once for every round.
        each: How batches are gone through.
        n_pieces: In how many pieces a log is generated, of a method that generates one.
        last: The same batches as they are gone through for the last time; None: as before.

    Returns:
        (the released cases, none of a method that releases no log; products; what was decided).

    Raises:
        GuaranteeError: The method cannot keep its promise on this input.
    """
    known, digest = run.known(), None
    totals: dict[str, Any] = {}
    products = Products({})
    made: Iterable[TraceBatch] = ()
    for step in steps(run.method, run.params, run.beside):
        match step.action:
            case "count":
                totals = _counted(run, step, known, traces, each)
                if not step.known:
                    digest = totals[INPUT_DIGEST]
                    known = run.known(digest)
            case "keep":
                pass  # the totals are in one part here
            case "decide":
                decision = run.decide(step.round, totals, known)
                totals = {}  # not held while the next round is counted
                known = run.known(digest, {**known.decisions, step.round: decision})
            case "products":
                products = run.products(known)
            case "apply":
                made = each(partial(run.apply, known=known), traces if last is None else last)
            case "generate":
                generate = partial(run.generate, n_pieces=n_pieces, known=known)
                made = each(generate, range(n_pieces))
    return made, products, known


def _counted(
    run: MethodRun, step: Step, known: Known, traces: Iterable[TraceBatch], each: Each
) -> dict[str, Any]:
    counted = Totals(step.kinds)
    for _ in each(lambda batch: counted.add(run.count(step.round, batch, known)), traces):
        pass
    return counted.result()


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
    shards: dict[int, list[pa.RecordBatch]] = {}
    for batch in events:
        for shard, part in split_by_shard(batch, n_shards, by_individual):
            shards.setdefault(shard, []).append(part)
    local = [TraceBatch.from_events(shards[shard], by_individual) for shard in sorted(shards)]
    if drops_duplicates:
        local = [without_duplicates(batch) for batch in local]
    vocabulary = ActivityVocabulary.merge([batch.vocabulary for batch in local])
    return [batch.recode(vocabulary) for batch in local]


def whole_log(
    events: Iterable[pa.RecordBatch], by_individual: bool = False, drops_duplicates: bool = False
) -> TraceBatch:
    """Returns all cases of canonical events as one batch; see `group_into_traces`."""
    batches = group_into_traces(events, 1, by_individual, drops_duplicates)
    return batches[0] if batches else TraceBatch.from_events([])


def bound(
    traces: Sequence[TraceBatch], method: Anonymizer, params: Any, randomness: Randomness
) -> list[TraceBatch]:
    """Brings every trace under the method's public caps, with the declared attributes alone."""
    bounds = method.bounds(params)
    return [
        bounds.bound(_declared_only(batch, method, params), randomness.unit_stream)
        for batch in traces
    ]


def _declared_only(traces: TraceBatch, method: Anonymizer, params: Any) -> TraceBatch:
    """Drops attributes that are not declared, on which nothing may depend, nor may the digest."""
    names = list(method.carried(params))
    if list(traces.attributes) == names:
        return traces
    attributes = {name: traces.attributes[name] for name in names if name in traces.attributes}
    return replace(traces, attributes=attributes)
