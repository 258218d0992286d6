"""No element of a release grows with the log: a bound on what is encoded between stages.

Flink sorts, and every runner copies, element by element, in buffers that do not grow with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.runners.direct import bundle_factory

from tests.golden.releases import run_example
from tests.support.releasing import fix_key
from tests.support.tiers import at_night
from tracecloak.anonymizers.registry import METHODS
from tracecloak.transforms import sources
from tracecloak.transforms.batch import anonymize, read, traces

# Beside chunks and batches of cases there are batches of read events, and what holds these.
LARGEST_BYTES = 4 << 20
N_CASES = 200_000
EVENTS_EACH = 12
SMALLER = 16
# Those that can take so many variants within minutes, and those that are tried in small beside.
FAST = ("amun", "variant-histogram")
OTHERS = ("private-dfg", "private-log", "laplace-dfg", "process-tree", "amun-rigorous")
SLOW = ("pretsa",)


def distinct_variants(path: Path, n_cases: int) -> Path:
    """Writes a log of which nearly every case is a variant of its own, of 12 activities of 20."""
    draw = np.random.default_rng(0)
    n_events = EVENTS_EACH * n_cases
    case = np.repeat(np.arange(n_cases), EVENTS_EACH)
    start = draw.integers(0, 300 * 86_400, n_cases)[case]
    second = (
        start + np.tile(np.arange(EVENTS_EACH) * 3_600, n_cases) + draw.integers(0, 3_000, n_events)
    )
    columns = {
        "case_id": pa.array(case).cast(pa.string()),
        "activity": pa.array([f"step {code}" for code in range(20)]).take(
            pa.array(draw.integers(0, 20, n_events))
        ),
        "timestamp": pa.array(
            1_577_836_800_000_000 + second * 1_000_000, pa.timestamp("us", "UTC")
        ),
    }
    pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The largest element of each PCollection, in bytes, by what made it.

    Of a runner that fuses nothing, so that what another one might send is measured, too. What a
    GroupByKey gives is an iterable of elements that were measured before it.
    """
    found: dict[str, int] = {}
    commit = bundle_factory._Bundle.commit

    def measured(self: Any, synchronized_processing_time: Any) -> None:
        label = getattr(self.pcollection.producer, "full_label", "")
        if "GroupByKey" not in label and not label.rpartition("/")[2].startswith("GroupBy"):
            coder = beam.coders.registry.get_coder(self.pcollection.element_type or Any)
            for element in self.get_elements_iterable():
                found[label] = max(found.get(label, 0), len(coder.encode(element.value)))
        commit(self, synchronized_processing_time)

    monkeypatch.setattr(bundle_factory._Bundle, "commit", measured)
    return found


def release(folder: Path, log: Path, method: str) -> None:
    example = dict(METHODS[method].examples[0])
    example.pop("attributes", None)  # which the log does not have
    other = {"runner": "BundleBasedDirectRunner", "formats": ["parquet"], "columns": {}}
    assert run_example(folder, method, example, log, **other) == 0


@pytest.mark.parametrize("method", [FAST[0], *map(at_night, (*FAST[1:], *SLOW))])
def test_no_element_is_larger_than_a_chunk_or_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: dict[str, int], method: str
) -> None:
    """In small: a log of a sixteenth, and chunks and batches of a sixteenth of their size."""
    fix_key(monkeypatch)
    monkeypatch.setattr(traces, "CHUNK_BYTES", traces.CHUNK_BYTES // SMALLER)
    for module in (traces, anonymize):
        monkeypatch.setattr(module, "BATCH_BYTES", module.BATCH_BYTES // SMALLER)
    few = (None, None, sources._BATCH_ROWS // SMALLER)
    monkeypatch.setattr(sources.EventSource.read, "__defaults__", few)
    monkeypatch.setattr(read, "_FULL_ROWS", read._FULL_ROWS // SMALLER)
    n_cases = N_CASES // SMALLER
    release(tmp_path, distinct_variants(tmp_path / "log.parquet", n_cases), method)
    assert len(sizes) > 20
    # Were the variants one element, it would be larger: that is what Flink refused.
    assert n_cases * EVENTS_EACH * 4 > LARGEST_BYTES // SMALLER
    assert {k: n for k, n in sizes.items() if n > LARGEST_BYTES // SMALLER} == {}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("method", [*FAST, *OTHERS])
def test_no_element_grows_with_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: dict[str, int], method: str
) -> None:
    fix_key(monkeypatch)
    release(tmp_path, distinct_variants(tmp_path / "log.parquet", N_CASES), method)
    assert {k: n for k, n in sizes.items() if n > LARGEST_BYTES} == {}
