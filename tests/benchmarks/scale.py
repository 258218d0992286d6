"""Releases of 3, 10, 30 and 100 million events by the driver in memory: time and peak memory.

`python -m tests.benchmarks.scale [MILLIONS,…] [METHOD,…]` makes the logs under `build/scale`, each
of several files of Parquet, prints a line for every release, and ends with 1 if one is above its
bounds: all memory together, and the time of an event beside that in the log before. The larger logs
repeat the cases of a made-up one of 250,000 under other ids, so what is counted of variants does
not grow with them; how that grows is a question of the log. Nor does it grow which of them stand
out of the noise: the epsilon of `variant-histogram` is smaller, as its log is larger.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from tests.benchmarks.harness import ROOT, WORKS, Measured, Runs, run, write_record
from tests.benchmarks.logs import N_EVENTS, sample, tiled, vocabulary
from tests.benchmarks.whole import release

PLACE = ROOT / "build" / "scale"
MILLIONS = (3, 10, 30, 100)
N_CASES = 250_000

# All of a run's memory; and by how much an event of a log may take longer than in the log before.
MAX_MB = 12 << 10
MAX_GROWTH = 1.3
# Memory an event, of logs of more events than these, in which what any log takes is little.
MAX_EVENT_BYTES, FEW_EVENTS = 120, 25_000_000

_CASES = ("--vocabulary", "VOCABULARY", "--max_trace_length", "40")
METHODS: dict[str, tuple[str, ...]] = {
    "private-dfg": ("--epsilon", "1", *_CASES),
    "variant-histogram": ("--epsilon", "EPSILON", *_CASES),
    "private-log": ("--epsilon", "1", *_CASES),
    "private-indicators": (
        "--epsilon", "1", *_CASES, "--indicators",
        "cases,throughput of=mean at_most=30d,throughput of=median at_most=30d,within limit=7d",
    ),
    "amun": ("--guessing_advantage", "0.2"),
}  # fmt: skip


def beyond(took: Measured, n_events: int, event_seconds_before: float | None) -> list[str]:
    """Returns which bounds a release is above, beside the same release of the log before."""
    sentences = []
    if took.peak_mb > MAX_MB:
        sentences.append(f"takes more than {MAX_MB:,} MB")
    if n_events > FEW_EVENTS and took.peak_mb * (1 << 20) / n_events > MAX_EVENT_BYTES:
        sentences.append(f"takes more than {MAX_EVENT_BYTES} bytes an event")
    if event_seconds_before and took.seconds / n_events > MAX_GROWTH * event_seconds_before:
        sentences.append(f"takes {MAX_GROWTH} times as long an event as the log before")
    return sentences


def main() -> int:
    """Prints a line for each release; returns 1 if one was above its bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("millions", nargs="?", default=",".join(map(str, MILLIONS)))
    parser.add_argument("methods", nargs="?", default=",".join(METHODS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="the record that is written")
    flags = parser.parse_args()
    PLACE.mkdir(parents=True, exist_ok=True)
    activities, one_tile = vocabulary(PLACE), sample(PLACE, N_CASES)
    code = 0
    for method in flags.methods.split(","):
        before: float | None = None
        for size in map(int, flags.millions.split(",")):
            n_files = max(1, round(size * 1e6 / N_EVENTS[N_CASES]))
            log = tiled(one_tile, PLACE / f"{size}-million", n_files)
            n_events = n_files * N_EVENTS[N_CASES]
            values = {"VOCABULARY": str(activities), "EPSILON": f"{MILLIONS[0] / size:g}"}
            flags_of_size = (values.get(flag, flag) for flag in METHODS[method])
            name = f"{method} of {size} million events"
            given = "--quiet", *flags_of_size
            work = release(name, method, "InMemory", log, N_CASES, *given)
            work = replace(work, n_events=n_events)
            took = run(work)
            WORKS[work.name] = Runs(work, (took,))
            sentences = beyond(took, n_events, before)
            print(WORKS[work.name], *(f"NOT KEPT: it {one}" for one in sentences), flush=True)
            code |= bool(sentences)
            before = took.seconds / n_events
    if flags.json:
        write_record(flags.json, "scale", {}, WORKS)
    return code


if __name__ == "__main__":
    sys.exit(main())
