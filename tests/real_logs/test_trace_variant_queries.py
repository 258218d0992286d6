"""`laplace-variants` and `sacofa` on public research logs, against the papers and their code.

Fixed keys, so a failure repeats. What is compared with a figure of the authors' code is the median
of 10 releases; the bounds hold with all keys that were tried when they were chosen. The logs are
not part of the project; TRACECLOAK_LOGS names the folder that has them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.keys import randomness
from tests.support.real_logs import real_log
from tests.support.tiers import at_night
from tracecloak.anonymizers.queries.laplace_variants import LaplaceVariants
from tracecloak.anonymizers.queries.order_rules import OrderRules
from tracecloak.anonymizers.queries.prefix_method import LevelMethod
from tracecloak.anonymizers.queries.sacofa import Sacofa
from tracecloak.examination.measure.mining import MinedProcess
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.relations import ActivityRelations
from tracecloak.schemas.statistics.variants import VariantHistogram

pytestmark = pytest.mark.logs

COSELOG = "coselog_receipt.xes.gz"
SEPSIS = "sepsis.xes.gz"
# Table 4 of the paper: epsilon to prefix length, p_harmful and p_harmless.
TABLE_4 = {
    COSELOG: {"1": (10, 3, None), "0.1": (10, 25, 22), "0.01": (10, 220, 200)},
    SEPSIS: {"1": (23, 4, None), "0.1": (23, 20, 15), "0.01": (23, 190, 150)},
}
N_KEYS = 10
LAPLACE, SACOFA = LaplaceVariants(), Sacofa()


@functools.cache
def statistics(folder: Path, name: str) -> Mapping[str, Any]:
    traces = real_log(folder, name)
    variants = VariantHistogram.from_traces(traces)
    relations = ActivityRelations.from_variants(variants, traces.vocabulary)
    return {"variants": variants, "names": traces.vocabulary, "relations": relations}


def params_of(method: LevelMethod, name: str, epsilon: str, **more: Any) -> Any:
    """The setting of Table 4, of which the Laplace query has the one threshold."""
    k, harmful, harmless = TABLE_4[name][epsilon]
    own = {"p_harmless": harmless} if method is SACOFA else {}
    given = {"epsilon": epsilon, "max_prefix_length": k, "p_harmful": harmful, **own, **more}
    return method.Params(**given)


def released(
    folder: Path, name: str, method: LevelMethod, params: Any, number: int
) -> ReleasedVariants:
    counted = statistics(folder, name)
    return method.decide("variants", counted, {}, params, randomness(number)).variants


# --- size of the result ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "epsilon", "method", "size", "factor"),
    [
        (COSELOG, "1", LAPLACE, 1.09, 1.04),
        (COSELOG, "0.1", LAPLACE, 4.2, 1.5),
        (COSELOG, "0.01", LAPLACE, 79, 3.5),
        (SEPSIS, "0.1", LAPLACE, 15, 2.2),
        (COSELOG, "1", SACOFA, 0.94, 1.02),
        (COSELOG, "0.1", SACOFA, 0.98, 1.1),
        (COSELOG, "0.01", SACOFA, 1.2, 2),
        (SEPSIS, "1", SACOFA, 0.32, 1.1),
        (SEPSIS, "0.1", SACOFA, 1.95, 1.3),
        (SEPSIS, "0.01", SACOFA, 3.8, 2.5),
    ],
)
def test_results_are_as_large_as_those_of_the_authors_code(
    logs_folder: Path, name: str, epsilon: str, method: LevelMethod, size: float, factor: float
) -> None:
    """Cases for each case of the log; the smaller epsilon, the wider they are spread."""
    params = params_of(method, name, epsilon)
    n_cases = real_log(logs_folder, name).n_cases
    found = np.median(
        [
            released(logs_folder, name, method, params, number).n_cases / n_cases
            for number in range(N_KEYS)
        ]
    )
    assert size / factor < found < size * factor


@pytest.mark.parametrize("name", [COSELOG, SEPSIS])
@pytest.mark.parametrize("epsilon", ["1", "0.1", "0.01"])
@pytest.mark.parametrize("method", [LAPLACE, SACOFA], ids=lambda method: method.name)
def test_the_reference_answers_every_setting_of_the_grid(
    logs_folder: Path, name: str, epsilon: str, method: LevelMethod
) -> None:
    """Prefix lengths and thresholds of Table 4, which belong to it."""
    params = params_of(method, name, epsilon)
    for number in range(3):
        check(released(logs_folder, name, method, params, number), params)


def check(made: ReleasedVariants, params: Any) -> None:
    lengths = np.diff(made.offsets)
    assert made.n_cases > 0 and (made.counts > 0).all()
    assert lengths.min() >= 1 and lengths.max() <= params.max_prefix_length


# --- F-score of what is mined ---------------------------------------------------------------------


def f_scores(folder: Path, name: str, epsilon: str, method: LevelMethod, n: int) -> list[float]:
    process = mined(folder, name)
    params, found = params_of(method, name, epsilon), []
    for number in range(n):
        made = released(folder, name, method, params, number)
        variants = VariantHistogram.from_sequences(
            encode_sequences(made.offsets, made.codes), made.counts
        )
        quality = process.of(variants, ActivityVocabulary(made.names))
        assert quality is not None
        found.append(quality.f_score)
    print(f"{name} {epsilon} {method.name}: {np.round(found, 3)}")  # noqa: T201
    return found


@functools.cache
def mined(folder: Path, name: str) -> MinedProcess:
    pytest.importorskip("pm4py")
    traces = real_log(folder, name)
    return MinedProcess(VariantHistogram.from_traces(traces), traces.vocabulary)


@pytest.mark.filterwarnings("ignore")  # of pm4py's dependencies
@pytest.mark.parametrize("epsilon", ["1", at_night("0.1")])
def test_sacofa_is_ahead_of_the_laplace_query_on_coselog(logs_folder: Path, epsilon: str) -> None:
    """At the same epsilon and pruning.

    The authors' code has medians of .844 and .401 at epsilon 1, and of .853 and .261 at 0.1.
    """
    ours, theirs = (f_scores(logs_folder, COSELOG, epsilon, m, 3) for m in (SACOFA, LAPLACE))
    assert np.median(ours) > np.median(theirs) + 0.1
    assert max(theirs) < 0.6


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore")
def test_sacofa_and_the_laplace_query_are_alike_on_sepsis(logs_folder: Path) -> None:
    """At epsilon 1 and the same pruning, medians of 20 releases: .728 and .708.

    The standard error of each is .015. The authors' code has .788 and .644.
    """
    ours, theirs = (f_scores(logs_folder, SEPSIS, "1", m, 20) for m in (SACOFA, LAPLACE))
    assert np.median(ours) == pytest.approx(0.788, abs=0.1)
    assert np.median(theirs) == pytest.approx(0.644, abs=0.1)
    assert abs(np.median(ours) - np.median(theirs)) < 0.1


# --- why no epsilon is finite ---------------------------------------------------------------------


def turned(first: OrderRules, second: OrderRules) -> bool:
    names = ("never", "always_follows", "always_precedes", "begins")
    return any((getattr(first, name) != getattr(second, name)).any() for name in names)


@pytest.mark.parametrize(("name", "n_turning"), [(COSELOG, 18), (SEPSIS, 9)])
def test_single_cases_turn_rules(logs_folder: Path, name: str, n_turning: int) -> None:
    """As many cases as of the authors' code: without one of them other prefixes are harmful."""
    counted = statistics(logs_folder, name)
    variants, vocabulary = counted["variants"], counted["names"]
    whole = OrderRules.of_relations(counted["relations"], vocabulary, at_first=False)
    n_found = 0
    for alone in np.flatnonzero(variants.counts == 1):
        kept = np.arange(variants.n_variants) != alone
        rest = VariantHistogram(variants.sequences.filter(pa.array(kept)), variants.counts[kept])
        relations = ActivityRelations.from_variants(rest, vocabulary)
        n_found += turned(whole, OrderRules.of_relations(relations, vocabulary, at_first=False))
    assert n_found == n_turning


# --- speed ----------------------------------------------------------------------------------------
