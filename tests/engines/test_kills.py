"""Kill -9 of each process of a release on a Flink cluster, in several stages of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.engines.fetching import or_skip
from tests.engines.flink import FlinkCluster, JobServer, WorkerPool, whole_cluster
from tests.engines.processes import Process, wait_until
from tests.support.releasing import ROOT, digests, fix_key, placed, tracecloak
from tracecloak.examination.demo.hospital import write_sample
from tracecloak.pipelines.ledger.balance import charges
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger

pytestmark = [pytest.mark.engines, pytest.mark.timeout(900)]

# Enough that each stage takes a while.
N_CASES = 20_000
_LIMIT_SECONDS = 240.0


@dataclass(frozen=True)
class Engines:
    """All processes that a release on a cluster needs."""

    cluster: FlinkCluster
    pool: WorkerPool
    server: JobServer

    def process(self, victim: str) -> Process:
        """The process that a test kills."""
        return {
            "task manager": self.cluster.task_managers[0],
            "worker pool": self.pool.process,
            "job server": self.server.process,
        }[victim]

    def restore(self) -> None:
        """Starts again what was killed, as a supervisor does."""
        for process in (self.cluster.job_manager, self.pool.process, self.server.process):
            if not process.is_alive():
                process.start()
        for task_manager in self.cluster.task_managers:
            if not task_manager.is_alive():
                task_manager.start(wait=False)
        self.cluster.wait()


@pytest.fixture(scope="module")
def engines(place: Path) -> Iterator[Engines]:
    with or_skip(whole_cluster(place)) as parts:
        yield Engines(*parts)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    write_sample(N_CASES, str(path))
    return path


def command(folder: Path, log: Path, *more: object) -> list[str]:
    amun = ("--method", "amun", "--guessing_advantage", 0.3, "--mode", "oversampling")
    return [str(part) for part in placed(folder, log, *amun, "--parts", 2, *more)]


@pytest.fixture(scope="module")
def undisturbed(log: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        fix_key(patch)
        assert tracecloak(*command(folder, log, "--runner", "InMemory")) == 0
    return digests(folder / "out" / "run_id=r")


def decided(folder: Path) -> int:
    """How many rounds of a release were decided so far."""
    return len(list(folder.glob("_incomplete-out/*/decisions/*/*.decision")))


# By the name of a stage, whether a release that is built in a folder has come to it.
STAGES: dict[str, Callable[[Path], bool]] = {
    "begun": lambda folder: any((folder / "keys").rglob("*.gate")),
    "first round decided": lambda folder: decided(folder) >= 1,
    "all rounds decided": lambda folder: decided(folder) >= 4,
    "writing": lambda folder: any(folder.glob("_incomplete-out/*/release-*/log/*")),
}
VICTIMS = ("task manager", "worker pool", "job server", "client")


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("victim", VICTIMS)
def test_a_killed_release_has_the_same_bytes_and_is_paid_once(
    tmp_path: Path,
    ledger: str,
    engines: Engines,
    log: Path,
    undisturbed: dict[str, str],
    victim: str,
    stage: str,
) -> None:
    flags = ["--new_ledger", "--ledger", ledger, *engines.server.flags(2, engines.pool)]
    words = [sys.executable, "-m", "tests.engines.client", *command(tmp_path, log, *flags)]
    client = Process("client", words, tmp_path, lambda: True, {"PYTHONPATH": str(ROOT)})
    try:
        client.start()
        wait_until(lambda: STAGES[stage](tmp_path), _LIMIT_SECONDS, lambda: stage, client)
        killed = client if victim == "client" else engines.process(victim)
        killed.kill_9()
        engines.restore()
        code = client.wait(_LIMIT_SECONDS)
        if code != 0:
            assert victim == "client" or "the pipeline failed" in client.said(), client.tail()
            client.start()
            assert client.wait(_LIMIT_SECONDS) == 0, client.tail()
    finally:
        client.end()
    assert digests(tmp_path / "out" / "run_id=r") == undisturbed
    entries = Ledger(ledger).entries()
    assert len([e for e in entries if e.action == "reserve"]) == 1
    assert [e.action for e in charges(entries).values()] == ["commit"]
