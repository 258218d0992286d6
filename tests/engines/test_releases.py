"""Every method's release on Flink and on Prism has the bytes of the in-memory driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.engines.comparing import in_memory, methods, on_engine
from tests.engines.flink import flink_cluster, flink_job_server, worker_pool
from tests.engines.prism import prism
from tests.engines.skipping import or_skip
from tests.support.releasing import fix_key

pytestmark = [
    pytest.mark.engines,
    pytest.mark.timeout(600),
    # Beam's workers are threads of this process, and one ends so when the engine hangs up.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]

ENGINES = ("flink", "flink on two tasks", "flink cluster", "prism")


@pytest.fixture(scope="module", params=ENGINES)
def flags(request: pytest.FixtureRequest, place: Path) -> Iterator[list[str]]:
    folder = place / request.param.replace(" ", "-")
    with ExitStack() as stack:
        if request.param == "prism":
            yield stack.enter_context(or_skip(prism(folder))).flags()
        elif request.param == "flink cluster":
            cluster = stack.enter_context(or_skip(flink_cluster(folder)))
            pool = stack.enter_context(worker_pool(folder))
            server = stack.enter_context(or_skip(flink_job_server(folder, cluster.address)))
            yield server.flags(2, pool)
        else:
            server = stack.enter_context(or_skip(flink_job_server(folder)))
            yield server.flags(2 if request.param.endswith("two tasks") else 1)


@pytest.mark.parametrize("method", methods(), ids=lambda name: f"{name}-first")
def test_a_release_has_the_bytes_of_the_in_memory_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger: str, flags: list[str], method: str
) -> None:
    fix_key(monkeypatch)
    expected = in_memory(method)
    assert on_engine(tmp_path, method, ledger, flags) == expected
    assert expected[0] == 0
