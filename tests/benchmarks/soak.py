"""The stream under a steady rate for a long time: its memory must not grow.

`make soak` runs it, for SOAK_SECONDS (3,600). The hospital of the demo sends SOAK_CASES_PER_SECOND
(10, of 13 messages each, half of them Avro) to a double of Pub/Sub. `tracecloak stream` publishes,
and its resident memory is measured about every second. A warm-up of a fifth of the time is left
out, at most five minutes. Of the rest the median of the last fifth may be above that of the first
by MARGIN, which is what the allocator's own noise was measured to be. Only Linux tells the memory
of another process.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.hospital_feed import HospitalFeed
from tests.benchmarks.stream_demo import Demo, Summary, run

# Totals keep the counts of all steps, 12 KiB a step with the demo's vocabulary: with steps of ten
# seconds that is four MiB in an hour, within the margin.
PERIOD_SECONDS = 10
MARGIN = (24 << 20, 0.05)  # bytes, and share of what it was

_SAID_EVERY_SECONDS = 60.0


def after_warm_up(rss_bytes: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """Returns the measurements after the warm-up."""
    end = rss_bytes[-1][0] if rss_bytes else 0.0
    after = [one for one in rss_bytes if one[0] >= min(300.0, end / 5)]
    if len(after) < 15:
        raise SystemExit("too few measurements of memory; run it for longer")
    return after


def main() -> int:
    """Runs the soak; returns 0 if the memory stayed."""
    seconds = float(os.environ.get("SOAK_SECONDS", "3600"))
    rate = float(os.environ.get("SOAK_CASES_PER_SECOND", "10"))
    said = [0.0]

    def look(summary: Summary) -> None:
        if not summary.rss_bytes or summary.rss_bytes[-1][0] < said[0]:
            return
        at, size = summary.rss_bytes[-1]
        said[0] += _SAID_EVERY_SECONDS
        sent = sum(summary.sent.counts.values())
        print(f"{at:7.0f} s  {size >> 20:5d} MiB  {sent:8d} messages  {len(summary.steps)} steps")
        sys.stdout.flush()

    demo = Demo(Path("build/soak"), seconds, HospitalFeed(rate), PERIOD_SECONDS)
    summary = run(demo, print, look)
    print(summary.text())
    print(f"rate        {sum(summary.sent.counts.values()) / seconds:.0f} messages a second")
    after = after_warm_up(summary.rss_bytes)
    sizes = [size for _, size in after]
    first, last = (
        statistics.median(of) for of in (sizes[: len(sizes) // 5], sizes[-len(sizes) // 5 :])
    )
    slope = statistics.linear_regression(*zip(*after, strict=True)).slope * 3_600
    print(
        f"memory      {first / 2**20:.1f} MiB after the warm-up, {last / 2**20:.1f} MiB at the "
        f"end, {slope / 2**20:+.1f} MiB an hour"
    )
    if last > first * (1 + MARGIN[1]) + MARGIN[0]:
        print(f"memory      grew by more than {MARGIN[0] >> 20} MiB and {MARGIN[1]:.0%}")
        return 1
    return 0 if summary.exit_code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
