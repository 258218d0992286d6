"""Three machines with one ledger, one schedule and one stream, which are killed again and again.

Each has a key store of its own, keys of its own and a clock of its own. They share the ledger, the
key of the counted units, the lake and the output.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest
import sqlalchemy as sa

from tests.pipelines.stream.test_killed import LASTING, hooked, run_once
from tests.pipelines.windows.test_releases_of_windows import Lake
from tests.support.ledgers import begun_at_once, windowed
from tests.support.postgres import database, server
from tests.support.releasing import digests, fix_key, manifest, tracecloak
from tests.support.stream_runs import steps_of, stream_config
from tests.support.tiers import at_night
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger import caps, case_registry
from tracecloak.pipelines.ledger.balance import charges
from tracecloak.pipelines.ledger.database import Database
from tracecloak.pipelines.ledger.entries import Entry
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger
from tracecloak.pipelines.ledger.reading import verify
from tracecloak.pipelines.ledger.snapshot import problems
from tracecloak.schemas.errors import BudgetExhausted, RetryLater
from tracecloak.transforms.publish.release_folder import ReleaseFolder

__all__ = ["database", "server"]  # fixtures

# By how many seconds the clock of each machine is wrong.
CLOCKS_SECONDS = (-40, 0, 90)
# So much of what is hooked passes before somebody dies, at most; a window passes about as much.
MOST_PASSED = 30


def forked(work: Callable[[], int], machine: int, dies_at: int | None) -> int:
    """Starts work in a process that is killed when so much has passed; returns its number."""
    child = os.fork()
    if child:
        return child
    _run(work, machine, dies_at)


def _run(work: Callable[[], int], machine: int, dies_at: int | None) -> NoReturn:
    code = 99
    try:
        left, true_time_ns = [dies_at or 0], time.time_ns
        wrong_ns = CLOCKS_SECONDS[machine] * 10**9

        def passed(_: str) -> None:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        with pytest.MonkeyPatch.context() as patch:
            fix_key(patch, bytes([machine + 1]) * 32)
            patch.setattr(time, "time_ns", lambda: true_time_ns() + wrong_ns)
            hooked(patch, passed, [
                *LASTING, (Database, ("transact",)), (KeyStore, ("write",)),
                (ReleaseFolder, ("commit",)), (case_registry.CaseRegistry, ("claim",)),
            ])  # fmt: skip
            code = work()
    except (RetryLater, BudgetExhausted):
        code = 75
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(children: Sequence[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


class Machines:
    """Three machines that are told the same, and what they have published so far."""

    def __init__(self, url: str, works: Sequence[Callable[[], int]]) -> None:
        self.url, self.works = url, works
        self.seen: dict[str, Any] = {}
        self.n_kills = 0

    def disturb(
        self, n_rounds: int, chance: random.Random, look: Callable[[], Mapping[str, Any]]
    ) -> None:
        """Runs all at once, round after round, kills most, and then lets each come to its end."""
        for _ in range(n_rounds):
            children = [
                forked(work, i, chance.randrange(1, MOST_PASSED) if chance.random() < 0.9 else None)
                for i, work in enumerate(self.works)
            ]
            codes = ended(children)
            assert set(codes) <= {0, 75, -signal.SIGKILL}, codes
            self.n_kills += codes.count(-signal.SIGKILL)
            self._look(look)
        for _ in range(len(self.works)):  # whoever waits for another one's comes later
            codes = [ended([forked(work, i, None)])[0] for i, work in enumerate(self.works)]
            assert set(codes) <= {0, 75}, codes
            self._look(look)
            if set(codes) == {0}:
                break

    def _look(self, look: Callable[[], Mapping[str, Any]]) -> None:
        now = dict(look())
        changed = [name for name, one in self.seen.items() if now.get(name) != one]
        assert not changed, f"published twice: {changed}"
        self.seen = now

    @property
    def entries(self) -> list[Entry]:
        entries = OfficersLedger(self.url).entries()
        assert problems(entries) == []
        return entries


def counting(entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in charges(entries).values() if entry.action != "void"]


def lake_of(folder: Path, url: str) -> tuple[Lake, list[Path]]:
    """A lake, and a configuration of each machine."""
    (folder / "book.key").parent.mkdir(parents=True, exist_ok=True)
    (folder / "book.key").write_text("b0" * 32)
    lake = Lake(
        folder / "shared", ledger=url, book_key=f"file:{folder / 'book.key'}",
    )  # fmt: skip
    configs = []
    for i in range(len(CLOCKS_SECONDS)):
        lake.config = folder / f"machine-{i}.yaml"
        lake.configure(key_store=str(folder / f"keys-{i}"))
        KeyStore(folder / f"keys-{i}").identity()  # bytes that are drawn in a fork repeat
        configs.append(lake.config)
    return lake, configs


def check_windows(folder: Path, url: str, n_rounds: int, seed: int) -> int:
    """Has three machines release all windows; returns how often one was killed."""
    lake, configs = lake_of(folder, url)
    OfficersLedger(url, new=True)

    def work(config: Path) -> Callable[[], int]:
        return lambda: tracecloak("release", config, "--window", "due", "--quiet")

    def published() -> dict[str, Any]:
        return {path.name: digests(path) for path in lake.folder.glob("out/run_id=*")}

    machines = Machines(url, [work(config) for config in configs])
    machines.disturb(n_rounds, random.Random(seed), published)
    entries = machines.entries
    assert verify(OfficersLedger(url))[1]
    last = counting(entries)
    assert [entry.action for entry in last] == ["commit"] * 4, [e.action for e in last]
    assert {entry.release_id for entry in last} == {f"ward-2026-0{i}" for i in range(1, 5)}
    assert OfficersLedger(url).balance("default").spent_epsilon == 3
    of_windows = windowed(entries)
    for entry in last:
        release = lake.folder / "out" / f"run_id={entry.release_id}"
        used = manifest(release)["randomness"]["key_fingerprint"]
        assert used == entry.key_fingerprint, entry.release_id
        assert of_windows[entry.charge].claim is not None
    return machines.n_kills


def sqlite_in(folder: Path) -> str:
    return f"sqlite:///{folder / 'ledger.db'}"


def urls_of(
    kind: str, n: int, folder: Path, request: pytest.FixtureRequest
) -> list[tuple[int, Path, str]]:
    """Ledgers of a kind, each with a seed and a folder of its own."""
    made = []
    for seed in range(n):
        (folder / str(seed)).mkdir()
        on_server = kind == "postgresql"
        url = request.getfixturevalue("server").new_database() if on_server else None
        made.append((seed, folder / str(seed), url or sqlite_in(folder / str(seed))))
    return made


@pytest.mark.parametrize(
    ("kind", "n", "n_rounds", "n_kills"),
    [("sqlite", 1, 1, 1), at_night("sqlite", 8, 6, 41), at_night("postgresql", 6, 6, 31)],
)
def test_three_machines_release_each_window_once(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str, n: int, n_rounds: int, n_kills: int
) -> None:
    found = urls_of(kind, n, tmp_path, request)
    killed = [check_windows(folder, url, n_rounds, seed) for seed, folder, url in found]
    assert sum(killed) >= n_kills


@pytest.mark.slow
def test_machines_that_do_not_ask_the_ledger_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: with a ledger that knows of no other key store, somebody pays twice."""
    monkeypatch.setattr(caps, "check_not_elsewhere", lambda *_: None)
    with pytest.raises(AssertionError):
        for seed in range(3):
            (tmp_path / str(seed)).mkdir()
            check_windows(tmp_path / str(seed), sqlite_in(tmp_path / str(seed)), 6, seed)


@pytest.mark.slow
def test_a_ledger_without_its_key_lets_several_begin_an_epoch(
    tmp_path: Path, database: str
) -> None:
    """The control of PostgreSQL: the database refuses a number that is taken, or nobody does."""
    OfficersLedger(database, new=True)
    assert begun_at_once(database, tmp_path / "right", "ward@1") == 1
    engine = sa.create_engine(database, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM tracecloak_ledger"))
        connection.execute(
            sa.text("ALTER TABLE tracecloak_ledger DROP CONSTRAINT tracecloak_ledger_pkey")
        )
    assert begun_at_once(database, tmp_path / "wrong", "ward@1") > 1


def check_stream(folder: Path, url: str, n_rounds: int, seed: int) -> int:
    """Has three machines run one epoch of a stream; returns how often one was killed."""
    OfficersLedger(url, new=True)
    configs = []
    for i in range(len(CLOCKS_SECONDS)):
        (folder / f"machine-{i}").mkdir()
        configs.append(
            stream_config(
                folder / f"machine-{i}", horizon=5, view="total", ledger=url,
                output=str(folder / "out"),
            )
        )  # fmt: skip
        KeyStore(folder / f"machine-{i}" / "keys").identity()
    assert len({str(config.key_store) for config in configs}) == len(configs)

    def work(number: int) -> Callable[[], int]:
        def run() -> int:
            run_once(configs[number], folder, "topic")
            return 0

        return run

    def published() -> dict[str, Any]:
        with contextlib.suppress(FileNotFoundError):
            return steps_of(configs[0])
        return {}

    machines = Machines(url, [work(i) for i in range(len(configs))])
    machines.disturb(n_rounds, random.Random(seed), published)
    last = counting(machines.entries)
    assert [entry.action for entry in last] == ["commit"], [e.action for e in last]
    assert len(machines.seen) >= 5
    noted = [e for e in machines.entries if e.action == "step"]
    assert len({e.decided for e in noted}) == len(noted)
    assert {e.key_fingerprint for e in noted} == {last[0].key_fingerprint}
    return machines.n_kills


@pytest.mark.parametrize(
    ("kind", "n", "n_rounds", "n_kills"),
    [("sqlite", 1, 2, 1), at_night("sqlite", 5, 12, 41), at_night("postgresql", 4, 12, 31)],
)
def test_three_machines_publish_each_step_of_a_stream_once(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str, n: int, n_rounds: int, n_kills: int
) -> None:
    found = urls_of(kind, n, tmp_path, request)
    killed = [check_stream(folder, url, n_rounds, seed) for seed, folder, url in found]
    assert sum(killed) >= n_kills
