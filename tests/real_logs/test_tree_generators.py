"""The sparse histogram on public research logs, at epsilon 1 per case.

Medians of 10 releases under fixed keys against bounds a few per cent above what was measured. The
logs are not part of the project; TRACECLOAK_LOGS names the folder that has them. Vocabularies are
the logs' own, as if from a public file; cases are cut at 25 events (CoSeLoG) and 40 (Sepsis), but
compared with the whole ones.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.support.keys import release_key
from tests.support.real_logs import real_log
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.variants.generator import VariantGenerator
from tracecloak.anonymizers.variants.method import VariantLog, VariantLogParams
from tracecloak.anonymizers.variants.sparse_histogram import SparseHistogram
from tracecloak.examination.measure.measures import VariantDistribution, variant_emd
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.variants import VariantHistogram

pytestmark = pytest.mark.logs

COSELOG = "coselog_receipt.xes.gz"
SEPSIS = "sepsis.xes.gz"
LENGTHS = {COSELOG: 25, SEPSIS: 40}
N_KEYS = 10


def total_variation(a: Counter[tuple[int, ...]], b: Counter[tuple[int, ...]]) -> float:
    """Half the sum of the differences of the shares; 1 if just one side has anything."""
    of_a, of_b = max(1, a.total()), max(1, b.total())
    return max(
        sum(max(0.0, a[key] / of_a - b[key] / of_b) for key in a.keys() | b.keys()),
        sum(max(0.0, b[key] / of_b - a[key] / of_a) for key in a.keys() | b.keys()),
    )


def sequences(variants: VariantDistribution) -> Counter[tuple[int, ...]]:
    bounds = zip(variants.offsets[:-1], variants.offsets[1:], variants.counts, strict=True)
    return Counter({tuple(variants.codes[a:b].tolist()): int(n) for a, b, n in bounds})


def edges(variants: VariantDistribution) -> Counter[tuple[int, ...]]:
    """Directly-follows pairs, with start -1 and end -2."""
    found: Counter[tuple[int, ...]] = Counter()
    for variant, n in sequences(variants).items():
        for pair in zip((-1, *variant), (*variant, -2), strict=True):
            found[pair] += n
    return found


def in_codes(variants: ReleasedVariants, traces: TraceBatch) -> VariantDistribution:
    known = {name: code for code, name in enumerate(traces.vocabulary.names.to_pylist())}
    # OTHER is a name of the vocabulary, although no case has it.
    codes = [known.get(name, len(known)) for name in variants.names.to_pylist()]
    return VariantDistribution(
        variants.offsets, np.array(codes, np.int32)[variants.codes], variants.counts
    )


def measured(
    folder: Path, name: str, generator: VariantGenerator, epsilon: str, delta: str
) -> tuple[float, float, float]:
    """Medians of total variation and earth mover's distance of variants, and of edges' TV."""
    traces = real_log(folder, name)
    counted = VariantHistogram.from_traces(traces)
    true = VariantDistribution(counted.offsets, counted.codes, counted.counts)
    params = VariantLogParams(
        epsilon=epsilon,
        delta=delta,
        vocabulary=tuple(traces.vocabulary.names.to_pylist()),
        max_trace_length=LENGTHS[name],
    )
    figures = []
    for number in range(N_KEYS):
        made = anonymise(
            [traces], VariantLog(generator), params, release_key(number), "release", "config"
        )
        found = in_codes(made.products.by_name["variants"], traces)
        assert found.lengths.max(initial=0) <= LENGTHS[name]
        emd = variant_emd(true, found)
        assert emd is not None
        variation = total_variation(sequences(true), sequences(found))
        figures.append((variation, emd, total_variation(edges(true), edges(found))))
    tv, emd, dfg = np.median(figures, axis=0).tolist()
    print(f"{generator.name} {name} {epsilon}: TV {tv:.3f}, EMD {emd:.3f}, DFG TV {dfg:.3f}")  # noqa: T201
    return tv, emd, dfg


@pytest.mark.parametrize(
    ("name", "bounds"), [(COSELOG, (0.17, 0.075, 0.10)), (SEPSIS, (0.95, 0.63, 0.71))]
)
def test_the_sparse_histogram_keeps_the_frequent_variants(
    logs_folder: Path, name: str, bounds: tuple[float, float, float]
) -> None:
    """Without any delta. Control: at a tenth of the epsilon the variants are further away."""
    found = measured(logs_folder, name, SparseHistogram(), "1", "0")
    assert all(figure <= bound for figure, bound in zip(found, bounds, strict=True))
    weak = measured(logs_folder, name, SparseHistogram(), "0.1", "0")
    assert weak[0] > bounds[0] and weak[1] > bounds[1]
