"""A run in memory keeps within its memory; what does not fit goes to the disk and comes back."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.cramped import cramped
from tests.support.logs import event_batch, event_logs, read_cases, trace_batch
from tests.support.releasing import digests, hospital_files, placed, tracecloak
from tracecloak.pipelines.runners import resources
from tracecloak.pipelines.runners.in_memory import EventsByShard
from tracecloak.pipelines.runners.resources import HeldTraces, Hold, Limits
from tracecloak.schemas.errors import TracecloakError
from tracecloak.schemas.events.traces import TraceBatch

ROOT = Path(__file__).parents[3]

# --- What is held ---------------------------------------------------------------------------------


@settings(deadline=None)
@given(event_logs(), st.integers(1, 3), st.integers(0, 3000), st.integers(1, 4000))
def test_cases_are_the_same_however_little_fits(
    log: list[tuple[str, str, int]], n_workers: int, held_bytes: int, step_bytes: int
) -> None:
    """Catches an event that is lost, counted twice or out of order on its way over the disk."""
    whole = event_batch(log)
    batches = [whole.slice(first, 7) for first in range(0, len(log), 7)]
    with cramped(held_bytes, step_bytes), Hold(Limits.of(0, n_workers, 0), None) as hold:
        events = EventsByShard(hold, 2)
        list(hold.each(events.add, batches[::-1]))
        cases = events.grouped()
        assert cases.n_events == len(log)
        twice = [read_all(cases), read_all(cases)]
        taken = read_all(cases.taken())
        assert read_all(cases) == {}
    expected = read_cases(TraceBatch.from_events([whole]))
    assert twice == [expected, expected] and taken == expected


def held(n_bytes: int, folder: str | None = None, n_workers: int = 1) -> Hold:
    return Hold(Limits(n_workers, n_bytes, 1, 1), folder)


def read_all(batches: Any) -> dict[str, list[tuple[str, int]]]:
    read = [read_cases(batch) for batch in batches]
    assert sum(map(len, read)) == len({case for cases in read for case in cases})
    return {case: steps for cases in read for case, steps in cases.items()}


def test_batches_come_out_with_one_vocabulary_and_what_is_computed_is_not_kept() -> None:
    with held(10_000) as hold:
        cases = HeldTraces(hold)
        cases.add(trace_batch({"a": "A B"}), 1000)
        cases.add(trace_batch({"b": "C"}), 1000)
        first, second = cases
        assert first.vocabulary == second.vocabulary and len(first.vocabulary) == 3
        assert (read_cases(first), read_cases(second)) == (
            read_cases(trace_batch({"a": "A B"})),
            read_cases(trace_batch({"b": "C"})),
        )
        assert first.durations is not None
        assert "durations" not in vars(next(iter(cases)))


def test_what_is_dropped_or_taken_makes_room() -> None:
    traces = trace_batch({"a": "A B"})
    with held(traces.nbytes) as hold:
        for _ in range(3):
            hold.take(hold.put(traces))
            hold.drop(hold.put(traces))
        kept = hold.put(traces)
        assert hold._file is None
        spilled = hold.put(traces)
        assert hold._file is not None
        for block in (kept, spilled):
            assert read_cases(hold.look(block)) == read_cases(traces)


def test_the_file_has_no_name_and_is_for_nobody_else(tmp_path: Path) -> None:
    with held(0, str(tmp_path)) as hold:
        block = hold.put(event_batch({"secret": "A"}))
        assert list(tmp_path.iterdir()) == []  # also after a kill, therefore
        assert hold._file is not None
        assert stat.S_IMODE(os.fstat(hold._file.fileno()).st_mode) == 0o600
        assert hold.look(block).equals(event_batch({"secret": "A"}))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    full = lambda dir, buffering: open("/dev/full", "w+b", buffering)  # noqa: E731
    monkeypatch.setattr(resources.tempfile, "TemporaryFile", full)
    with (
        held(0, "/some/place") as hold,
        pytest.raises(TracecloakError, match="/some/place, whose disk is full") as told,
    ):
        hold.put(event_batch({"secret": "A"}))
    for word in ("set memory", "nothing was released"):
        assert word in str(told.value)
    assert "secret" not in str(told.value)
    cause = told.value.__cause__
    assert isinstance(cause, OSError) and cause.errno == errno.ENOSPC


# --- Workers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 5])
def test_results_come_in_order_and_few_wait(n: int) -> None:
    taken: list[int] = []
    done: list[int] = []

    def items() -> Iterator[int]:
        for i in range(20):
            taken.append(i)
            yield i

    with held(0, n_workers=n) as workers:
        for square in workers.each(lambda i: i * i, items()):
            done.append(square)
            assert len(taken) <= len(done) + n
    assert done == [i * i for i in range(20)]


def test_an_error_of_a_worker_ends_the_others() -> None:
    begun: list[int] = []
    gate = threading.Event()

    def work(i: int) -> None:
        begun.append(i)
        if i == 0:
            raise ValueError("broken")
        gate.wait(10)

    with held(0, n_workers=2) as workers:
        with pytest.raises(ValueError, match="broken"):
            list(workers.each(work, range(50)))
        gate.set()
    assert len(begun) <= 4


# --- The rule of the limits -----------------------------------------------------------------------


@pytest.mark.parametrize("memory_bytes", [256 << 20, 1 << 30, 64 << 30])
@pytest.mark.parametrize("n_workers", [1, 2, 64])
def test_all_shares_together_are_within_the_limit(memory_bytes: int, n_workers: int) -> None:
    limit = Limits.of(memory_bytes, n_workers, 0)
    assert limit.held_bytes + n_workers * limit.step_bytes < memory_bytes
    assert limit.step_bytes > 0 and limit.batch_bytes > 0


def test_the_limit_of_a_control_group_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = {
        "0::/a/b\n": ("a/memory.max", "a/b/memory.max"),
        "5:cpu:/x\n4:memory:/a/b\n": (
            "memory/a/memory.limit_in_bytes",
            "memory/memory.limit_in_bytes",
        ),
    }
    for number, (text, (limited, unlimited)) in enumerate(groups.items()):
        root = tmp_path / str(number)
        for name, value in ((limited, "1048576\n"), (unlimited, "max\n")):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(value)
        (root / "cgroup").write_text(text)
        monkeypatch.setattr(resources, "_OF_PROCESS", root / "cgroup")
        monkeypatch.setattr(resources, "_GROUPS", root)
        assert resources.available_bytes() == 1 << 20
    monkeypatch.setattr(resources, "_OF_PROCESS", tmp_path / "nothing")
    assert resources.available_bytes() > 1 << 20


# --- The command ----------------------------------------------------------------------------------


def test_a_runner_of_beam_takes_neither(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [log] = hospital_files(tmp_path, 5)[:1]
    given = ("--method", "amun", "--runner", "FnApiRunner", "--workers", 2)
    assert tracecloak(*placed(tmp_path, log, *given)) == 2
    assert "memory and workers are for runner InMemory" in capsys.readouterr().err


_LIMITED = """
import resource, sys
from tests.support.keys import release_key
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.pipelines.commands import main as cli
ReleaseKey.generate = classmethod(lambda cls: cls(b"k" * 32))
bytes = int(sys.argv[1])
if bytes:
    resource.setrlimit(resource.RLIMIT_DATA, (bytes, bytes))
code = cli.main(sys.argv[2:])
# The peak that getrusage tells is at least that of the process which began this one, here pytest.
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(*(status[name].split()[0] for name in ("VmHWM", "VmData")))
raise SystemExit(code)
"""


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="only Linux tells it")
def test_a_quarter_of_the_memory_makes_the_same_release(tmp_path: Path) -> None:
    """The limit holds: with more than it takes, the process would be refused memory and fail."""
    names = tmp_path / "activities.txt"

    def run(n_cases: int, data_bytes: int, *more: object) -> tuple[dict[str, str], int, int]:
        log, place = tmp_path / f"{n_cases}.parquet", tmp_path / f"{n_cases}-{data_bytes}"
        if not log.exists():
            code = tracecloak("sample", "--cases", n_cases, "--output", log, "--vocabulary", names)
            assert not code
        ended = subprocess.run(
            [
                sys.executable, "-c", _LIMITED, str(data_bytes), "release", "--log", log,
                "--method", "private-dfg", "--epsilon", "1", "--vocabulary", names,
                "--max_trace_length", "40", "--release_id", "r", "--output", place,
                "--key_store", place / "keys", "--new_ledger", *map(str, more),
            ],
            capture_output=True, text=True, check=False, cwd=ROOT,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr[-2000:]
        peak_kib, reserved_kib = map(int, ended.stdout.split()[-2:])
        return digests(place / "run_id=r"), peak_kib << 10, reserved_kib << 10

    _, program_bytes, reserved_bytes = run(10, 0)
    expected, needed_bytes, _ = run(800_000, 0)
    quarter = (needed_bytes - program_bytes) // 4
    # Arrow reserves a GiB of addresses that it does not use, and each thread has a stack, all of
    # which count for the system's limit.
    reserved_bytes += 64 << 20
    asked = ("--memory", program_bytes + quarter)
    found, peak_bytes, _ = run(800_000, reserved_bytes + quarter, *asked)
    assert found == expected
    assert peak_bytes < 1.1 * (program_bytes + quarter)
