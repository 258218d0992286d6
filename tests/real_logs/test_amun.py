"""Amun on public research logs: every mode keeps R1, and Sepsis loses the variants it should.

The logs are not part of the project; TRACECLOAK_LOGS names the folder that has them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.keys import release_key
from tests.support.real_logs import real_log
from tests.support.tiers import at_night
from tracecloak.anonymizers.amun.method import Amun, AmunParams
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.examination.measure.measures import EdgeWeights, edge_frequency_emd
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.directly_follows import DirectlyFollows
from tracecloak.schemas.statistics.variants import VariantHistogram

pytestmark = pytest.mark.logs

BPIC = "bpic2012.xes.gz"
# name: (cases, events, variants)
LOGS = {
    "sepsis.xes.gz": (1_050, 15_214, 846),
    "sepsis_attributes.csv.gz": (1_050, 15_214, 846),
    "unrineweginfectie.xes.gz": (1_650, 6_973, 50),
    "coselog_receipt.xes.gz": (1_434, 8_577, 116),
    BPIC: (13_087, 262_200, 4_366),
}
SEPSIS = "sepsis.xes.gz"
CSV = ColumnMapping(case_id="Case ID", activity="Activity", timestamp="Complete Timestamp")


def released(traces: TraceBatch, params: AmunParams, number: int = 0) -> TraceBatch:
    made = anonymise([traces], Amun(), params, release_key(number), "release", "configuration")
    return made.traces[0]


def variants(traces: TraceBatch) -> set[bytes]:
    return set(VariantHistogram.from_traces(traces).sequences.to_pylist())


@pytest.mark.parametrize("name", LOGS)
def test_a_log_is_read_as_it_is_documented(logs_folder: Path, name: str) -> None:
    traces = real_log(logs_folder, name)
    assert (traces.n_cases, traces.n_events, len(variants(traces))) == LOGS[name]


@pytest.mark.parametrize("mode", ["sampling", "filtering", "oversampling"])
@pytest.mark.parametrize("name", [at_night(name) if name == BPIC else name for name in LOGS])
def test_every_mode_and_advantage_releases_variants_of_the_log_only(
    logs_folder: Path, name: str, mode: str
) -> None:
    traces = real_log(logs_folder, name)
    before = variants(traces)
    n_cases = []
    for g in (0.2, 0.3, 0.4):
        made = released(traces, AmunParams(guessing_advantage=g, mode=mode))
        after = variants(made)
        assert after <= before
        assert mode != "oversampling" or after == before
        assert (made.durations >= 0).all()
        assert len(set(made.case_ids.to_pylist())) == made.n_cases
        n_cases.append(made.n_cases)
    assert min(n_cases) > 0
    if mode == "oversampling":  # a smaller advantage takes more copies
        assert n_cases[0] > n_cases[1] > n_cases[2] > traces.n_cases


@pytest.mark.parametrize("mode", ["sampling", "oversampling"])
@pytest.mark.parametrize("name", [at_night(name) if name == BPIC else name for name in LOGS])
def test_the_default_keeps_the_mean_step_within_a_factor_of_3(
    logs_folder: Path, name: str, mode: str
) -> None:
    """Control: by Equation 4 on whole steps those of all but one log are below a third as long.

    That one is the log of receipts, where most steps are next to nothing and a few are months.
    """
    traces = real_log(logs_folder, name)

    def factors(profile: str, compression: str | None = None) -> list[float]:
        params = AmunParams(
            guessing_advantage=0.2, mode=mode, profile=profile, compression=compression
        )
        return [mean_step(released(traces, params, k)) / mean_step(traces) for k in range(3)]

    assert 1 / 3 < min(factors("reference")) <= max(factors("reference")) < 3
    assert name == "coselog_receipt.xes.gz" or max(factors("paper", "equation_4")) < 1 / 3


def mean_step(traces: TraceBatch) -> float:
    return float(traces.durations[~traces.is_first].mean())


@pytest.mark.parametrize(("profile", "is_near"), [("reference", True), ("paper", False)])
def test_oversampling_sepsis_as_the_authors_do_gives_the_figures_of_the_paper_but_for_its_rounding(
    logs_folder: Path, profile: str, is_near: bool
) -> None:
    """Table 7 has 427.6 events an edge at g = .2; 366 with 2,948 cases is what is near it here.

    The authors' code rounds the noise up: with that it is 431, and 3,460 cases. Control: the
    paper's own proposition, whose epsilon gives 1,776 and ten thousand cases.
    """
    traces = real_log(logs_folder, SEPSIS)
    params = AmunParams(guessing_advantage=0.2, mode="oversampling", profile=profile)
    made = [released(traces, params, number) for number in range(5)]
    n_cases = float(np.mean([log.n_cases for log in made]))
    distance = float(np.mean([edge_frequency_emd(edges(traces), edges(log)) for log in made]))
    assert (n_cases == pytest.approx(2_948, rel=0.04)) == is_near
    assert (distance == pytest.approx(366, rel=0.05)) == is_near
    assert is_near or (n_cases > 9_000 and distance > 1_500)


def edges(traces: TraceBatch) -> EdgeWeights:
    graph = DirectlyFollows.from_traces(traces).inner(traces.vocabulary)
    return EdgeWeights(graph.sources, graph.targets, graph.counts)


N_KEYS = 20


@pytest.mark.parametrize(
    ("g", "distance", "table_6"), [(0.2, 0.329, 0.144), (0.3, 0.283, 0.123), (0.4, 0.240, 0.034)]
)
def test_sampling_loses_as_many_variants_of_sepsis_as_algorithm_1_does(
    logs_folder: Path, g: float, distance: float, table_6: float
) -> None:
    """Jaccard distance of the sets of variants, mean of 20 releases, within .03.

    The figures are those of an independent implementation of Algorithm 1 as it is written, with
    noise rounded to the nearest. Control: those of the paper's Table 6, which its code reaches
    because it drops fewer cases than it should, are out of reach.
    """
    traces = real_log(logs_folder, SEPSIS)
    before = variants(traces)
    distances = []
    for number in range(N_KEYS):
        after = variants(released(traces, AmunParams(guessing_advantage=g), number))
        distances.append(1 - len(after & before) / len(after | before))
    mean = float(np.mean(distances))
    assert mean == pytest.approx(distance, abs=0.03)
    assert mean != pytest.approx(table_6, abs=0.03)
