"""The synthetic logs that works read, each made by a process of its own.

The process that measures stays small, as what it has in memory counts as its children's, too.
`python -m tests.benchmarks.logs NAME ARGUMENTS` is such a process.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# Events of the log by its number of cases, which a file of XES does not tell.
N_EVENTS = {1_000: 12_208, 25_000: 302_662, 50_000: 606_375, 250_000: 3_034_104}


def sample(folder: Path, n_cases: int, ending: str = "parquet") -> Path:
    """Writes the synthetic hospital log of so many cases, case after case; returns its file."""
    path = folder / f"hospital-{n_cases}.{ending}"
    _made("sample", str(n_cases), str(path))
    return path


def vocabulary(folder: Path) -> Path:
    """Writes the activities that the log can have, a line each; returns the file."""
    path = folder / "activities.txt"
    _made("vocabulary", str(path))
    return path


def in_order_of_time(log: Path) -> Path:
    """Writes the events of a Parquet file in the order of their times; returns the file."""
    path = log.with_name(f"{log.stem}-by-time.parquet")
    _made("in_order_of_time", str(log), str(path))
    return path


def tiled(log: Path, folder: Path, n_files: int) -> Path:
    """Returns a folder of files with the cases of a log, in each under ids of its own."""
    if not folder.exists():
        fresh = folder.with_suffix(".part")
        fresh.mkdir(exist_ok=True)
        _made("tiled", str(log), str(fresh), str(n_files))
        fresh.rename(folder)
    return folder


def _made(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "tests.benchmarks.logs", *arguments], check=True)


def _make(name: str, *arguments: str) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from tracecloak.examination.demo import hospital

    if name == "sample":
        hospital.write_sample(int(arguments[0]), arguments[1])
    elif name == "vocabulary":
        hospital.write_vocabulary(arguments[0])
    elif name == "in_order_of_time":
        table = pq.read_table(arguments[0])
        table = table.append_column("place", pa.array(range(len(table))))
        table = table.sort_by([("timestamp", "ascending"), ("place", "ascending")])
        pq.write_table(table.drop_columns("place"), arguments[1], row_group_size=1 << 17)
    else:
        table = pq.read_table(arguments[0]).combine_chunks()
        ids = table["case_id"].combine_chunks().dictionary_encode()
        for number in range(int(arguments[2])):
            names = pc.binary_join_element_wise(ids.dictionary, f"{number:02d}", "-")
            renamed = pa.DictionaryArray.from_arrays(ids.indices, names).cast(pa.string())
            tile = table.set_column(0, table.schema.field(0), renamed)
            path = Path(arguments[1]) / f"part-{number:02d}.parquet"
            pq.write_table(tile, path, compression="zstd")


if __name__ == "__main__":
    _make(*sys.argv[1:])
