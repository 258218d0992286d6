"""Claims as somebody's pipeline has them, and what they ask of the transforms."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.utils.timestamp import Timestamp

ACTIVITIES = ("Register", "Check", "Pay", "Reject")
COLUMNS = {"case_id": "claim", "activity": "step", "timestamp": "at"}
GRAPH = {"method": "private-dfg", "epsilon": 1, "vocabulary": list(ACTIVITIES), **COLUMNS}
# A method of no noise, that releases the log and works on few cases.
AMUN = {"method": "amun", "guessing_advantage": 0.4, **COLUMNS}


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
