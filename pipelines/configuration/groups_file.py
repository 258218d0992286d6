"""The file of public groups of activities: CSV with two columns, or a JSON object."""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Mapping, Sequence

from tracecloak.anonymizers.rigorous.grouping import Grouping
from tracecloak.pipelines.configuration.files import bytes_of
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.texts.bounded_json import bounded_json

_OPERATOR = logging.getLogger("tracecloak.operator")
_COLUMNS = ("activity", "group")


def read_groups(path: str) -> dict[str, str]:
    """Returns the group of each activity that a file names.

    Args:
        path: A file of UTF-8: JSON, if its first character is {, with the group of each activity;
            else CSV with the columns activity and group.

    Raises:
        UsageError: The file cannot be read or is neither, or names an activity twice.
    """
    remedy = (
        "; name a file of CSV with the columns activity and group, or give JSON: --groups "
        '\'{"A1": "A", "A2": "A"}\''
    )
    try:
        text = bytes_of("groups", path, remedy=remedy).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"groups {path!r} is not UTF-8; save the file as UTF-8") from None
    return _of_json(path, text) if text.lstrip().startswith("{") else _of_csv(path, text)


def _of_json(path: str, text: str) -> dict[str, str]:
    try:
        body = bounded_json(text)
    except ValueError as error:
        raise UsageError(f"groups {path!r}: {error}") from None
    if not isinstance(body, dict) or not all(isinstance(group, str) for group in body.values()):
        raise UsageError(f"groups {path!r} must be an object of the group, a text, by activity")
    return body


def _of_csv(path: str, text: str) -> dict[str, str]:
    rows = csv.reader(io.StringIO(text), strict=True)
    groups: dict[str, str] = {}
    try:
        columns = next(rows, [])
        activity, group = _places(path, columns)
        for row in rows:
            if not row:
                continue
            if len(row) != len(columns):
                raise UsageError(
                    f"line {rows.line_num} of groups {path!r} has not as many columns as the first"
                )
            if row[activity] in groups:
                raise UsageError(f"line {rows.line_num} of groups {path!r} names an activity again")
            groups[row[activity]] = row[group]
    except csv.Error as error:
        raise UsageError(f"line {rows.line_num} of groups {path!r}: {error}") from None
    if not groups:
        raise UsageError(f"groups {path!r} has no activity; name one a line below activity,group")
    return groups


def _places(path: str, columns: list[str]) -> tuple[int, int]:
    """Where the two columns stand; tells the operator which others are passed over."""
    if any(columns.count(name) != 1 for name in _COLUMNS):
        raise UsageError(
            f"groups {path!r} must begin with the columns activity and group, each once"
        )
    if others := [name for name in columns if name not in _COLUMNS]:
        _OPERATOR.warning("groups %r: the columns %s are not read", path, ", ".join(others))
    return columns.index("activity"), columns.index("group")


def warn_of_names(groups: Mapping[str, str], vocabulary: Sequence[str] | None) -> None:
    """Tells the operator which names the file has and the vocabulary lacks, and the reverse."""
    grouping = Grouping(groups)
    if vocabulary is None or not (grouping.alone(vocabulary) or grouping.unknown(vocabulary)):
        return
    _OPERATOR.warning("%s", grouping.explain(vocabulary))
