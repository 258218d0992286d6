"""A release of a table is one of the version with which it was begun, whatever becomes of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.lake_tables import (
    delete_by_vector,
    files_below,
    iceberg_table,
    log_rows,
    rows_without,
    use_catalogue,
)
from tests.support.releasing import (
    cut_off,
    digests,
    fix_key,
    ledger_entries,
    operator_folder,
    release_of,
    tracecloak,
)
from tests.support.searching import contents
from tracecloak.examination.evaluation.origin import as_released
from tracecloak.pipelines.configuration.config import load_log
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.receipts import Receipt
from tracecloak.pipelines.verification.received import Received

deltalake = pytest.importorskip("deltalake")

ROWS = log_rows(40)


@pytest.fixture(autouse=True)
def one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    fix_key(monkeypatch)


def write(table: Path, rows: pa.Table, **how: Any) -> None:
    deltalake.write_deltalake(str(table), rows.combine_chunks(), **{"mode": "append", **how})


def made(folder: Path) -> dict[str, str]:
    return digests(folder / "out" / "run_id=r")


def receipts(folder: Path) -> list[Receipt]:
    return [Receipt.read(path.read_text()) for path in (folder / "keys/releases").glob("*.json")]


def test_it_is_the_release_of_the_rows_that_the_table_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By an order of its own: without one, the release of a table says that names order its events.
    by_time = {"columns": {"order": "timestamp"}}
    deleted = [0, 1, 2, 7, 50]
    write(tmp_path / "t", ROWS)
    delete_by_vector(tmp_path / "t", 1, "parquet", deleted)
    left = pa.Table.from_pylist(rows_without(ROWS, deleted), ROWS.schema)
    pq.write_table(left, tmp_path / "left.parquet")
    assert release_of(tmp_path / "file", log=str(tmp_path / "left.parquet"), **by_time) == 0
    assert release_of(tmp_path / "delta", log=f"delta:{tmp_path / 't'}", **by_time) == 0
    assert made(tmp_path / "delta") == made(tmp_path / "file")
    pytest.importorskip("pyiceberg")
    use_catalogue(monkeypatch, tmp_path)
    iceberg_table("lake.hospital.visits", left)
    assert release_of(tmp_path / "iceberg", log="iceberg:lake.hospital.visits", **by_time) == 0
    assert made(tmp_path / "iceberg") == made(tmp_path / "file")


def test_a_rerun_and_the_judges_read_the_version_of_its_receipt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "t"
    write(table, ROWS)
    assert release_of(tmp_path / "whole", log=f"delta:{table}") == 0
    cut_off(tmp_path, log=f"delta:{table}")
    write(table, log_rows(9, prefix="late"))
    assert release_of(tmp_path, log=f"delta:{table}") == 0
    assert made(tmp_path) == made(tmp_path / "whole")
    assert [e.action for e in ledger_entries(tmp_path / "keys")] == ["reserve", "draw", "commit"]
    (receipt,) = receipts(tmp_path)
    assert receipt.origin.tables == (f"delta:{table}@0",)
    # It is there, for whoever names that version or none, and for no other one.
    assert release_of(tmp_path, log=f"delta:{table}") == 0
    assert release_of(tmp_path, log=f"delta:{table}@0") == 0
    assert release_of(tmp_path, log=f"delta:{table}@1") == 2
    # Who judges it reads that version, too, and none where nobody knows which one it was.
    out, log = tmp_path / "out", load_log({"log": f"delta:{table}"})
    received = Received.at(str(out))
    assert as_released(log, received, KeyStore(tmp_path / "keys")).log == (f"delta:{table}@0",)
    monkeypatch.setenv("TRACECLOAK_KEY_STORE", str(tmp_path / "others"))
    for judge, to in (("evaluate", "--output"), ("report", "--output"), ("linkage", "--report")):
        command = ("attack", "linkage") if judge == "linkage" else (judge,)
        capsys.readouterr()
        given = ("--log", f"delta:{table}", to, tmp_path / "judged.json")
        assert tracecloak(*command, out / "run_id=r", *given) == 2, judge
        assert f"delta:{table}@VERSION" in capsys.readouterr().err, judge


def test_after_a_vacuum_or_without_the_table_it_says_what_giving_up_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "t"
    write(table, ROWS)
    cut_off(tmp_path / "drawn", log=f"delta:{table}")
    cut_off(tmp_path / "reserved", log=f"delta:{table}", step="discard")
    assert release_of(tmp_path / "finished", log=f"delta:{table}") == 0
    write(table, log_rows(9, prefix="late"), mode="overwrite")
    deltalake.DeltaTable(str(table)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    capsys.readouterr()
    assert release_of(tmp_path / "drawn", log=f"delta:{table}") == 6
    said = capsys.readouterr().err
    assert "version 0" in said and "leaves epsilon 1 spent" in said and "ledger forfeit" in said
    assert release_of(tmp_path / "reserved", log=f"delta:{table}") == 3
    assert "forfeit" not in capsys.readouterr().err
    assert release_of(tmp_path / "new", log=f"delta:{table}@0") == 3
    # What is released is there all the same, and is told from another version.
    before = made(tmp_path / "finished")
    assert release_of(tmp_path / "finished", log=f"delta:{table}") == 0
    assert made(tmp_path / "finished") == before
    assert release_of(tmp_path / "finished", log=f"delta:{table}@1") == 2
    shutil.rmtree(table)
    capsys.readouterr()
    assert release_of(tmp_path / "drawn", log=f"delta:{table}") == 6
    said = capsys.readouterr().err
    assert "the table is not there" in said and "leaves epsilon 1 spent" in said
    for name, code in (("finished", 0), ("reserved", 3), ("new", 3)):
        assert release_of(tmp_path / name, log=f"delta:{table}") == code


def test_what_is_published_says_neither_table_nor_version(tmp_path: Path) -> None:
    table = tmp_path / "planted-lake" / "planted-table"
    write(table, ROWS)
    for _ in range(7):
        deltalake.DeltaTable(str(table)).alter.set_table_properties({"delta.appendOnly": "true"})
    assert release_of(tmp_path, log=f"delta:{table}") == 0
    published = [(path, text) for path in files_below(tmp_path / "out") for text in contents(path)]
    assert published
    for path, text in published:
        for marker in (b"planted", b"delta:", b"deltalake"):
            assert marker not in text, (path, marker)
    assert "planted-table@7" in (operator_folder(tmp_path / "keys") / "statement.md").read_text()


SCHEDULE = {
    "origin": "2026-11-02", "period": "week", "by": "close", "max_lifetime": "1d",
    "release_delay": "1d", "horizon": 2, "partition": "day",
}  # fmt: skip


def test_windows_read_the_partitions_that_they_need_each_at_its_version(tmp_path: Path) -> None:
    table = tmp_path / "t"
    for day in ("2026-11-03", "2026-11-10"):
        rows = log_rows(20, day, prefix=day)
        write(table, rows.append_column("day", pa.array([day] * len(rows))), partition_by=["day"])
    given = {"schedule": SCHEDULE, "dataset": "visits"}
    assert release_of(tmp_path, "--window", "2026-11-02", log=f"delta:{table}", **given) == 0
    write(table, rows.append_column("day", pa.array(["2026-11-10"] * len(rows))))
    assert release_of(tmp_path, "--window", "2026-11-09", log=f"delta:{table}", **given) == 0
    tables = {one.release_id: one.origin.tables for one in receipts(tmp_path)}
    assert tables == {
        "r-2026-11-02": (f"delta:{table}@1",),
        "r-2026-11-09": (f"delta:{table}@2",),
    }
    read = {one.release_id: [f.path for f in one.origin.files] for one in receipts(tmp_path)}
    assert len(read["r-2026-11-02"]) == 1 and "day=2026-11-03" in read["r-2026-11-02"][0]
    assert len(read["r-2026-11-09"]) == 2
