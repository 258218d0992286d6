"""Releases of synthetic logs against the bare counting kernels: Amun's, and two with an epsilon."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.benchmarks.harness import in_turn, ratio, run, sample


def main() -> None:
    """Prints the measurements and their ratios."""
    with tempfile.TemporaryDirectory() as folder:
        log = sample(Path(folder), 250_000)
        found = in_turn(("bare kernels", "release", "process-tree"), log, rounds=3)
        for measured in found.values():
            print(measured)
        release = found["release"].seconds
        ratio("release / bare counting kernels", release / found["bare kernels"].seconds, 10)
        mined = found["process-tree"].seconds / found["bare kernels"].seconds
        ratio("process-tree / bare counting kernels", mined, 4)
        tenth = run("release", sample(Path(folder), 25_000))
        print(tenth)
        ratio("10 x the cases, release", release / tenth.seconds, 11)
        million = in_turn(("bare kernels", "private-log"), sample(Path(folder), 1_000_000), 1)
        for measured in million.values():
            print(measured)
        generated = million["private-log"].seconds / million["bare kernels"].seconds
        ratio("private-log of 1,000,000 cases / bare counting kernels", generated, 8)


if __name__ == "__main__":
    main()
