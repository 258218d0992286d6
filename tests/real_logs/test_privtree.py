"""PrivTree on public research logs, per case and without any delta.

Medians of 10 releases under fixed keys against bounds. The names of the log are taken to be a
public file, and lengths are cut at a public number; all distances are to the uncut log. The logs
are not part of the project; TRACECLOAK_LOGS names the folder that has them.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.keys import release_key
from tests.support.real_logs import public_log
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.variants.method import VariantLog, VariantLogParams
from tracecloak.anonymizers.variants.privtree import PrivTree
from tracecloak.examination.measure.measures import VariantDistribution, variant_emd
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.variants import VariantHistogram

pytestmark = pytest.mark.logs

N_KEYS = 10
LENGTHS = {"coselog_receipt.xes.gz": 25, "sepsis.xes.gz": 40}

Shares = dict[Any, float]


def distribution(found: VariantHistogram | ReleasedVariants, codes: Any) -> VariantDistribution:
    return VariantDistribution(found.offsets, np.asarray(codes, np.int32), found.counts)


def shares_of_variants(side: VariantDistribution) -> Shares:
    bounds = zip(pairwise(side.offsets.tolist()), side.counts.tolist(), strict=True)
    total = side.counts.sum()
    return {side.codes[first:last].tobytes(): n / total for (first, last), n in bounds}


def shares_of_pairs(side: VariantDistribution) -> Shares:
    """Of all directly-follows pairs, start (-1) and end (-2) included."""
    pairs: Counter[tuple[int, int]] = Counter()
    bounds = zip(pairwise(side.offsets.tolist()), side.counts.tolist(), strict=True)
    for (first, last), n in bounds:
        for pair in pairwise([-1, *side.codes[first:last].tolist(), -2]):
            pairs[pair] += n
    return {pair: n / pairs.total() for pair, n in pairs.items()}


def total_variation(a: Shares, b: Shares) -> float:
    return sum(abs(a.get(key, 0) - b.get(key, 0)) for key in a.keys() | b.keys()) / 2


def medians(traces: TraceBatch, max_length: int, epsilon: str) -> tuple[float, float, float]:
    """Total variation of variants, their earth mover's distance, total variation of pairs."""
    counted = VariantHistogram.from_traces(traces)
    true = distribution(counted, counted.codes)
    names = traces.vocabulary.names.to_pylist()
    given: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": "0",
        "vocabulary": tuple(name for name in names if name != "__other__"),
        "max_trace_length": max_length,
    }
    params = VariantLogParams(**given)
    distances = []
    for number in range(N_KEYS):
        made = anonymise(
            [traces], VariantLog(PrivTree()), params, release_key(number), "release", "config"
        ).products.by_name["variants"]
        found = distribution(made, traces.vocabulary.codes(made.names)[made.codes])
        emd = variant_emd(true, found)
        assert emd is not None
        distances.append(
            (
                total_variation(shares_of_variants(true), shares_of_variants(found)),
                emd,
                total_variation(shares_of_pairs(true), shares_of_pairs(found)),
            )
        )
    tv, emd, pairs = np.median(distances, axis=0).tolist()
    print(f"epsilon {epsilon}: TV {tv:.3f}, EMD {emd:.3f}, DFG TV {pairs:.3f}")  # noqa: T201
    return tv, emd, pairs


@pytest.mark.parametrize(("epsilon", "tv", "emd"), [("1", 0.18, 0.066), ("4", 0.12, 0.045)])
def test_the_variants_of_coselog_are_near_the_logs(
    logs_folder: Path, epsilon: str, tv: float, emd: float
) -> None:
    """Control: a tenth of the epsilon does not keep these bounds."""
    name = "coselog_receipt.xes.gz"
    traces = public_log(logs_folder, name)
    found = medians(traces, LENGTHS[name], epsilon)
    assert found[0] <= tv and found[1] <= emd
    if epsilon == "1":
        weak = medians(traces, LENGTHS[name], "0.1")
        assert weak[0] > 2 * tv and weak[1] > 2 * emd


@pytest.mark.parametrize(("epsilon", "emd", "pairs"), [("1", 0.43, 0.45), ("4", 0.34, 0.35)])
def test_the_variants_of_sepsis_are_near_the_logs(
    logs_folder: Path, epsilon: str, emd: float, pairs: float
) -> None:
    """Nearly every variant of this log occurs once, so that its shape is all that can be kept.

    Control: a tenth of the epsilon does not keep these bounds.
    """
    name = "sepsis.xes.gz"
    traces = public_log(logs_folder, name)
    found = medians(traces, LENGTHS[name], epsilon)
    assert found[1] <= emd and found[2] <= pairs
    if epsilon == "1":
        weak = medians(traces, LENGTHS[name], "0.1")
        assert weak[1] > emd and weak[2] > pairs
