"""The stream under a steady rate for a long time: its memory must not grow.

`make soak` runs it, for SOAK_SECONDS (1,800). The hospital of the demo sends to a Pub/Sub server on
this machine, `tracecloak stream` publishes, and its resident memory is measured about every second.
A warm-up of a fifth of the time is left out, at most five minutes and until the closed cases that
the stream remembers are as many as they will be. Of the rest the median of the last fifth may be
above that of the first by MARGIN, which is what the allocator's own noise was measured to be. Only
Linux tells the memory of another process.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from tracecloak.examination.demo.hospital_feed import HospitalFeed
from tracecloak.examination.demo.stream_demo import Demo, Summary, run

CASES_PER_SECOND = 10.0
# Totals keep the counts of all steps, 12 KiB a step with the demo's vocabulary: with steps of ten
# seconds that is two MiB in half an hour, within the margin.
PERIOD_SECONDS = 10
MARGIN = (24 << 20, 0.05)  # bytes, and share of what it was

_SAID_EVERY_SECONDS = 60.0


def growth(rss_bytes: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Returns (median of the first fifth, median of the last fifth) after the warm-up.

    Raises:
        ValueError: There are too few measurements.
    """
    end = rss_bytes[-1][0] if rss_bytes else 0.0
    warm = min(300.0, end / 5)
    after = [size for at, size in rss_bytes if at >= warm]
    fifth = len(after) // 5
    if fifth < 3:
        raise ValueError("too few measurements of memory; run it for longer")
    return statistics.median(after[:fifth]), statistics.median(after[-fifth:])


def allowed(first: float) -> float:
    """Returns how much memory there may be at the end."""
    return first * (1 + MARGIN[1]) + MARGIN[0]


def main() -> int:
    """Runs the soak; returns 0 if the memory stayed."""
    seconds = float(os.environ.get("SOAK_SECONDS", "1800"))
    said = [0.0]

    def look(summary: Summary) -> None:
        if not summary.rss_bytes or summary.rss_bytes[-1][0] < said[0]:
            return
        at, size = summary.rss_bytes[-1]
        said[0] += _SAID_EVERY_SECONDS
        sent = sum(summary.sent.counts.values())
        print(f"{at:7.0f} s  {size >> 20:5d} MiB  {sent:8d} messages  {len(summary.steps)} steps")
        sys.stdout.flush()

    demo = Demo(Path("build/soak"), seconds, HospitalFeed(CASES_PER_SECOND), PERIOD_SECONDS)
    summary = run(demo, print, look)
    print(summary.text())
    first, last = growth(summary.rss_bytes)
    print(
        f"memory      {first / 2**20:.1f} MiB after the warm-up, {last / 2**20:.1f} MiB at the end"
    )
    if last > allowed(first):
        print(f"memory      grew by more than {MARGIN[0] >> 20} MiB and {MARGIN[1]:.0%}")
        return 1
    return 0 if summary.exit_code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
