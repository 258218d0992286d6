"""A release on Apache Flink has the bytes of the in-memory driver.

Only what is called `flink` runs on it; `stand-in` is a rehearsal, see `tests.support.flink`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.flink import KIND_PARAMS, flags, job_server
from tests.support.releasing import digests, fix_key, hospital_files, manifest, tracecloak, visible
from tests.support.tiers import at_night
from tracecloak.pipelines.ledger.ledger import Ledger

# Beam's workers are threads of this process, and one ends so when the engine hangs up.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

N_CASES = 300
# Of the 25 activities of the log; the others count as __other__.
NAMES = ("Registration", "Triage", "CRP", "Leucocytes", "Discharge home", "X-ray")


@pytest.fixture(scope="module", params=KIND_PARAMS)
def endpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    with job_server(request.param, tmp_path_factory.mktemp("server")) as address:
        yield address


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "names.txt").write_text("\n".join(NAMES) + "\n")
    return ",".join(str(path) for path in hospital_files(folder, N_CASES))


@pytest.fixture(autouse=True)
def one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """One key for all, and a ledger in a file will do: the workers are of this machine."""
    fix_key(monkeypatch)
    shared = property(lambda _: True, lambda *_: None)
    monkeypatch.setattr(Ledger, "is_shared", shared, raising=False)


def release(folder: Path, inputs: str, *more: object) -> int:
    return tracecloak(
        "release", "--log", inputs, "--output", folder / "out", "--key_store", folder / "keys",
        "--release_id", "r", *more,
    )  # fmt: skip


def flags_of(method: str, inputs: str) -> tuple[object, ...]:
    if method == "amun":
        return (
            "--method", "amun", "--guessing_advantage", 0.3, "--mode", "oversampling",
            "--formats", "parquet,xes,csv", "--time_precision_us", 1_000_000,
        )  # fmt: skip
    return (
        "--method", method, "--epsilon", 2, "--delta", "1e-5", "--max_trace_length", 4,
        "--vocabulary", Path(inputs.split(",")[0]).parent / "names.txt",
    )  # fmt: skip


@pytest.mark.parametrize("method", ["amun", at_night("variant-histogram")])
def test_a_release_on_flink_has_the_bytes_of_the_in_memory_driver(
    tmp_path: Path, inputs: str, endpoint: str, method: str
) -> None:
    """Catches what a release owes to a runner: grouping, order, a type that is lost on the way."""
    of_method = flags_of(method, inputs)
    assert release(tmp_path / "memory", inputs, *of_method, "--runner", "InMemory") == 0
    assert release(tmp_path / "flink", inputs, *of_method, "--shards", 5, *flags(endpoint)) == 0
    expected, found = (tmp_path / name / "out" / "run_id=r" for name in ("memory", "flink"))
    assert digests(found) == digests(expected)
    assert manifest(found)["outputs"] == manifest(expected)["outputs"]
    assert manifest(found)["randomness"]["unsafe_barrier"]
    assert not manifest(expected)["randomness"]["unsafe_barrier"]


@pytest.mark.slow
def test_an_error_on_flink_is_told_as_everywhere_and_nothing_is_released(
    tmp_path: Path, endpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The client has no more of it than a text, the traceback of a worker in another language's."""
    log = tmp_path / "log.csv"
    rows = [f"case-{i},A,{'soon' if i else '2026-01-01T00:00:00Z'}" for i in range(20)]
    log.write_text("\n".join(["case_id,activity,timestamp", *rows]) + "\n")
    ended = []
    for runner in (["--runner=InMemory"], flags(endpoint)):
        folder = tmp_path / f"run{len(ended)}"
        code = release(folder, str(log), *flags_of("amun", ""), *runner)
        told = capsys.readouterr().err
        assert "soon" not in told
        assert visible(folder / "out") == []
        last = re.sub(r"operator/r-\w+", "", told.splitlines()[-1])  # by the output's name
        ended.append((code, last.replace(str(folder), "")))
    assert ended[0] == ended[1]
    assert "max_error_ratio=0.01 of the records are malformed" in ended[0][1]
