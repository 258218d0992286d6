"""The products of the rigorous methods as files: what others read in them, and what no byte has."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.releasing import csv_log, individual_log, tracecloak
from tests.support.searching import files_with

# Names as people write them: what must be escaped in XML, DOT or CSV, and no ASCII.
NAMES = ("Ärztin <ruft> & fragt", 'says "yes, no"', "C;D", "D\\n")
START, END = "▶", "■"


def rows_of(names: tuple[str, ...], n_cases: int) -> list[tuple[str, str, str]]:
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    return [
        (f"case-{case}", quoted[step], f"2026-01-{1 + case % 28:02d}T0{2 * step}:00:00Z")
        for case in range(n_cases)
        for step in range(2 + case % 3)
    ]


def release(folder: Path, log: Path, *flags: object) -> Path:
    assert tracecloak(
        "release", "--log", log, "--output", folder / "out", "--key_store", folder / "keys",
        "--release_id", "r", "--runner", "InMemory", "--parts", 2, *flags,
    ) == 0  # fmt: skip
    return folder / "out" / "run_id=r"


@pytest.fixture(scope="module")
def histogram(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("histogram")
    log = csv_log(folder / "log.csv", rows_of(NAMES, 300))
    flags = ("--method", "variant-histogram", "--epsilon", "0.7", "--delta", "1e-5")
    return release(folder, log, *flags, "--formats", "parquet,xes,csv")


# --- The log of a histogram -----------------------------------------------------------------------


def test_the_log_in_all_its_forms_is_the_histogram(histogram: Path) -> None:
    """Catches a generated log that does not add up to the counts it was made of."""
    expected = {
        tuple(row["variant"]): row["count"]
        for row in json.loads((histogram / "variants.json").read_text())["variants"]
    }
    assert len(expected) == 3
    logs = (pd.read_parquet(histogram / "log"), pd.read_csv(histogram / "log.csv.gz"))
    for frame in logs:
        found = Counter(frame.groupby("case_id", sort=False)["activity"].apply(tuple))
        assert found == expected
        for numbers in frame.groupby("case_id")["event_index"].apply(list):
            assert numbers == list(range(1, len(numbers) + 1))
    edges = json.loads((histogram / "dfg.json").read_text())["edges"]
    pairs: Counter[tuple[str, str]] = Counter()
    for variant, count in expected.items():
        for pair in zip((START, *variant), (*variant, END), strict=True):
            pairs[pair] += count
    assert {(e["source"], e["target"]): e["count"] for e in edges} == pairs


# --- What is in no byte ---------------------------------------------------------------------------


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
    made = release(tmp_path, log, *flags, "--runner", runner)
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
