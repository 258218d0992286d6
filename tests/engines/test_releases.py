"""Every method's release on Flink and on Prism has the bytes of the in-memory driver."""

from __future__ import annotations

import functools
import json
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
import yaml

from tests.engines.fetching import or_skip
from tests.engines.flink import flink_job_server, prism, whole_cluster
from tests.golden.releases import example_config, log_file
from tests.pipelines.windows.test_releases_of_windows import ROWS, Lake
from tests.support.releasing import digests, fix_key, manifest, tracecloak
from tracecloak.anonymizers.registry import METHODS, method_named
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger.case_registry import Claimed, units_of
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger
from tracecloak.transforms.batch import read
from tracecloak.transforms.sources import EventSource

pytestmark = [
    pytest.mark.engines,
    pytest.mark.timeout(600),
    # Beam's workers are threads of this process, and one ends so when the engine hangs up.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]

N_METHODS_EXPECTED = 20  # a table that were empty would pass all


def methods() -> list[str]:
    """The names of all methods."""
    names = list(METHODS)
    assert len(names) >= N_METHODS_EXPECTED, names
    return names


def configuration(folder: Path, method: str) -> Path:
    """Writes the configuration of the first example of a method, with its log, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    example = method_named(method).examples[0]
    path = folder / "release.yaml"
    body = example_config(folder, method, example, log_file(folder))
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    return path


def found_in(folder: Path) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """What is compared of a release: digests of its files, and what its manifest says of them."""
    released = folder / "out" / "run_id=golden"
    return digests(released), manifest(released)["outputs"]


@functools.cache
def in_memory(method: str) -> tuple[int, Any]:
    """(exit code, what is compared) of the release in memory, made once a session."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        code = tracecloak("release", configuration(folder, method))
        return code, found_in(folder) if code == 0 else None


def on_engine(folder: Path, method: str, ledger: str, flags: Sequence[str]) -> tuple[int, Any]:
    """The same on an engine, with a ledger that workers elsewhere may share."""
    code = tracecloak(
        "release", configuration(folder, method), "--ledger", ledger, "--shards", 3, *flags
    )
    return code, found_in(folder) if code == 0 else None


ENGINES = ("flink", "flink on two tasks", "flink cluster", "prism")


@contextmanager
def flags_of(engine: str, folder: Path) -> Iterator[list[str]]:
    """Runs an engine for the block; yields Beam's flags."""
    with ExitStack() as stack:
        if engine == "prism":
            yield stack.enter_context(or_skip(prism(folder)))
        elif engine == "flink cluster":
            _, pool, server = stack.enter_context(or_skip(whole_cluster(folder)))
            yield server.flags(2, pool)
        else:
            server = stack.enter_context(or_skip(flink_job_server(folder)))
            yield server.flags(2 if engine.endswith("two tasks") else 1)


@pytest.fixture(scope="module", params=ENGINES)
def flags(request: pytest.FixtureRequest, place: Path) -> Iterator[list[str]]:
    with flags_of(request.param, place / request.param.replace(" ", "-")) as found:
        yield found


@pytest.mark.parametrize("method", methods(), ids=lambda name: f"{name}-first")
def test_a_release_has_the_bytes_of_the_in_memory_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger: str, flags: list[str], method: str
) -> None:
    fix_key(monkeypatch)
    expected = in_memory(method)
    assert on_engine(tmp_path, method, ledger, flags) == expected
    assert expected[0] == 0


# A case of January, where it counts; a late event, once January is released, moves it to February.
CASE = ("f", "A", "2026-01-25T08:00Z")
LATE = ("f", "B", "2026-01-29T08:00Z")
# So much that a single case is seen in the graph, and one more or less in its bytes.
METHOD = {"method": "private-dfg", "params": {"epsilon": "60", "vocabulary": ["A", "B", "C"]}}


@pytest.fixture(scope="module", params=("flink", "prism"))
def local(request: pytest.FixtureRequest, place: Path) -> Iterator[list[str]]:
    with flags_of(request.param, place / f"local-{request.param}") as found:
        yield found


def test_two_windows_have_the_bytes_of_the_in_memory_driver_and_are_paid_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger: str, local: list[str]
) -> None:
    fix_key(monkeypatch)
    key = tmp_path / "book.key"
    key.write_text("b0" * 32)
    released = {}
    for name, more in (("memory", []), ("engine", [*local, "--ledger", ledger])):
        lake = Lake(tmp_path / name, runner=None if more else "InMemory")
        lake.body = {k: v for k, v in lake.body.items() if v is not None}
        lake.configure(shards=3, book_key=f"file:{key}", **METHOD)
        lake.write(1, [*ROWS[1], CASE])
        assert lake.release("2026-01", *more) == 0
        lake.write(1, [*ROWS[1], CASE, LATE])
        assert lake.release("2026-02", *more) == 0
        released[name] = [digests(lake.released(window)) for window in ("2026-01", "2026-02")]
        paid = Ledger(ledger if more else KeyStore(lake.folder / "keys").ledger_url)
        claims = [one for one in units_of(paid, paid.entries()) if isinstance(one, Claimed)]
        left_out = {claim.label: claim.n_left_out for claim in claims}
        assert left_out == {"2026-01": 0, "2026-02": 1}
    assert released["engine"] == released["memory"]
    for window in ("2026-01", "2026-02"):
        assert json.loads((lake.released(window) / "dfg.json").read_text())["edges"]
    account = Ledger(ledger).balance("default")
    assert (str(account.spent_epsilon), account.n_releases, account.n_open) == ("60", 2, 0)
    actions = [entry.action for entry in Ledger(ledger).entries()]
    assert actions == ["reserve", "claim", "draw", "commit"] * 2


N_TASKS = 2
_WAITS_SECONDS = 20


@pytest.fixture(scope="module")
def two_tasks(place: Path) -> Iterator[list[str]]:
    with flags_of("flink on two tasks", place / "pieces") as found:
        yield found


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
    two_tasks: list[str],
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
            assert tracecloak("release", path, "--ledger", ledger, "--shards", 3, *two_tasks) == 0
        else:
            assert tracecloak("release", path) == 0
        released[name] = found_in(path.parent)
    assert released["flink"] == released["memory"]
    assert readers.most_at_once == (N_TASKS if is_divided else 1)
    assert readers.n_read > 2 if is_divided else readers.n_read == 1
