"""An Amun sampling release of 250,000 synthetic cases, against the bare counting kernels."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.benchmarks.harness import in_turn, ratio, run, sample


def main() -> None:
    """Prints the measurements and their ratios."""
    with tempfile.TemporaryDirectory() as folder:
        log = sample(Path(folder), 250_000)
        found = in_turn(("bare kernels", "release"), log, rounds=3)
        for measured in found.values():
            print(measured)
        release = found["release"].seconds
        ratio("release / bare counting kernels", release / found["bare kernels"].seconds, 10)
        tenth = run("release", sample(Path(folder), 25_000))
        print(tenth)
        ratio("10 x the cases, release", release / tenth.seconds, 11)


if __name__ == "__main__":
    main()
