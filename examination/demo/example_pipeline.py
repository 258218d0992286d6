"""An example: anonymising events inside a Beam pipeline of your own.

Takes claims as dicts, as they may come from any source, and writes each step's released times. Run
it with `python -m tracecloak.examination.demo.example_pipeline KEY_STORE OUTPUT_PREFIX`.
"""

from __future__ import annotations

import sys

import apache_beam as beam

from tracecloak import AnonymizeEventLog

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


def line_of(event: beam.Row) -> str:
    """Returns a released event as a line of text."""
    return f"{event.case_id} {event.timestamp.to_utc_datetime():%Y-%m-%d %H:%M} {event.activity}"


def run(key_store: str, output: str) -> None:
    """Anonymises the claims and writes one line an event."""
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        _ = (
            pipeline
            | "Claims" >> beam.Create(CLAIMS)
            | "Anonymize"
            >> AnonymizeEventLog(
                "amun", guessing_advantage=0.4, release_id="claims-2026-03",
                case_id="claim", activity="step", timestamp="at",
                key_store=key_store, new_ledger=True,
            )
            | "Lines" >> beam.Map(line_of)
            | "Write" >> beam.io.WriteToText(output, file_name_suffix=".txt")
        )  # fmt: skip


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2])
