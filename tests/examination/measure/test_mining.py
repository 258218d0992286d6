"""Mined processes: by hand on small logs, against pm4py's own front door, and on Sepsis."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.logs import Variant, histogram
from tests.support.tiers import at_night
from tracecloak.examination.comparison.original import Original
from tracecloak.examination.measure.mining import MinedProcess, ModelQuality, require_pm4py
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.statistics.variants import VariantHistogram
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.inputs.source_files import match_files
from tracecloak.transforms.sources import EventSource

pytestmark = pytest.mark.filterwarnings("ignore")  # of pm4py's dependencies

NAMES = ActivityVocabulary.of("ABCD")
SEQUENCE = {("A", "B", "C"): 6, ("A", "C"): 2}


@pytest.fixture(autouse=True)
def _pm4py() -> Any:
    return pytest.importorskip("pm4py")


def judge(counts: Mapping[Variant, int]) -> MinedProcess:
    return MinedProcess(histogram(counts, "ABCD"), NAMES)


def test_a_released_log_is_judged_by_the_original() -> None:
    process = judge(SEQUENCE)
    assert process.of(histogram({("A", "B", "C"): 1}, "ABCD"), NAMES) is not None
    narrow = process.of(histogram({("A", "B", "C"): 99}, "ABCD"), NAMES)
    assert narrow is not None and narrow.fitness < 1 and narrow.precision == 1
    other = process.of(histogram({("D", "D"): 1}, "ABCD"), NAMES)
    assert other is not None and other.fitness < narrow.fitness
    # What counts is the names, not their codes.
    recoded = process.of(histogram({("A", "B", "C"): 99}, "ABC"), ActivityVocabulary.of("ABC"))
    assert recoded == narrow


def test_counts_weigh_what_is_mined_and_what_it_is_judged_by() -> None:
    """Rare behaviour is left out of the model, and costs as much as it is frequent in the log."""
    usual, rare = ("A", "B", "C"), ("A", "C")
    noisy = histogram({usual: 1000, rare: 1}, "ABCD")
    many = judge({usual: 1, rare: 9}).of(noisy, NAMES)
    few = judge({usual: 9, rare: 1}).of(noisy, NAMES)
    assert many is not None and few is not None
    assert many.fitness < few.fitness < 1
    balanced = judge({usual: 9, rare: 1}).of(histogram({usual: 500, rare: 500}, "ABCD"), NAMES)
    assert balanced is not None and balanced.fitness == 1


def test_the_models_are_those_of_pm4pys_front_door(_pm4py: Any) -> None:
    import pandas as pd

    counts = {("A", "B", "C"): 5, ("A", "C", "B"): 4, ("A", "B", "B", "D"): 3, ("C", "D"): 1}
    rows = [
        (f"{variant} {i}", name, pd.Timestamp("2026-01-01") + pd.Timedelta(minutes=step))
        for variant, n in counts.items()
        for i in range(n)
        for step, name in enumerate(variant)
    ]
    frame = pd.DataFrame(rows, columns=["case:concept:name", "concept:name", "time:timestamp"])
    net = _pm4py.discover_petri_net_inductive(frame, noise_threshold=0.2)
    fitness = _pm4py.fitness_token_based_replay(frame, *net)["log_fitness"]
    precision = _pm4py.precision_token_based_replay(frame, *net)
    found = judge(counts).of_original
    assert (found.fitness, found.precision) == pytest.approx((fitness, precision))
    assert 0 < found.precision < 1


def test_an_empty_release_has_no_model_and_an_empty_log_no_judge() -> None:
    assert judge(SEQUENCE).of(VariantHistogram.merge(()), NAMES) is None
    with pytest.raises(UsageError, match="at least one case"):
        MinedProcess(VariantHistogram.merge(()), NAMES)


def test_no_fitness_and_no_precision_is_no_score() -> None:
    assert ModelQuality(0, 0).f_score == 0


def test_without_pm4py_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pm4py", None)
    with pytest.raises(UsageError, match=r"pip install 'pm4py.*the extra mining"):
        require_pm4py()


@pytest.mark.logs
@pytest.mark.parametrize(
    ("name", "fitness", "precision"),
    [("coselog_receipt", 0.945, 0.266), at_night("sepsis", 0.987, 0.453)],
)
def test_real_logs_have_the_known_quality(
    logs_folder: Path, name: str, fitness: float, precision: float
) -> None:
    """As pm4py 2.7.23 finds it on the whole logs, read and mined by its own functions."""
    files = tuple(match_files([str(logs_folder / f"{name}.xes.gz")]))
    original = Original.read(name, EventSource(files, SourceFormat(), ColumnMapping()))
    found = original.process.of_original
    assert found.fitness == pytest.approx(fitness, abs=0.0006)
    assert found.precision == pytest.approx(precision, abs=0.0006)
