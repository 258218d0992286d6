"""Measures the ways of `auto-variants` on public logs: `python -m tests.real_logs.ways_by_cell`.

A cell is a log, or a sample of its cases, at an epsilon; delta is 1e-6, the vocabulary is the log's
own as if from a public file, and no length is declared. Of logs of many variants there are cells of
one case of each variant as well. Each way is measured with what the choice
leaves of epsilon, as if it had been chosen, under numbered keys. It takes hours for all keys; what
is recorded already is not measured again. TRACECLOAK_LOGS names the folder of the logs.

Distances of large tables are of at most 1,000 cases a side. These are every n-th in the order of
their activities, so most that are alike stay in proportion.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np

from tests.support.generators import budget
from tests.support.keys import randomness
from tests.support.real_logs import each_event_once, sample_of
from tests.support.ways_by_cell import AUTO, DELTA, RECORDED, WAYS, Cell, public_of, recorded
from tracecloak.anonymizers.rigorous.params import LONGEST_CASE
from tracecloak.anonymizers.variants import auto as expected
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.examination.measure.measures import variant_emd
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.variants import VariantHistogram

LOGS = (
    *("sepsis.xes.gz", "unrineweginfectie.xes.gz", "coselog_receipt.xes.gz"),
    *("bpic2013_closed.xes.gz", "bpic2013_incidents.xes.gz", "traffic_fines.parquet"),
    *("hospital_billing.parquet", "bpic2012.xes.gz", "purchasing_example.xes.gz"),
    *("academic_credentials.xes.gz", "renting_log_high.xes.gz", "bpic15_1.xes.gz"),
)
# Logs of many variants, of each of which one case is taken as well.
DISTINCT = ("sepsis.xes.gz", "bpic15_1.xes.gz", "bpic2012.xes.gz", "bpic2013_incidents.xes.gz")
SIZES, EPSILONS = (300, 1000, 3000), ("0.5", "1", "2", "4")
_MOST_CASES = 1000


def samples(traces: TraceBatch) -> Iterator[TraceBatch]:
    """Yields samples of the cases, the same each time, and the log itself."""
    for size in SIZES:
        if size < 0.9 * traces.n_cases:
            yield sample_of(traces, size)
    yield traces


def distinct_samples(traces: TraceBatch) -> Iterator[TraceBatch]:
    """Yields samples of 300 and 1,000 cases of which no two have the same variant, or all of these.

    The first case of each variant is one of those that are drawn from.
    """
    variants = VariantHistogram.from_traces(traces).find(traces)
    _, first = np.unique(variants, return_index=True)
    order = np.random.default_rng(20_26).permutation(first)
    for size in SIZES[:2]:
        yield traces.take(np.sort(order[:size]))


def distance(counted: VariantHistogram, domain: Domain, epsilon: str, way: str, key: int) -> float:
    """Returns the distance of a release by one way to the log."""
    means = budget(AUTO, epsilon, DELTA).means
    others = (0.0,) * (len(expected.COEFFICIENTS[way]) - 1)
    forced = {name: (-1000.0 * (name == way), *others) for name in WAYS}
    with patch.dict(expected.COEFFICIENTS, forced):
        made = AUTO.answer(counted, domain, means, randomness(key))
    if not len(made.counts):
        return 1.0
    codes = domain.vocabulary.codes(made.names)[made.codes]
    released = VariantHistogram.of(encode_sequences(made.offsets, codes), made.counts)
    found = variant_emd(thinned(counted), thinned(released))
    assert found is not None
    return round(found, 4)


def thinned(side: VariantHistogram) -> VariantHistogram:
    """Returns at most 1,000 variants: every n-th case, if there are more."""
    if side.n_variants <= _MOST_CASES:
        return side
    ends = np.cumsum(side.counts) / side.n_cases * _MOST_CASES
    counts = np.diff(np.floor(ends + 0.5).astype(np.int64), prepend=0)
    return replace(side, counts=counts).take(np.flatnonzero(counts))


def measured(
    file: str,
    traces: TraceBatch,
    epsilon: str,
    n_keys: int,
    known: Cell | None = None,
    *,
    is_distinct: bool = False,
) -> Cell:
    """Returns a cell with distances under so many keys, of which some may be known."""
    counted = VariantHistogram.from_traces(traces)
    domain = Domain(traces.vocabulary, LONGEST_CASE, 1)
    profile = expected.Profile.of(counted, public_of(epsilon)[0])
    distances = {}
    for way in WAYS:
        have = known.distances[way] if known else ()
        new = [distance(counted, domain, epsilon, way, key) for key in range(len(have), n_keys)]
        distances[way] = (*have, *new)
    one, two, three = profile.cases.tolist()
    n_names = len(traces.vocabulary)
    cases = one, two, three
    return Cell(file, traces.n_cases, epsilon, n_names, cases, distances, is_distinct)


def _write(cells: list[Cell]) -> None:
    lines = ",\n".join(f"  {json.dumps(vars(cell))}" for cell in cells)
    RECORDED.write_text(f'{{"cells": [\n{lines}\n]}}\n', encoding="utf-8")


def main(n_keys: int) -> None:
    """Measures all cells anew where fewer keys are recorded, and records them."""
    folder = Path(os.environ["TRACECLOAK_LOGS"])
    cells = {(c.log, c.n_cases, c.epsilon, c.is_distinct): c for c in recorded()}
    for file, is_distinct in (*((f, False) for f in LOGS), *((f, True) for f in DISTINCT)):
        log = each_event_once(folder, file)
        for traces in distinct_samples(log) if is_distinct else samples(log):
            for epsilon in EPSILONS:
                key = file, traces.n_cases, epsilon, is_distinct
                known = cells.get(key)
                cells[key] = measured(file, traces, epsilon, n_keys, known, is_distinct=is_distinct)
                _write(list(cells.values()))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
