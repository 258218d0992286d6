"""Steps of a stream in tables of Delta and Iceberg: each once, however often it is tried."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.pipelines.stream.test_killed import KILLED, run_once
from tests.support.lake_tables import all_rows, iceberg_settings, in_order, opened, use_catalogue
from tests.support.local_streams import run_script
from tests.support.releasing import ROOT, fix_key
from tests.support.stream_runs import (
    STREAMS,
    in_time,
    published,
    random_messages,
    run,
    script,
    stream_config,
)
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.schemas.errors import InputSchemaError, UsageError
from tracecloak.transforms.lakes import delta
from tracecloak.transforms.stream.step_sinks import TableSink, epoch_folder

deltalake = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
KINDS = ("delta", "iceberg")


def table_in(folder: Path, kind: str) -> str:
    return f"delta:{folder}/steps" if kind == "delta" else "iceberg:lake.ward.steps"


def n_commits(table: str) -> int:
    found = opened(table)
    return len(found.history() if table.startswith("delta") else found.snapshots())


def in_files(config: StreamConfig) -> list[tuple[str, ...]]:
    """All rows of the Parquet files of an epoch."""
    import pyarrow.parquet as pq

    folder = Path(epoch_folder(config.output, config.release_id, config.epoch))
    files = sorted(folder.rglob("*.parquet"))
    return in_order(pa.concat_tables([pq.ParquetFile(path).read() for path in files]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if "variants" in n else []) for n in KILLED]
)
def test_a_table_gets_the_rows_of_every_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    use_catalogue(monkeypatch, tmp_path)
    table = table_in(tmp_path, kind)
    config = stream_config(tmp_path, horizon=5, output_table=table, **STREAMS[name])
    run_once(config, tmp_path, "topic")
    assert in_order(all_rows(table)) == in_files(config)
    assert len(all_rows(table)) or "variants" in name  # of which none is above the threshold
    assert n_commits(table) == 5


def test_so_does_one_on_beam(tmp_path: Path) -> None:
    """By a transform behind the files, which pickles and is tried again."""
    table = table_in(tmp_path, "delta")
    config = stream_config(tmp_path, output_table=table)
    run(config, in_time(random_messages(10, 20), 120))
    rows = all_rows(table)
    assert sorted(set(rows["step"].to_pylist())) == [r.step for r in published(config) if r.cells]
    assert in_order(rows) == in_files(config)


def die(folder: str, table: str, when: str, step: int) -> None:
    """Runs the stream, and ends this process where a step is sent to its table."""
    original = TableSink.send

    def send(sink: TableSink, released: Any) -> None:
        if when == "before" and released.key[-1] == step:
            os.kill(os.getpid(), signal.SIGKILL)
        original(sink, released)
        if when == "after" and released.key[-1] == step:
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.MonkeyPatch.context() as patch:
        fix_key(patch)
        patch.setattr(TableSink, "send", send)
        config = stream_config(Path(folder), horizon=5, output_table=table, **STREAMS["log"])
        run_once(config, Path(folder), "topic")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_that_is_killed_between_table_and_note_appends_a_step_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    kills = (("after", 0), ("before", 2), ("after", 4))
    use_catalogue(monkeypatch, tmp_path)
    table = table_in(tmp_path, kind)
    environment = {**os.environ, **iceberg_settings(tmp_path), "PYTHONPATH": str(ROOT)}
    module = "tests.pipelines.stream.test_step_tables"
    ends = []
    for when, step in (*kills, ("never", 0)):
        code = f"from {module} import die; die({str(tmp_path)!r}, {table!r}, {when!r}, {step})"
        done = subprocess.run([sys.executable, "-c", code], env=environment, timeout=300)
        ends.append(done.returncode)
    assert ends == [*[-9] * len(kills), 0]
    config = stream_config(tmp_path, horizon=5, output_table=table, **STREAMS["log"])
    assert in_order(all_rows(table)) == in_files(config)
    assert n_commits(table) == 5


def test_a_table_that_does_not_answer_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = [InputSchemaError("the table is away")] * 2
    append = delta.append

    def sometimes(*given: Any) -> bool:
        if away:
            raise away.pop()
        return append(*given)

    monkeypatch.setattr(delta, "append", sometimes)
    monkeypatch.setattr("tracecloak.transforms.stream.local_stream._AGAIN_SECONDS", 0.01)
    config = stream_config(tmp_path, output_table=table_in(tmp_path, "delta"))
    assert run_script(config, script()).is_spent and not away
    assert in_order(all_rows(config.output_table or "")) == in_files(config)


def test_another_key_is_another_epoch_and_other_columns_end_the_stream(tmp_path: Path) -> None:
    table = table_in(tmp_path, "delta")
    config = stream_config(tmp_path, output_table=table)
    run_script(config, script())
    (tmp_path / "again").mkdir()
    other = stream_config(tmp_path / "again", output_table=table)
    run_script(other, script())
    assert in_order(all_rows(table)) == sorted(in_files(config) + in_files(other))
    assert n_commits(table) == 12
    (tmp_path / "log").mkdir()
    with pytest.raises(UsageError, match="other columns"):
        run_script(
            stream_config(tmp_path / "log", horizon=5, output_table=table, **STREAMS["log"]),
            script(),
        )
