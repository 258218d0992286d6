"""PRIPEL on public research logs: nothing is copied, matching is optimal, and it takes seconds.

The logs are not part of the project; TRACECLOAK_LOGS names the folder that has them.
"""

from __future__ import annotations

import functools
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist
from scipy.optimize import linear_sum_assignment

from tests.support.keys import release_key
from tests.support.real_logs import real_log
from tests.support.tiers import at_night
from tracecloak.anonymizers.contract.in_memory import MethodRun, anonymise, execute
from tracecloak.anonymizers.queries.pripel import Pripel
from tracecloak.anonymizers.queries.pripel_enrichment import QueryDecision
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.variants import VariantHistogram

pytestmark = pytest.mark.logs

PRIPEL = Pripel()
SEPSIS, COSELOG, BPIC = "sepsis.xes.gz", "coselog_receipt.xes.gz", "bpic2012.xes.gz"
# The levels that 80 % of the variants end on.
LEVELS = {SEPSIS: 23, COSELOG: 10, BPIC: 53}
PRUNING = {SEPSIS: 3, COSELOG: 3, BPIC: 5}


def params(name: str, **others: Any) -> Any:
    given = {"epsilon": "1", "max_prefix_length": LEVELS[name], "p_harmful": PRUNING[name]}
    return PRIPEL.Params(**{**given, **others})


@functools.cache
def released(folder: Path, name: str, number: int = 0, **others: Any) -> TraceBatch:
    [made] = anonymise(
        [real_log(folder, name)], PRIPEL, params(name, **others), release_key(number), "r", "c"
    ).traces
    return made


def steps(traces: TraceBatch) -> set[tuple[int, int, int]]:
    """Pairs of activities with the time between them, of steps that take some."""
    later = np.flatnonzero(traces.durations > 0)
    before, after = traces.activities[later - 1], traces.activities[later]
    return set(zip(before.tolist(), after.tolist(), traces.durations[later].tolist(), strict=True))


@pytest.mark.parametrize("query", ["laplace", "sacofa"])
@pytest.mark.parametrize("name", [at_night(n) if "bpic" in n else n for n in LEVELS])
def test_next_to_no_time_of_the_log_comes_out(logs_folder: Path, name: str, query: str) -> None:
    """The authors' code releases 99 % of the times between events as they are.

    At most one in a thousand here is met by chance: where a pair takes milliseconds in the log,
    there are few other times in microseconds for it.
    """
    raw, made = real_log(logs_folder, name), released(logs_folder, name, query=query)
    assert made.n_cases > raw.n_cases / 10
    assert (made.durations >= 0).all()
    known = steps(raw)
    times = steps(made)
    assert len(times & known) <= len(times) / 1000
    assert len(known & steps(raw.take(np.arange(100)))) > 100  # the control
    assert len(set(raw.times.tolist()) & set(made.times.tolist())) <= made.n_events / 1000
    assert raw.starts.min() <= made.starts.min() and made.starts.max() <= raw.starts.max()


@pytest.mark.parametrize(("name", "levels"), [(SEPSIS, 23), (SEPSIS, 5), (COSELOG, 10)])
def test_the_matching_costs_as_little_as_that_of_a_matrix_of_cases(
    logs_folder: Path, name: str, levels: int
) -> None:
    raw = real_log(logs_folder, name)
    given = params(name, max_prefix_length=levels)
    decisions = execute(MethodRun(PRIPEL, given, release_key(), "r", "c"), [raw])[2].decisions
    query: QueryDecision = decisions["variants"]
    ours = texts(query.offsets, query.codes)
    theirs = texts(query.matched.offsets, query.matched.codes)
    n_released = np.zeros(len(ours), np.int64)
    np.add.at(n_released, query.released, query.cases)
    found = sum(
        int(n) * Levenshtein.distance(ours[i], theirs[j])
        for j, i, n in zip(query.raw, query.released, query.cases, strict=True)
    )
    whole = VariantHistogram.from_traces(raw)
    uses = -(-int(n_released.sum()) // raw.n_cases)
    distances = cdist(ours, texts(whole.offsets, whole.codes), scorer=Levenshtein.distance)
    matrix = np.repeat(np.repeat(distances, n_released, axis=0), whole.counts * uses, axis=1)
    assert found == matrix[linear_sum_assignment(matrix)].sum()


def texts(offsets: np.ndarray, codes: np.ndarray) -> list[str]:
    text = "".join(map(chr, (codes + 65).tolist()))
    return [text[a:b] for a, b in itertools.pairwise(offsets.tolist())]
