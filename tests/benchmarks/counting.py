"""Counting 250,000 and 2,500,000 synthetic cases: bare kernels, columnar Beam, per-event Beam."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.benchmarks.harness import in_turn, ratio, run, sample


def main() -> None:
    """Prints the measurements and their ratios."""
    with tempfile.TemporaryDirectory() as folder:
        log = sample(Path(folder), 250_000)
        fast = in_turn(("bare kernels", "columnar Beam"), log, rounds=3)
        slow = run("per-event Beam", log)
        bare, columnar = fast["bare kernels"], fast["columnar Beam"]
        for measured in (bare, columnar, slow):
            print(measured)
            if measured.counts != bare.counts:
                raise SystemExit(f"{measured.name} counted something else than the bare kernels")
        print({name: bare.counts[name] for name in ("cases", "variants", "transitions")})
        ratio("columnar Beam / bare kernels", columnar.seconds / bare.seconds, 3)
        ratio("per-event Beam / columnar Beam", slow.seconds / columnar.seconds, 5, at_most=False)

        large = sample(Path(folder), 2_500_000)
        ten = run("columnar Beam", large, shards=64)
        print(ten)
        ratio("10 x the cases, columnar Beam", ten.seconds / columnar.seconds, 11)
        ratio("peak memory of counting 30 million events, GB", ten.peak_mb / 1024, 6)


if __name__ == "__main__":
    main()
