"""Two tasks of Flink read one file at once, and the release is that of the in-memory driver."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
import yaml

from tests.engines.comparing import configuration, found_in
from tests.engines.flink import flink_job_server
from tests.engines.skipping import or_skip
from tests.support.releasing import fix_key, tracecloak
from tracecloak.transforms.batch import read
from tracecloak.transforms.sources import EventSource

pytestmark = [
    pytest.mark.engines,
    pytest.mark.timeout(600),
    # Beam's workers are threads of this process, and one ends so when the engine hangs up.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]

N_TASKS = 2
_WAITS_SECONDS = 20


@pytest.fixture(scope="module")
def flags(place: Path) -> Iterator[list[str]]:
    with or_skip(flink_job_server(place)) as server:
        yield server.flags(N_TASKS)


class Readers:
    """Who reads a file or a piece of one at the same time; a piece waits for a second one."""

    def __init__(self) -> None:
        self.n_read = 0
        self.most_at_once = 0
        self._n_now = 0
        self._changed = threading.Condition()

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Watches workers that are threads of this process, each of which a task has its own."""
        plain = EventSource.read

        def watched(source: EventSource, file: Any, *more: Any) -> Iterator[Any]:
            with self._changed:
                self.n_read += 1
                self._n_now += 1
                self.most_at_once = max(self.most_at_once, self._n_now)
                self._changed.notify_all()
                if file.piece is not None:
                    self._changed.wait_for(lambda: self.most_at_once >= N_TASKS, _WAITS_SECONDS)
            yield from plain(source, file, *more)
            with self._changed:
                self._n_now -= 1

        monkeypatch.setattr(EventSource, "read", watched)


@pytest.mark.parametrize("is_divided", [True, False])
def test_two_tasks_read_a_file_at_once_if_it_is_divided(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ledger: str,
    flags: list[str],
    is_divided: bool,
) -> None:
    fix_key(monkeypatch)
    released = {}
    readers = Readers()
    for name in ("memory", "flink"):
        path = configuration(tmp_path / name, "amun")
        body = yaml.safe_load(path.read_text(encoding="utf-8"))
        log = path.with_name("log.parquet")
        pq.write_table(arrow_csv.read_csv(body["log"]), log, row_group_size=100)
        path.write_text(yaml.safe_dump({**body, "log": str(log)}), encoding="utf-8")
        if name == "flink":
            readers.watch(monkeypatch)
            monkeypatch.setattr(read, "PIECE_BYTES", 5_000 if is_divided else log.stat().st_size)
            assert tracecloak("release", path, "--ledger", ledger, "--shards", 3, *flags) == 0
        else:
            assert tracecloak("release", path) == 0
        released[name] = found_in(path.parent)
    assert released["flink"] == released["memory"]
    assert readers.most_at_once == (N_TASKS if is_divided else 1)
    assert readers.n_read > 2 if is_divided else readers.n_read == 1
