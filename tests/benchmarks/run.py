"""Runs benchmarks one after the other, and writes what they measured into a record.

`python -m tests.benchmarks.run` runs all. Each ratio is the median of five rounds in which its two
sides ran in turn, and is printed beside the one that docs/results/speed.json has of the last
version. A ratio that is worse by more than 30 % makes the run fail. What a busy machine measures is
no record.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from tests.benchmarks.harness import RATIOS, RECORD, WORKS, read_ratios, write_record

# Modules, loaded when their turn comes: what this process has in memory, its children begin with.
BENCHMARKS = (
    "counting", "indicators", "local_stream", "peers", "reading", "samplers", "startup",
    "streaming", "whole", "windows",
)  # fmt: skip


def main() -> int:
    """Runs those that are named, or all; returns 1 if a ratio is worse than the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="the record that is written")
    flags = parser.parse_args()
    if unknown := set(flags.names) - set(BENCHMARKS):
        parser.error(f"NAME must be of {', '.join(BENCHMARKS)}, got {', '.join(sorted(unknown))}")
    last = read_ratios(RECORD)  # before this run writes it
    worse: list[str] = []
    for name in flags.names or BENCHMARKS:
        print(f"--- {name}", flush=True)
        RATIOS.clear()
        WORKS.clear()
        importlib.import_module(f"tests.benchmarks.{name}").main()
        worse += [text for text, one in RATIOS.items() if one.is_worse(last.get(text))]
        if flags.json:
            write_record(flags.json, name, RATIOS, WORKS)  # at once, as the next one may fail
    for text in worse:
        print(f"worse than recorded: {text}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
