"""A method's rounds one by one, so that tests can look at the decisions in between.

The same loop as `anonymizers.contract.in_memory.anonymise`; a test holds the two against each
other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from tests.support.keys import release_key
from tracecloak.anonymizers.contract.case_digests import InputDigest
from tracecloak.anonymizers.contract.in_memory import anonymise, bound, decided
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey
from tracecloak.anonymizers.noise.samplers import EXACT, Noise
from tracecloak.schemas.events.traces import TraceBatch

RELEASE_ID = "release"
CONFIG_DIGEST = "configuration"


@dataclass(frozen=True)
class Rounds:
    """What a run decided.

    Attributes:
        statistics: By round, the statistics on which it was decided.
        decisions: By round, in order.
        by_round: By round, the randomness with which it was decided.
        randomness: That of what follows them.
    """

    statistics: dict[str, dict[str, Any]]
    decisions: dict[str, Any]
    by_round: dict[str, Randomness]
    randomness: Randomness


def as_wanted(traces: Sequence[TraceBatch], method: Anonymizer, params: Any) -> list[TraceBatch]:
    """Returns the traces with individuals where a method bounds them: a few cases each."""
    is_bounded = method.bounds(params).max_cases_per_individual is not None
    if not is_bounded or not traces or traces[0].individuals is not None:
        return list(traces)
    together = TraceBatch.concat(traces)
    individuals = pc.utf8_slice_codeunits(together.case_ids, 0, len("case 1"))
    return [replace(together, individuals=individuals)]


def run_rounds(
    traces: Sequence[TraceBatch],
    method: Anonymizer,
    params: Any,
    key: ReleaseKey,
    passed_on: Callable[[Any], Any] = lambda value: value,
    kind: type[Randomness] = Randomness,
    noise: Noise = EXACT,
    digest: str | None = None,
) -> Rounds:
    """Runs all rounds; `passed_on` is what becomes of statistics and decisions on their way.

    A `digest` takes the place of that of the input.
    """
    traces = as_wanted(traces, method, params)
    if digest is None:
        digest = InputDigest.merge([InputDigest.from_traces(batch, key) for batch in traces]).hex
    first = randomness = kind(key, RELEASE_ID, digest, CONFIG_DIGEST).with_noise(noise)
    run = Rounds({}, {}, {}, first)
    decisions = run.decisions
    traces = bound(traces, method, params, randomness)
    for i, name in enumerate(method.rounds(params)):
        keyed, before = randomness if i else randomness.unit_stream, method.known(decisions)
        run.statistics[name] = {
            what: passed_on(
                counter.kind.merge(
                    [passed_on(counter.count(batch, before, keyed)) for batch in traces]
                )
            )
            for what, counter in method.requires(name, params).items()
        }
        run.by_round[name] = randomness
        made = method.decide(name, run.statistics[name], decisions, params, randomness)
        decisions[name] = passed_on(made)
        randomness = randomness.after(decided(decisions))
    return replace(run, randomness=randomness)


class Recording(Randomness):
    """Notes the cells for which words are asked."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.asked: defaultdict[str, list[tuple[int, int, int]]] = defaultdict(list)

    def words(self, purpose: str, cells: np.ndarray, counter: Any = 0) -> np.ndarray:
        counters = np.broadcast_to(np.asarray(counter, np.uint64), len(cells))
        rows = zip(cells[:, 0].tolist(), cells[:, 1].tolist(), counters.tolist(), strict=True)
        self.asked[purpose] += rows
        return super().words(purpose, cells, counter)


def released_variants(
    method: Anonymizer, log: TraceBatch, params: Any, number: int = 0
) -> dict[tuple[str, ...], int]:
    """Returns what a method that generates a log of variants releases of each."""
    made = anonymise([log], method, params, release_key(number), RELEASE_ID, CONFIG_DIGEST)
    variants: Any = made.products.by_name["variants"]
    assert sum(batch.n_cases for batch in made.traces) == variants.n_cases
    rows = variants.to_table().to_pylist()
    found = {tuple(row["variant"]): row["count"] for row in rows}
    assert len(found) == len(rows)
    return found


def rows_of(batches: Sequence[TraceBatch]) -> list[tuple[str, tuple[tuple[str, int], ...]]]:
    """Returns each case as (id, ((activity, microseconds), …)), sorted."""
    cases = []
    for batch in batches:
        names = batch.vocabulary.names.to_pylist()
        ids = batch.case_ids.to_pylist()
        bounds = batch.offsets.tolist()
        codes, times = batch.activities.tolist(), batch.times.tolist()
        for case, first, last in zip(ids, bounds[:-1], bounds[1:], strict=True):
            events = zip(codes[first:last], times[first:last], strict=True)
            cases.append((case, tuple((names[code], time) for code, time in events)))
    return sorted(cases)
