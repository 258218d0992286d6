"""What is not released is in no byte of what a release leaves."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.releasing import csv_log, individual_log, released
from tests.support.searching import files_with

RARE, COMMON = "canary-rare", "canary-common"


def canary_log(path: Path, with_individuals: bool = False) -> Path:
    """200 cases of a common variant, and three with an activity that nobody else has."""
    rows = [
        (f"canary-case-{case}", activity, f"2026-01-{1 + case % 28:02d}T0{step}:00:00Z")
        for case in range(203)
        for step, activity in enumerate(
            ("Start", COMMON, "End") if case < 200 else ("Start", f"{RARE}-{case % 2}", COMMON)
        )
    ]
    if with_individuals:
        return individual_log(path, [(f"canary-person-{row[0][-2:]}", *row) for row in rows])
    return csv_log(path, rows)


CONFIGURATIONS: dict[str, tuple[Any, ...]] = {
    "variants": ("--method", "variant-histogram", "--epsilon", 1, "--formats", "parquet,xes,csv"),
    "variants, truncated, of individuals": (
        "--method", "variant-histogram", "--epsilon", 2, "--noise", "truncated",
        "--individual_id", "person"),
    "graph, public names": ("--method", "private-dfg", "--epsilon", 2, "--l2_clip", 4,
                            "--vocabulary", "names.txt", "--durations"),
    "graph, bought names": ("--method", "private-dfg", "--epsilon", 200, "--durations",
                            "--buy_vocabulary"),
    "graph of individuals, bought names": (
        "--method", "private-dfg", "--epsilon", 300, "--individual_id", "person",
        "--buy_vocabulary"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "runner"),
    [
        *((name, "InMemory") for name in CONFIGURATIONS),
        *((name, "FnApiRunner") for name in ("variants", "graph, bought names")),
    ],
)
def test_what_is_not_released_is_in_no_byte_of_the_output(
    tmp_path: Path, name: str, runner: str
) -> None:
    """Catches a name of an unreleased variant in a dictionary, a statistic or the metadata.

    Looked at are all files, the operator's too. A rare name is released, or bought, with
    probability below delta = 1e-6: three cases are far below every threshold.
    """
    log = canary_log(tmp_path / "log.csv", "individual" in name)
    (tmp_path / "names.txt").write_text(f"Start\n{COMMON}\nEnd\n")
    flags = [tmp_path / f if f == "names.txt" else f for f in CONFIGURATIONS[name]]
    made = released(tmp_path, log, "--parts", 2, *flags, "--runner", runner)
    out = tmp_path / "out"
    for needle in (RARE, "canary-case", "canary-person"):
        assert files_with(needle.encode(), out) == set()
    # The control: the common name is where it is released, in each form, so the search finds it.
    found = files_with(COMMON.encode(), made)
    if name == "variants":
        assert found == {
            *("variants.json", "variants.parquet", "dfg.json", "log.xes.gz", "log.csv.gz"),
            "report.html",
            *("log/part-00000.parquet", "log/part-00001.parquet"),
        }
    elif name == "graph, bought names":
        assert found == {
            *("dfg.json", "dfg.parquet", "dfg.dot", "dfg.svg"),
            *("durations.json", "durations.parquet", "report.html"),
            *("figures.json", "figures.parquet"),
        }
    else:
        assert found


def test_the_search_finds_a_name_in_every_place_where_one_can_hide(tmp_path: Path) -> None:
    """The control of the search: a dictionary's unused value, a statistic, a packed stream."""
    needle = b"canary"
    values = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array(["a", "canary"]))
    hidden = pa.table({"v": values})
    pq.write_table(hidden, tmp_path / "dictionary.parquet", compression="zstd")
    text = pa.table({"v": ["canary-1"] * 9})
    pq.write_table(text, tmp_path / "plain.parquet", compression="zstd", use_dictionary=False)
    lists = pa.table({"v": [["x", "canary"]] * 9})
    pq.write_table(lists, tmp_path / "lists.parquet", compression="zstd", write_statistics=False)
    (tmp_path / "packed.gz").write_bytes(gzip.compress(b"a canary " * 9))
    (tmp_path / "escaped.json").write_text(json.dumps({"v": "c\u0061nary"}).replace("a", "\\u0061"))
    (tmp_path / "clean.json").write_text("{}")
    pq.write_table(pa.table({"v": ["a"]}), tmp_path / "clean.parquet")
    assert files_with(needle, tmp_path) == {
        "dictionary.parquet",
        "plain.parquet",
        "lists.parquet",
        "packed.gz",
        "escaped.json",
    }
