"""Counting 250,000 cases: by bare kernels, on Beam in columns, and on Beam event by event."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.benchmarks.harness import in_turn, ratio
from tests.benchmarks.logs import sample
from tests.benchmarks.whole import N_CASES, counted


def main() -> None:
    """Prints the measurements and their ratios."""
    with tempfile.TemporaryDirectory() as name:
        log = sample(Path(name), N_CASES)
        runs = in_turn([counted(way, log, N_CASES) for way in ("bare kernels", "columnar Beam")])
        bare, columnar = runs["bare kernels"], runs["columnar Beam"]
        # Event by event takes a minute, and hardly varies.
        slow = in_turn([counted("per-event Beam", log, N_CASES)], rounds=1)["per-event Beam"]
        for other in (columnar, slow):
            if other.counts != bare.counts:
                raise SystemExit(f"{other.work.name} counted something else than the bare kernels")
        ratio("columnar Beam / bare kernels", columnar.over(bare), 2)
        ratio("per-event Beam / columnar Beam", slow.seconds / columnar.seconds, 5, at_most=False)


if __name__ == "__main__":
    main()
