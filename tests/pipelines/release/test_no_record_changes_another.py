"""One record more, whatever it is: the same exit code, the same files, the same manifest.

Both logs are released with the same decisions, so a difference would be one that the record makes
past the noise.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from tests.support.record_files import WRITERS, Record, parquet, record
from tests.support.releasing import digests, tracecloak
from tests.support.same_decisions import take_the_same_decisions
from tests.support.tiers import at_night

IDS = range(202600001000, 202600001060)
RECORDS = [
    record(number, 20260000001 + step, number, step, f"2026-01-0{1 + step}T10:00:00Z")
    for number in IDS
    for step in range(3)
]
STRANGE: dict[str, Record] = {
    "fraction": record(0.5, 1.5, 0.5, 1e22),
    "nothing": record(None, None, None, None),
    "text": record("x" * 200, "=1+1", "202600001000", "\u202e"),
    "of somebody's id": record(str(IDS[0]) + ".0", True, 2.0**60, "1e3"),
    "truth and time": record(True, False, "p", "k", "yesterday"),
}
METHODS: dict[str, dict[str, Any]] = {
    "private-dfg": {"epsilon": "8", "buy_vocabulary": True},
    "variant-histogram": {"epsilon": "8", "delta": "1e-5"},
}
# Of one case in one column: what has the name of a folder or a column of a table may be anything.
FLOATS = [pa.float64(), pa.string(), pa.string(), pa.float64(), pa.string()]
DECIMALS = [pa.decimal128(20, 2), pa.string(), pa.string(), pa.float32(), pa.string()]


def released(folder: Path, files: dict[str, bytes], method: str, runner: str) -> tuple[Any, ...]:
    """(exit code, the digest of each file by its name, the manifest) of a release."""
    log = folder / "log"
    log.mkdir(parents=True)
    for name, data in files.items():
        (log / name).write_bytes(data)
    of_case = "case:" if next(iter(files)).endswith("xes") else ""
    columns = {
        "case_id": "case:concept:name" if of_case else "case",
        "activity": "concept:name" if of_case else "activity",
        "timestamp": "time:timestamp" if of_case else "stamp",
        "individual_id": f"{of_case}who",
        "order": "kind",
    }
    params = {**METHODS[method], "max_cases_per_individual": 2}
    body = {
        "log": str(log), "output": str(folder / "out"), "key_store": str(folder / "keys"),
        "release_id": "one", "method": method, "params": params, "columns": columns,
        "runner": runner, "parts": 1, "formats": ["parquet", "xes"],
    }  # fmt: skip
    (folder / "release.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
    code = tracecloak("release", folder / "release.yaml")
    made = folder / "out" / "run_id=one"
    return code, digests(made), (made / "manifest.json").read_bytes()


@pytest.mark.parametrize(
    ("method", "runner"),
    [
        ("private-dfg", "InMemory"),
        at_night("private-dfg", "FnApiRunner"),
        at_night("variant-histogram", "InMemory"),
    ],
)
@pytest.mark.parametrize("kind", WRITERS)
def test_one_record_more_changes_nothing_but_counts(
    tmp_path: Path, kind: str, method: str, runner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_the_same_decisions(monkeypatch)
    write = WRITERS[kind]
    first = released(tmp_path / "first", {f"a.{kind}": write(RECORDS)}, method, runner)
    assert first[0] == 0
    for place, strange in enumerate(STRANGE.values()):
        there = [*RECORDS[:place], strange, *RECORDS[place:]]
        found = released(tmp_path / str(place), {f"a.{kind}": write(there)}, method, runner)
        assert found == first


def test_a_second_file_of_other_types_changes_nothing_but_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_the_same_decisions(monkeypatch)
    records = [(str(r[0]), str(r[1]), r[2], str(r[3]), str(r[4])) for r in RECORDS]
    floats = [
        record(None, who=None),
        record(0.5, who=0.5),
        record(float(IDS[0]), who=float(IDS[0])),
    ]
    decimals = [record(Decimal("0.50"), who=2.0**25)]
    files = {"a.parquet": parquet(records)}
    first = released(tmp_path / "first", files, "private-dfg", "InMemory")
    for name, other, kinds in (("f", floats, FLOATS), ("d", decimals, DECIMALS)):
        files = {"a.parquet": parquet(records), "b.parquet": parquet(other, kinds=kinds)}
        assert released(tmp_path / name, files, "private-dfg", "InMemory") == first
