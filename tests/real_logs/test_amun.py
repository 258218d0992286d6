"""Amun on public research logs: every mode keeps R1, and Sepsis loses the variants it should.

The logs are not part of the project; TRACECLOAK_LOGS names the folder that has them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.keys import release_key
from tests.support.real_logs import real_log
from tests.support.tiers import at_night
from tracecloak.anonymizers.amun.method import Amun, AmunParams
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.variants import VariantHistogram

pytestmark = pytest.mark.logs

BPIC = "bpic2012.xes.gz"
LOGS = ("sepsis.xes.gz", "unrineweginfectie.xes.gz", "coselog_receipt.xes.gz", BPIC)


def variants(traces: TraceBatch) -> set[bytes]:
    return set(VariantHistogram.from_traces(traces).sequences.to_pylist())


@pytest.mark.parametrize("mode", ["sampling", "filtering", "oversampling"])
@pytest.mark.parametrize("name", [at_night(name) if name == BPIC else name for name in LOGS])
def test_every_mode_and_advantage_releases_variants_of_the_log_only(
    logs_folder: Path, name: str, mode: str
) -> None:
    traces = real_log(logs_folder, name)
    before = variants(traces)
    n_cases = []
    for g in (0.2, 0.3, 0.4):
        params = AmunParams(guessing_advantage=g, mode=mode)
        [made] = anonymise([traces], Amun(), params, release_key(0), "r", "c").traces
        after = variants(made)
        assert after <= before
        assert mode != "oversampling" or after == before
        assert (made.durations >= 0).all()
        assert len(set(made.case_ids.to_pylist())) == made.n_cases
        n_cases.append(made.n_cases)
    assert min(n_cases) > 0
    if mode == "oversampling":  # a smaller advantage takes more copies
        assert n_cases[0] > n_cases[1] > n_cases[2] > traces.n_cases
