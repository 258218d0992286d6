"""Runs benchmarks one after the other and writes their ratios: `python -m tests.benchmarks.run`.

Each ratio is printed beside the one in last.json. Ratios of things that were measured in one run
differ little between machines, seconds do not compare; what a busy machine measures is no record.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.benchmarks import (
    counting,
    indicators,
    local_stream,
    release,
    samplers,
    startup,
    streaming,
    windows,
)
from tests.benchmarks.harness import RATIOS, write_ratios

BENCHMARKS = {
    "counting": counting.main,
    "indicators": indicators.main,
    "local_stream": local_stream.main,
    "release": release.main,
    "samplers": samplers.main,
    "startup": startup.main,
    "streaming": streaming.main,
    "windows": windows.main,
}


def main() -> None:
    """Runs those that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the ratios are written")
    flags = parser.parse_args()
    if unknown := set(flags.names) - set(BENCHMARKS):
        parser.error(f"NAME must be of {', '.join(BENCHMARKS)}, got {', '.join(sorted(unknown))}")
    for name in flags.names or BENCHMARKS:
        print(f"--- {name}", flush=True)
        BENCHMARKS[name]()
        if flags.json:
            write_ratios(flags.json, RATIOS)  # at once, as the next one may fail


if __name__ == "__main__":
    main()
