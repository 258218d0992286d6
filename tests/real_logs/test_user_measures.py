"""What is measured of the logs themselves, and of their chains, against another implementation.

The figures are those of a prototype in plain numpy that was written before and apart from this
code, with draws of its own: what follows from the log alone is the same to its digits, what is
drawn within a few hundredths. The logs are not part of the project; TRACECLOAK_LOGS names their
folder.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.real_logs import source_of
from tracecloak.examination.comparison.original import Original
from tracecloak.examination.measure.chains import CHAINS
from tracecloak.examination.measure.intervals import bootstrap
from tracecloak.schemas.statistics.variants import VariantHistogram

pytestmark = pytest.mark.logs


def original(folder: Path, name: str) -> Original:
    return Original.read(name, source_of(folder, name))


@pytest.mark.parametrize(
    ("name", "eta_squared", "drift"),
    [
        ("bpic2013_closed.xes.gz", 0.22, 0.33),
        ("bpic2013_incidents.xes.gz", 0.79, 0.34),
        ("traffic_fines.parquet", 0.81, 0.02),
        ("hospital_billing.parquet", 0.92, 0.05),
        ("coselog_receipt.xes.gz", 0.21, 0.32),
    ],
)
def test_what_the_logs_times_tell(
    logs_folder: Path, name: str, eta_squared: float, drift: float
) -> None:
    log = original(logs_folder, name)
    own = log.figures_of_times(log.traces.recode(log.vocabulary))
    assert own["duration_eta_squared"] == pytest.approx(eta_squared, abs=0.0051)
    assert own["drift"] == pytest.approx(drift, abs=0.0051)
    assert own["case_duration_distance"] == own["big_pair_wait_error"] == 0


@pytest.mark.parametrize(
    ("name", "distance", "of_top_variants"),
    [
        ("bpic2013_closed.xes.gz", 0.064, 0.11),
        ("bpic2013_incidents.xes.gz", 0.031, 0.08),
        ("traffic_fines.parquet", 0.010, 0.04),
        ("hospital_billing.parquet", 0.009, 0.04),
    ],
)
def test_what_a_bootstrap_changes_of_times(
    logs_folder: Path, name: str, distance: float, of_top_variants: float
) -> None:
    """One draw there, the median of five here: of the same size."""
    log = original(logs_folder, name)
    found = [
        log.figures_of_times(bootstrap(log.traces, k).recode(log.vocabulary)) for k in range(5)
    ]
    middle = {key: float(np.median([one[key] or 0.0 for one in found])) for key in found[0]}
    assert distance / 2.5 < middle["case_duration_distance"] < distance * 2.5
    assert of_top_variants / 2.5 < middle["top_variant_duration_error"] < of_top_variants * 2.5


def test_how_far_chains_and_a_bootstrap_of_sepsis_are(logs_folder: Path) -> None:
    log = original(logs_folder, "sepsis.xes.gz")
    n = len(log.vocabulary)
    expected = dict(zip(CHAINS, (0.331, 0.234, 0.194), strict=True))
    for name, chain in CHAINS.items():
        emds = [log.figures(chain.draw(log.variants, n, k))["variant_emd"] for k in range(3)]
        assert np.median([emd or 0.0 for emd in emds]) == pytest.approx(expected[name], abs=0.012)
    drawn = VariantHistogram.from_traces(bootstrap(log.traces).recode(log.vocabulary))
    assert log.figures(drawn)["variant_emd"] == pytest.approx(0.082, abs=0.008)
