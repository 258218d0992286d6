"""The synthetic logs that works read, each written once in a run by a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# Events of the log by its number of cases, which a file of XES does not tell.
N_EVENTS = {1_000: 12_208, 25_000: 302_662, 50_000: 606_375, 250_000: 3_034_104}


def sample(folder: Path, n_cases: int, ending: str = "parquet") -> Path:
    """Writes the synthetic hospital log of so many cases, case after case; returns its file."""
    path = folder / f"hospital-{n_cases}.{ending}"
    _run("-m", "tracecloak", "sample", "--cases", str(n_cases), "--output", str(path))
    return path


def vocabulary(folder: Path) -> Path:
    """Writes the activities that the log can have, a line each; returns the file."""
    path = folder / "activities.txt"
    code = "import sys; from tracecloak.examination.demo.hospital_file import write_vocabulary as w"
    _run("-c", f"{code}; w(sys.argv[1])", str(path))
    return path


def in_order_of_time(log: Path) -> Path:
    """Writes the events of a Parquet file in the order of their times; returns the file."""
    path = log.with_name(f"{log.stem}-by-time.parquet")
    code = (
        "import sys, pyarrow.parquet as pq; "
        "log = pq.read_table(sys.argv[1]); "
        "log = log.add_column(0, 'n', [range(len(log))]); "
        "log = log.sort_by([('timestamp', 'ascending'), ('n', 'ascending')]).drop_columns('n'); "
        "pq.write_table(log, sys.argv[2], row_group_size=1 << 17)"
    )
    _run("-c", code, str(log), str(path))
    return path


def _run(*arguments: str) -> None:
    """Runs Python in another process, so that this one stays small: its children begin with it."""
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
