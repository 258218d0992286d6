"""The logs of the TLKC paper, and real logs with the attributes that TLKC privacy looks at.

Rafiei, van der Aalst: Group-Based Privacy Preservation Techniques for Process Mining.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from tests.support.logs import trace_batch
from tracecloak.schemas.events.traces import TraceBatch

HOUR_US = 3_600_000_000
MINUTE_US = 60_000_000

RESOURCE = "org:resource"
DISEASE = "case:disease"

# Case: events as activity, resource and day-hour:minute, and the disease.
TABLE_2 = {
    "1": ("RE E4 01-08:30, VI D3 01-08:45, RL E6 01-08:58", "Flu"),
    "2": (
        "RE E1 01-08:46, HO E3 01-09:01, BT N1 01-10:02, BT N1 02-08:00, VI D1 02-09:30, "
        "RL E2 02-14:00",
        "HIV",
    ),
    "3": (
        "RE E1 01-08:50, HO E3 01-10:00, BT N1 01-10:15, VI D1 02-13:55, RL E2 02-14:15",
        "Infection",
    ),
    "4": ("RE E4 01-08:55, VI D2 01-09:10, IN N2 01-09:30, RL E6 01-10:30", "Poisoning"),
    "5": (
        "RE E1 01-09:00, VI D2 01-09:20, HO E6 01-09:55, BT N2 01-10:10, RL E2 02-16:00",
        "Cancer",
    ),
    "6": ("RE E4 01-09:05, VI D3 01-10:20, RL E6 01-14:20", "Corona"),
}

# Case: events as activity and hour, and the disease. The printed table lacks the resource of HO in
# case 5; everywhere else it is E3.
TABLE_3 = {
    "1": ("RE1 HO4 VI5 BT7 VI8", "Cancer"),
    "2": ("BT7 VI8 RL9", "Infection"),
    "3": ("HO4 VI5 BT7 RL9", "Corona"),
    "4": ("RE1 VI6 VI8 RL9", "Infection"),
    "5": ("HO4 VI8 RL9", "Corona"),
    "6": ("VI6 BT7 RL9", "Flu"),
    "7": ("RE1 BT7 VI8 RL9", "Flu"),
    "8": ("RE1 VI6 BT7 VI8", "Cancer"),
}
# The disease of case 5 with which Figure 4b and Tables 6 to 8 are right.
CORRECTED = {**TABLE_3, "5": ("HO4 VI8 RL9", "HIV")}
TABLE_8 = {
    "1": ("HO4 BT7 VI8", "Cancer"),
    "2": ("BT7 VI8 RL9", "Infection"),
    "3": ("HO4 BT7 RL9", "Corona"),
    "4": ("VI6 VI8 RL9", "Infection"),
    "5": ("HO4 VI8 RL9", "Corona"),
    "6": ("VI6 BT7 RL9", "Flu"),
    "7": ("BT7 VI8 RL9", "Flu"),
    "8": ("VI6 BT7 VI8", "Cancer"),
}
TABLE_4 = (
    "BT7 VI8", "BT7 VI8 RL9", "BT7 RL9", "VI8 RL9", "VI8 RL9", "BT7 RL9", "BT7 VI8 RL9", "BT7 VI8",
)  # fmt: skip
TABLE_5 = ("BT7 VI8", "BT7 VI8", "RL9", "RL9", "RL9", "RL9", "BT7 VI8", "BT7 VI8")
ZERO = ("00", "E0")
RESOURCE_OF = {"RE": "E4", "HO": "E3", "VI": "D1", "BT": "N1", "RL": "E2"}

# (activity, resource or None, microseconds) of each event, and the sensitive values, by case.
Case = tuple[list[tuple[str, str | None, int]], dict[str, str | None]]


def traces_with(cases: Mapping[str, Case], released: bool = False) -> TraceBatch:
    """Returns cases with the resources of their events and with attributes of the case.

    Args:
        cases: In the order of the batch.
        released: Whether the attributes are as in a released log; else as in a source.
    """
    plain = trace_batch(
        [
            (case, activity, time)
            for case, (events, _) in cases.items()
            for activity, _, time in events
        ]
    )
    texts = {RESOURCE: [resource for events, _ in cases.values() for _, resource, _ in events]}
    for name in dict.fromkeys(name for _, values in cases.values() for name in values):
        texts[name] = [values[name] for events, values in cases.values() for _ in events]
    columns = {name: pa.array(column, pa.string()) for name, column in texts.items()}
    if not released:
        columns = {name: column.dictionary_encode() for name, column in columns.items()}
    return replace(plain, attributes=columns)


def table_2() -> TraceBatch:
    """Returns Table 2 as a source has it."""
    cases: dict[str, Case] = {}
    for case, (text, disease) in TABLE_2.items():
        events = []
        for event in text.split(", "):
            activity, resource, stamp = event.split()
            day, clock = stamp.split("-")
            hour, minute = clock.split(":")
            at = ((int(day) * 24 + int(hour)) * 60 + int(minute)) * MINUTE_US
            events.append((activity, resource, at))
        cases[case] = (events, {DISEASE: disease})
    return traces_with(cases)


def hours_log(
    rows: Mapping[str, tuple[str, str]], released: bool = False, hour_zero: bool = False
) -> TraceBatch:
    """Returns cases given as in TABLE_3, their hours as times.

    Args:
        rows: The cases.
        released: Whether the attributes are as in a released log.
        hour_zero: Whether every case begins with one more event at hour 0. A relative time counts
            from a case's first event, the table's hours from an instant before it; with that event,
            which is known of every case and so tells nothing, the two are the same.
    """
    cases: dict[str, Case] = {}
    for case, (text, disease) in rows.items():
        events: list[tuple[str, str | None, int]] = [
            (event[:2], RESOURCE_OF[event[:2]], int(event[2:]) * HOUR_US) for event in text.split()
        ]
        zero: list[tuple[str, str | None, int]] = [(*ZERO, 0)] if hour_zero else []
        cases[case] = (zero + events, {DISEASE: disease})
    return traces_with(cases, released)


def values_of(traces: TraceBatch, name: str) -> list[str]:
    """Returns the texts that an attribute of a source has, sorted."""
    return sorted(v for v in pc.unique(traces.attributes[name].cast(pa.string())).to_pylist() if v)


def release_of(
    traces: Sequence[TraceBatch], method: object, params: object, number: int = 0
) -> list[TraceBatch]:
    """Returns what a method releases of traces."""
    from tests.support.keys import release_key
    from tracecloak.anonymizers.contract.in_memory import anonymise

    return anonymise(traces, method, params, release_key(number), "release", "config").traces
