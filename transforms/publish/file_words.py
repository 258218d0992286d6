"""What the files of a release are, and how somebody who has never seen one opens them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracecloak.transforms.publish.names import DFG_NAME, REPORT_NAME, STATEMENT_NAME

_EXACT = {
    DFG_NAME: "directly-follows graph: activities, and paths with their counts",
    "figures.parquet": "totals, with their intervals, and the most that a path not shown can have",
    REPORT_NAME: "everything on one page, for a browser",
    STATEMENT_NAME: "the promise in words, for the file of a privacy officer",
}
_BY_NAME = {
    "figures": "numbers with their kinds and 95 % intervals",
    "groups": "groups of activities, and how cases go from one to another",
    "indicators": "indicators by group, with their 95 % intervals and units",
    "measures": "the noisy counts that the log was drawn from",
}
_BY_ENDING = {
    ".parquet": "table",
    ".json": "the same as JSON",
    ".xes.gz": "the log as XES (IEEE 1849), for process mining tools",
    ".spreadsheet.csv.gz": "the log as CSV, with an apostrophe in front of formulas",
    ".csv.gz": "the log as CSV, for spreadsheets",
    ".avro": "the log as Avro",
    ".dot": "the graph for Graphviz",
    ".svg": "a picture",
    ".pnml": "the tree as a Petri net",
    ".ptml": "the process tree for ProM and pm4py",
    ".bpmn": "the tree as BPMN",
    ".tree": "the process tree as text",
    ".sig": "signature of the manifest",
}


@dataclass(frozen=True)
class Opening:
    """How to open a file with something.

    Attributes:
        title: With what.
        code: What to type or do.
    """

    title: str
    code: str


def what_is(path: str) -> str:
    """Returns what a file of a release is, in a few words."""
    if path in _EXACT:
        return _EXACT[path]
    if path.startswith("log/"):
        return "a part of the log: case_id, activity, timestamp and attributes"
    name, _, ending = path.partition(".")
    if name in _BY_NAME and ending in ("parquet", "json"):
        return _BY_NAME[name] + (", as JSON" if ending == "json" else "")
    return next((text for end, text in _BY_ENDING.items() if path.endswith(end)), "")


def openings_of(paths: Sequence[str]) -> list[Opening]:
    """Returns how to open what a release has, from its folder."""
    has_parts = any(path.startswith("log/") for path in paths)
    tables = [path for path in paths if path.endswith(".parquet") and not path.startswith("log/")]
    openings = []
    if has_parts:
        openings += [
            Opening("pandas", 'import pandas\n\nlog = pandas.read_parquet("log")'),
            Opening("polars", 'import polars\n\nlog = polars.read_parquet("log/*.parquet")'),
            Opening("DuckDB", "SELECT activity, count(*) FROM 'log/*.parquet' GROUP BY activity;"),
        ]
    if any(path.endswith(".xes.gz") for path in paths):
        openings += [
            Opening("pm4py", 'import pm4py\n\nlog = pm4py.read_xes("log.xes.gz")'),
            Opening("ProM, Disco, Celonis", "Import log.xes.gz as an event log."),
        ]
    if tables and not has_parts:
        first = tables[0]
        openings += [
            Opening("pandas", f'import pandas\n\ntable = pandas.read_parquet("{first}")'),
            Opening("polars", f'import polars\n\ntable = polars.read_parquet("{first}")'),
            Opening("DuckDB", f"SELECT * FROM '{first}';"),
        ]
    if any(path.endswith(".ptml") for path in paths):
        trees = [path for path in paths if path.endswith(".ptml")]
        openings.append(Opening("pm4py", f'import pm4py\n\ntree = pm4py.read_ptml("{trees[0]}")'))
    return openings
