"""Claims as somebody's pipeline has them, and what they ask of the transforms."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.utils.timestamp import Timestamp

from tracecloak import METHODS, AnonymizeEventLog, KeyReference, anonymise, group_into_traces
from tracecloak.schemas.events.columns import ColumnMapping

ACTIVITIES = ("Register", "Check", "Pay", "Reject")
COLUMNS = {"case_id": "claim", "activity": "step", "timestamp": "at"}
GRAPH: dict[str, Any] = {
    "method": "private-dfg",
    "epsilon": 1,
    "vocabulary": list(ACTIVITIES),
    **COLUMNS,
}
# A method of no noise, that releases the log and works on few cases.
AMUN: dict[str, Any] = {"method": "amun", "guessing_advantage": 0.4, **COLUMNS}


UNPAID: dict[str, Any] = {
    "release_id": "r", "key": "env:TEST_KEY", "unaccounted": True, "shards": 2
}  # fmt: skip


class Claim(NamedTuple):
    """An event with a schema."""

    claim: str
    step: str
    at: Timestamp


beam.coders.registry.register_coder(Claim, beam.coders.RowCoder)


def claims(n_cases: int = 20, ties: bool = False) -> list[dict[str, Any]]:
    """Events of some cases; with `ties` all events of a case have one stamp."""
    return [
        {
            "claim": f"c-{case}",
            "step": step,
            "at": f"2026-03-{1 + case % 28:02d}T{9 if ties else 9 + hour:02d}:00:00Z",
        }
        for case in range(n_cases)
        for hour, step in enumerate(("Register", "Check", "Reject" if case % 3 else "Pay"))
    ]


def typed(rows: list[dict[str, Any]]) -> list[Claim]:
    """The same with a schema, and stamps of Beam's."""
    return [Claim(r["claim"], r["step"], Timestamp.from_rfc3339(r["at"])) for r in rows]


def paid(folder: Path, **keys: Any) -> dict[str, Any]:
    """Keys by which a ledger of the folder pays, begun where there is none."""
    return {"key_store": str(folder / "keys"), "new_ledger": True, "release_id": "r", **keys}


def raw(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows)


def canonical(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    columns, none = raw(rows), np.zeros(0, np.int64)
    resolved = ColumnMapping(**COLUMNS).resolve(columns.schema.names, xes_names=False)
    return resolved.canonicalise(columns, np.arange(len(rows)), none, file_rank=0)[0]


def in_memory(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What the in-memory driver releases of them, as AnonymizeEventLog gives rows."""
    door = AnonymizeEventLog(**AMUN, **UNPAID)
    plan = door._plan
    made = anonymise(
        group_into_traces([canonical(rows)]), METHODS["amun"], plan.params,
        KeyReference("env:TEST_KEY").resolve(), "r", plan.noise_digest,
    )  # fmt: skip
    rows = [batch.to_rows() for batch in made.traces]
    columns = [[v for batch in rows for v in batch.column(i).to_pylist()] for i in (0, 1)]
    micros = [us for batch in rows for us in batch.column(2).cast("int64").to_pylist()]
    return list(zip(*columns, [Timestamp(micros=us) for us in micros], strict=True))


def fields(row: Any) -> tuple[Any, ...]:
    return row.case_id, row.activity, row.timestamp
