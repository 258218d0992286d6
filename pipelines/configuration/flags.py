"""Flags as texts, and the public files that a configuration names."""

from __future__ import annotations

import csv
import io
import json
import logging
import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

import pydantic
from pydantic.fields import FieldInfo

from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.texts import MAX_BYTES, bounded_json, bounded_yaml, unescaped

if TYPE_CHECKING:
    from tracecloak.anonymizers.contract.bounding import ContributionBounds

# --- Files that a configuration names, as bytes and as YAML. --------------------------------------


def bytes_of(what: str, path: str, max_bytes: int | None = 16 << 20, remedy: str = "") -> bytes:
    """Returns the bytes of a file.

    Args:
        what: What the file is, for errors.
        path: On this machine.
        max_bytes: How many it may have; None: any number.
        remedy: What to do if it cannot be read, for the error.

    Raises:
        UsageError: It cannot be read, or has more bytes.
    """
    try:
        with open(path, "rb") as stream:
            data = stream.read(-1 if max_bytes is None else max_bytes + 1)
    except OSError as error:
        raise UsageError(f"{what} {path!r} cannot be read: {error.strerror}{remedy}") from None
    if max_bytes is not None and len(data) > max_bytes:
        raise UsageError(f"{what} {path!r} has more than {max_bytes >> 20} MiB")
    return data


def yaml_of(what: str, path: str) -> Any:
    """Returns what a file of YAML says.

    Raises:
        UsageError: It cannot be read, or is not YAML within bounds.
    """
    try:
        return bounded_yaml(bytes_of(what, path, MAX_BYTES))
    except ValueError as error:
        raise UsageError(f"{what} {path!r} is no YAML that can be read: {error}") from None


# --- How help writes a parameter. -----------------------------------------------------------------
# A flag takes a plain value as text, and a list as text separated by commas. A list or a mapping
# can also be given as in the configuration file, such as in JSON, or as `@FILE`, a file that has
# only this value.
#
# The text of a flag is read by the same rules.


# Lists and mappings whose plain text is the path of a file with a form of its own.
NAMES_OF_FILES = ("vocabulary", "model", "groups")

_FILE = "@FILE, a file of YAML or JSON"


def kinds_of(annotation: Any) -> set[type]:
    """Returns which of list and dict a value can be; a plain value is neither."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return kinds_of(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return {kind for one in get_args(annotation) for kind in kinds_of(one)}
    of = annotation if origin is None else origin
    if not isinstance(of, type) or issubclass(of, str | bytes):
        return set()
    if issubclass(of, Mapping | pydantic.BaseModel):
        return {dict}
    return {list} if issubclass(of, Sequence | set | frozenset) else set()


def form_of(name: str, field: FieldInfo) -> str:
    """Returns a sentence on how a flag has a list or a mapping; empty for a plain value."""
    kinds = kinds_of(field.annotation)
    if not kinds:
        return ""
    if name in NAMES_OF_FILES:
        return f"Instead of that file's path also JSON, or {_FILE}."
    if list in kinds:
        return f"Separated by commas, as JSON, or {_FILE}."
    return f"As JSON, or {_FILE}."


def standing(field: FieldInfo) -> str:
    """Returns whether a key is required or what is its default; empty where it has neither."""
    if field.is_required():
        return "(required)"
    default = default_text(field)
    return "" if default is None else f"(default {default})"


def default_text(field: FieldInfo) -> str | None:
    """Returns the default as a flag would have it; None where there is none or it is empty."""
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    is_empty = default is None or default == () or default == {}
    return None if is_empty else flag_text(default)


def key_help(field: FieldInfo, name: str = "") -> str:
    """Returns the help of a key or a parameter: what it is, and what is the default.

    Args:
        field: The key.
        name: Of the flag, for how that has a list or a mapping; empty: that is not said.
    """
    parts = (field.description or "", form_of(name, field) if name else "", standing(field))
    return " ".join(" ".join(parts).split())


def flag_text(value: Any) -> str:
    """Returns a parameter as the text of its flag: what `given_value` makes of that is the same."""
    value = pydantic.TypeAdapter(Any).dump_python(value, mode="json")
    if isinstance(value, list) and all(isinstance(part, str | int | float) for part in value):
        parts = [part if isinstance(part, str) else json.dumps(part) for part in value]
        text = ",".join(parts)
        if between_commas(text) == parts and not text.startswith(("[", "{", "@")):
            return text
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def between_commas(text: str) -> list[str]:
    """Returns the members of a list that is text."""
    return [part.strip() for part in text.split(",") if part.strip()]


def given_value(name: str, text: Any, field: FieldInfo) -> Any:
    """Returns what a flag's text stands for, as a configuration file would have it.

    Args:
        name: Of the flag.
        text: What was typed. A value that is no text is returned as it is.
        field: The parameter.

    Raises:
        UsageError: The text is neither JSON nor YAML though it begins so, or its file cannot be
            read.
    """
    kinds = kinds_of(field.annotation)
    if not isinstance(text, str) or not kinds:
        return text
    if text.startswith("@"):
        return yaml_of(f"{name}: file", text[1:])
    if text.lstrip().startswith(("[", "{")):
        # First as JSON, as its strings may have characters that YAML does not allow.
        try:
            return bounded_json(text)
        except json.JSONDecodeError:
            pass
        except ValueError as error:
            raise UsageError(f"{name}: {error}") from None
        try:
            return bounded_yaml(text)
        except ValueError as error:
            raise UsageError(
                f"{name}: what begins with {text.lstrip()[0]} must be JSON, or YAML as in a "
                f"configuration file: {error}; got {text[:80]!r}"
            ) from None
    if list in kinds and name not in NAMES_OF_FILES:
        return between_commas(text)
    return text


# --- Public files of a configuration: the vocabulary of activities, and their groups. -------------


# --- The file of a public vocabulary: names of activities, one a line. ----------------------------
# What activities may be renamed to.


def read_vocabulary(data: bytes) -> tuple[str, ...]:
    """Reads a public file of activities: UTF-8, one name a line, in any order.

    A byte order mark in front and line ends of Windows are passed over, and so are lines of nothing
    but white space, and those before all others that begin with #: they are remarks. Otherwise a
    name is the line as it stands, spaces at its ends included. Only after the remark
    `ESCAPES_REMARK` a backslash begins an escape.

    Returns:
        The names in the order of their lines.

    Raises:
        UsageError: A line is no UTF-8, repeats a name, has OTHER or a wrong escape, or there is no
            name at all.
    """
    from tracecloak.schemas.events.events import ESCAPES_REMARK, OTHER

    line_of: dict[str, int] = {}
    in_remarks, has_escapes = True, False
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            name = line.removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            raise UsageError(
                f"line {number} of the activity vocabulary is not UTF-8; save the file as UTF-8"
            ) from error
        in_remarks = in_remarks and name.startswith("#")
        has_escapes = has_escapes or (in_remarks and name == ESCAPES_REMARK)
        if in_remarks or not name.strip():
            continue
        if has_escapes:
            try:
                name = unescaped(name)
            except ValueError as error:
                raise UsageError(
                    f"line {number} of the activity vocabulary: {error}; write \\\\ for a backslash"
                ) from None
        if name == OTHER:
            raise UsageError(
                f"line {number} of the activity vocabulary is {OTHER}, which stands for all others"
            )
        first = line_of.setdefault(name, number)
        if first != number:
            raise UsageError(
                f"line {number} of the activity vocabulary repeats line {first}; leave one out"
            )
    if not line_of:
        raise UsageError("the activity vocabulary has no name: not one line with text")
    return tuple(line_of)


def check_new_names(rename: Mapping[str, str], bounds: ContributionBounds) -> None:
    """Makes sure that a rename leads to names that are declared, where any are.

    Raises:
        UsageError: One is not.
    """
    declared = bounds.vocabulary
    unknown = sorted(set(rename.values()) - set(declared or rename.values()))
    if unknown:
        raise UsageError(f"rename gives the name {unknown[0]!r}, which is not in the vocabulary")


# --- The file of public groups of activities: CSV with two columns, or a JSON object. -------------


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
        "; name a file of CSV with the columns activity and group, or give JSON: "
        '{"A1": "A", "A2": "A"}'
    )
    try:
        text = bytes_of("groups", path, remedy=remedy).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"groups {path!r} is not UTF-8; save the file as UTF-8") from None
    return _read_json(path, text) if text.lstrip().startswith("{") else _read_csv(path, text)


def _read_json(path: str, text: str) -> dict[str, str]:
    try:
        body = bounded_json(text)
    except ValueError as error:
        raise UsageError(f"groups {path!r}: {error}") from None
    if not isinstance(body, dict) or not all(isinstance(group, str) for group in body.values()):
        raise UsageError(f"groups {path!r} must be an object of the group, a text, by activity")
    return body


def _read_csv(path: str, text: str) -> dict[str, str]:
    rows = csv.DictReader(io.StringIO(text), strict=True)
    groups: dict[str, str] = {}
    try:
        columns = list(rows.fieldnames or ())
        if any(columns.count(name) != 1 for name in _COLUMNS):
            raise UsageError(
                f"groups {path!r} must begin with the columns activity and group, each once"
            )
        if others := [name for name in columns if name not in _COLUMNS]:
            _OPERATOR.warning("groups %r: the columns %s are not read", path, ", ".join(others))
        for row in rows:
            if None in row or None in row.values():
                raise UsageError(
                    f"line {rows.line_num} of groups {path!r} has not as many columns as the first"
                )
            if row["activity"] in groups:
                raise UsageError(f"line {rows.line_num} of groups {path!r} names an activity again")
            groups[row["activity"]] = row["group"]
    except csv.Error as error:
        raise UsageError(f"line {rows.reader.line_num} of groups {path!r}: {error}") from None
    if not groups:
        raise UsageError(f"groups {path!r} has no activity; name one a line below activity,group")
    return groups


def warn_of_names(groups: Mapping[str, str], vocabulary: Sequence[str] | None) -> None:
    """Tells the operator which names the file has and the vocabulary lacks, and the reverse."""
    from tracecloak.anonymizers.rigorous.names import Grouping

    grouping = Grouping(groups)
    if vocabulary is None or not (grouping.alone(vocabulary) or grouping.unknown(vocabulary)):
        return
    _OPERATOR.warning("%s", grouping.explain(vocabulary))
