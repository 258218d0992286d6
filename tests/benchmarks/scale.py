"""Releases of 3, 10, 30 and 100 million events by the driver in memory: time and peak memory.

`python -m tests.benchmarks.scale [MILLIONS,…] [METHOD,…]` makes the logs under `build/scale`, each
of several files of Parquet, prints a line for every release, and ends with 1 if one is above its
bounds: all memory together, and the time of an event beside that in the log before. The larger logs
repeat the cases of a made-up one of 250,000 under other ids, so what is counted of variants does
not grow with them; how that grows is a question of the log.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tracecloak.examination.demo.hospital_file import write_sample, write_vocabulary

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "build" / "scale"
MILLIONS = (3, 10, 30, 100)
N_CASES = 250_000
_MIB = 1 << 20

# All of a run's memory; and by how much an event of a log may take longer than in the log before.
MAX_BYTES = 12 << 30
MAX_GROWTH = 1.3
# Memory beside what a run takes of any log, for which this many events are too few.
MAX_EVENT_BYTES, FEW_EVENTS = 120, 25_000_000

_CASES = ("--vocabulary", "VOCABULARY", "--max_trace_length", "40")
METHODS: dict[str, tuple[str, ...]] = {
    "private-dfg": ("--epsilon", "1", *_CASES),
    "variant-histogram": ("--epsilon", "1", *_CASES),
    "private-log": ("--epsilon", "1", *_CASES, "--formats", "parquet"),
    "private-indicators": (
        "--epsilon", "1", *_CASES, "--indicators",
        "cases,throughput of=mean at_most=30d,throughput of=median at_most=30d,within limit=7d",
    ),
    "amun": ("--guessing_advantage", "0.2", "--formats", "parquet"),
}  # fmt: skip


@dataclass(frozen=True)
class Took:
    """What a release took.

    Attributes:
        n_events: Of its log.
        seconds: By the clock.
        cpu_seconds: Of all threads.
        peak_bytes: The most memory at once.
    """

    n_events: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int

    def beyond(self, before: Took | None) -> list[str]:
        """Returns which bounds it is above, beside the same release of the log before."""
        sentences = []
        if self.peak_bytes > MAX_BYTES:
            sentences.append(f"takes more than {MAX_BYTES / _MIB:,.0f} MiB")
        if self.n_events > FEW_EVENTS and self.peak_bytes / self.n_events > MAX_EVENT_BYTES:
            sentences.append(f"takes more than {MAX_EVENT_BYTES} bytes an event")
        if before is not None and self.event_us > MAX_GROWTH * before.event_us:
            sentences.append(f"takes {MAX_GROWTH} times as long an event as the log before")
        return sentences

    @property
    def event_us(self) -> float:
        """Microseconds of processor time an event."""
        return 1e6 * self.cpu_seconds / self.n_events


def log_of(millions: int) -> tuple[Path, int]:
    """Returns a folder of files with about so many million events, made on first use, and how many.

    Each file has the cases of the sample under ids of its own.
    """
    folder = PLACE / f"{millions}-million"
    sample = PLACE / f"{N_CASES}.parquet"
    PLACE.mkdir(parents=True, exist_ok=True)
    if not sample.exists():
        write_sample(N_CASES, str(sample))
    n_events = pq.read_metadata(sample).num_rows
    n_files = max(1, round(millions * 1e6 / n_events))
    if not folder.exists():
        fresh = folder.with_suffix(".part")
        fresh.mkdir(exist_ok=True)
        table = pq.read_table(sample).combine_chunks()
        ids = table["case_id"].combine_chunks().dictionary_encode()
        for number in range(n_files):
            names = pc.binary_join_element_wise(ids.dictionary, f"{number:02d}", "-")
            renamed = pa.DictionaryArray.from_arrays(ids.indices, names).cast(pa.string())
            tile = table.set_column(0, table.schema.field(0), renamed)
            pq.write_table(tile, fresh / f"part-{number:02d}.parquet", compression="zstd")
        fresh.rename(folder)
    return folder, n_files * n_events


def released(method: str, log: Path, n_events: int) -> Took:
    """Makes a release by the command and returns what it took."""
    with tempfile.TemporaryDirectory(dir=PLACE) as folder:
        names = f"{folder}/activities.txt"
        write_vocabulary(names)
        flags = [names if flag == "VOCABULARY" else flag for flag in METHODS[method]]
        began = time.perf_counter()
        process = subprocess.Popen(
            [
                sys.executable, "-m", "tracecloak", "release", "--quiet", "--log", log,
                "--output", f"{folder}/out", "--key_store", f"{folder}/keys", "--new_ledger",
                "--release_id", "scale", "--runner", "InMemory", "--method", method, *flags,
            ]
        )  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{method} of {log} ended with {process.returncode}")
    return Took(n_events, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def main(millions: Sequence[int], methods: Sequence[str]) -> int:
    """Prints a line for each release; returns whether one was above its bounds."""
    code = 0
    for method in methods:
        before: Took | None = None
        for size in millions:
            took = released(method, *log_of(size))
            beyond = took.beyond(before)
            print(
                f"{method:20s} {took.n_events / 1e6:6.1f} million events {took.seconds:8.1f} s "
                f"{took.cpu_seconds:8.1f} s of processors {took.peak_bytes / _MIB:7,.0f} MiB "
                f"{took.peak_bytes / took.n_events:5.0f} bytes an event",
                *(f"NOT KEPT: it {sentence}" for sentence in beyond),
                flush=True,
            )
            code |= bool(beyond)
            before = took
    return code


if __name__ == "__main__":
    asked = [argument.split(",") for argument in sys.argv[1:]]
    raise SystemExit(
        main(
            [int(one) for one in asked[0]] if asked else MILLIONS,
            asked[1] if len(asked) > 1 else tuple(METHODS),
        )
    )
