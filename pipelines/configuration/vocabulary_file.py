"""The file of a public vocabulary: names of activities, one a line.

What activities may be renamed to.
"""

from __future__ import annotations

from collections.abc import Mapping

from tracecloak.anonymizers.contract.bounding import ContributionBounds
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.vocabulary import ESCAPES_REMARK, OTHER
from tracecloak.schemas.texts.escapes import unescaped


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
