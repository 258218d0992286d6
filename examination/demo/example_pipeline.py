"""An example: anonymising events inside a Beam pipeline of your own.

Takes claims as dicts, as they may come from any source, and writes each step's released times. Run
it with `python -m tracecloak.examination.demo.example_pipeline KEY_FILE OUTPUT_PREFIX`; `tracecloak
key make` makes the key file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa

from tracecloak import AnonymizeEventLog, ColumnMapping, KeyReference

CLAIMS = [
    {"claim": claim, "step": step, "at": f"2026-03-{day:02d}T{hour:02d}:00:00+00:00"}
    for claim, day, steps in (
        ("c-1", 2, ("Register", "Check", "Pay")),
        ("c-2", 3, ("Register", "Check", "Pay")),
        ("c-3", 3, ("Register", "Check", "Reject")),
        ("c-4", 5, ("Register", "Check", "Check", "Pay")),
        ("c-5", 9, ("Register", "Check", "Pay")),
    )
    for hour, step in enumerate(steps, 9)
]


def to_canonical(claims: Sequence[dict[str, str]]) -> pa.RecordBatch:
    """Makes canonical events of a batch of dicts; their order breaks ties of equal stamps."""
    columns = pa.RecordBatch.from_pylist(list(claims))
    mapping = ColumnMapping(case_id="claim", activity="step", timestamp="at")
    resolved = mapping.resolve(columns.schema.names, xes_names=False)
    none = np.zeros(0, np.int64)
    events, _ = resolved.canonicalise(columns, np.arange(columns.num_rows), none, file_rank=0)
    return events


def released_rows(rows: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yields the released events of a batch as dicts."""
    yield from rows.to_pylist()


def run(key: KeyReference, output: str) -> None:
    """Anonymises the claims and writes one line an event."""
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        _ = (
            pipeline
            | "Claims" >> beam.Create([CLAIMS])
            | "ToCanonical" >> beam.Map(to_canonical).with_output_types(pa.RecordBatch)
            | "Anonymize"
            >> AnonymizeEventLog(
                "amun", {"guessing_advantage": 0.4}, key, release_id="claims-2026-03"
            )
            | "ToDicts" >> beam.FlatMap(released_rows)
            | "Format" >> beam.Map("{case_id} {timestamp:%Y-%m-%d %H:%M} {activity}".format_map)
            | "Write" >> beam.io.WriteToText(output, file_name_suffix=".txt")
        )


if __name__ == "__main__":
    run(KeyReference(f"file:{sys.argv[1]}"), sys.argv[2])
