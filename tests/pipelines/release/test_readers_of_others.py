"""Released logs open in the tools that analysts use."""

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.support.releasing import released, tracecloak


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    tracecloak("sample", "--cases", 150, "--output", folder / "log.parquet")
    return released(folder, folder / "log.parquet", "--method", "amun")


def triples(frame: pd.DataFrame, names: tuple[str, str, str]) -> list[tuple[str, str, int]]:
    """(case, activity, microseconds) of all events, cases by name, events in their order."""
    frame = frame[list(names)].copy()
    frame[names[2]] = pd.to_datetime(frame[names[2]], utc=True).dt.as_unit("us").astype("int64")
    frame = frame.sort_values(names[0], kind="stable")
    return list(frame.itertuples(index=False, name=None))


XES = ("case:concept:name", "concept:name", "time:timestamp")
PLAIN = ("case_id", "activity", "timestamp")


@pytest.mark.filterwarnings("ignore")  # of pm4py's dependencies
@pytest.mark.parametrize("variant", ["iterparse", "r4pm"])
def test_pm4py_reads_the_xes_as_pandas_reads_the_parquet(release: Path, variant: str) -> None:
    import pm4py

    expected = triples(pd.read_parquet(release / "log"), PLAIN)
    read = pm4py.read_xes(str(release / "log.xes.gz"), variant=variant)
    assert triples(read, XES) == expected


@pytest.mark.filterwarnings("ignore")
def test_pm4py_formats_the_parquet_and_counts_the_published_graph(release: Path) -> None:
    import pm4py

    frame = pm4py.format_dataframe(
        pd.read_parquet(release / "log"),
        case_id=PLAIN[0], activity_key=PLAIN[1], timestamp_key=PLAIN[2],
    )  # fmt: skip
    graph, starts, ends = pm4py.discover_dfg(frame)
    published = json.loads((release / "dfg.json").read_text())
    found = {(e["source"], e["target"]): e["count"] for e in published["edges"]}
    inner = {
        k: v for k, v in found.items() if published["start"] not in k and published["end"] not in k
    }
    assert inner == dict(graph)
    assert {t: n for (s, t), n in found.items() if s == published["start"]} == dict(starts)
    assert {s: n for (s, t), n in found.items() if t == published["end"]} == dict(ends)
