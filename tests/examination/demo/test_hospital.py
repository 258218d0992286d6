"""The synthetic hospital log: a pure function of the case number, with the promised structure."""

from __future__ import annotations

import hashlib
from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tracecloak.examination.demo import hospital as sample
from tracecloak.examination.demo.hospital import (
    ACTIVITIES,
    END_ACTIVITIES,
    hospital_log,
    main,
    write_lake,
)
from tracecloak.pipelines.commands.flags import table_of
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import RELEASED_SCHEMA
from tracecloak.transforms.formats.registry import FORMATS

CASES = 4_000
DAY = 86_400


def rows(n_cases: int, batch_cases: int) -> pa.Table:
    batches = hospital_log(n_cases, batch_cases)
    return pa.Table.from_batches(batches, RELEASED_SCHEMA).combine_chunks()


def test_same_rows_in_every_process():
    # Changes only when the process or the hash is changed on purpose: benchmarks of before and
    # after are then of different logs.
    text = "\n".join(
        f"{row['case_id']},{row['activity']},{row['timestamp'].isoformat()}"
        for row in rows(200, 200).to_pylist()
    )
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "7887fb1968ecdafa"


def test_a_smaller_log_is_the_beginning_of_a_larger_one():
    for n_cases in (1, 150, 999):
        smaller = rows(n_cases, 100)
        assert smaller.equals(rows(1000, 100).slice(0, smaller.num_rows))


def test_public_facts_hold():
    frame = rows(CASES, 20_000).to_pandas()
    lengths = frame.groupby("case_id").size()
    assert lengths.min() == sample.MIN_EVENTS_PER_CASE == 3
    assert lengths.max() <= sample.MAX_EVENTS_PER_CASE
    assert set(frame["activity"]) == set(ACTIVITIES) and len(set(ACTIVITIES)) == len(ACTIVITIES)
    starts = frame.groupby("case_id")["timestamp"].min().astype("int64") // (DAY * 1_000_000)
    first_day = starts - sample.FIRST_DAY.astype(int)
    assert first_day.min() >= 0
    assert 0.99 * sample.START_DAYS < first_day.max() < sample.START_DAYS


def test_every_case_is_of_one_patient_whatever_the_batches():
    def patients_of(batch_cases):
        batches = (sample.with_patients(rows, 40) for rows in hospital_log(60, batch_cases))
        return pa.Table.from_batches(batches).select(["case_id", "patient"]).to_pylist()

    rows = patients_of(7)
    assert rows == patients_of(60)
    of_case = {row["case_id"]: row["patient"] for row in rows}
    assert all(of_case[row["case_id"]] == row["patient"] for row in rows)
    n_cases = Counter(of_case.values())
    assert set(n_cases) <= {f"N{number:06d}" for number in range(40)}
    assert max(n_cases.values()) > 1  # some come back


MONDAY = date(2026, 8, 31)


def test_every_event_is_on_its_day_and_cases_are_whole_but_for_what_has_not_happened(
    tmp_path: Path,
) -> None:
    """Each begins as the hospital's do, keeps the order of its events, and ends at most once."""
    paths = write_lake(tmp_path, MONDAY)
    assert paths[0].relative_to(tmp_path).parts[0] == "day=2026-08-31"
    tables = [pq.ParquetFile(path).read() for path in paths]
    assert len(tables) == 91
    for number, table in enumerate(tables):
        assert table.schema.equals(RELEASED_SCHEMA)
        stamps = table.column("timestamp").to_pylist()
        assert {stamp.date() for stamp in stamps} == {MONDAY + timedelta(number)}
        assert stamps == sorted(stamps)
    log = pa.concat_tables(tables).to_pandas()
    cases = [case["activity"].tolist() for _, case in log.groupby("case_id", sort=False)]
    assert len(cases) == 3000
    assert {case[0] for case in cases} == {ACTIVITIES[0]}
    assert 0.9 < np.mean([case[-1] in END_ACTIVITIES for case in cases]) < 1
    assert not any(set(case[:-1]) & set(END_ACTIVITIES) for case in cases)
    assert log.groupby("case_id")["timestamp"].agg(np.ptp).max() > np.timedelta64(14, "D")


def test_what_is_no_number_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "--first_day", "2026-08-31", "--days", "0"]) == 2
    assert "days" in capsys.readouterr().err
    for arguments in ((-1,), (5, 0)):
        with pytest.raises(UsageError, match="must be at least"):
            hospital_log(*arguments)


def test_the_help_has_the_formats_that_can_be_written() -> None:
    written = [form for form in FORMATS.builtins.values() if form.writer is not None]
    plain = ", ".join(form.endings[0] for form in written if not form.is_packed)
    packed = ", ".join(form.endings[0] for form in written if form.is_packed)
    said = table_of("tracecloak.examination.commands")["sample"]["output"]["help"]
    assert f"{plain}, each also with .gz; or {packed}" in said
