"""The names of a log's activities as a file to read, strike out and declare public; without Beam.

Nothing is counted and nothing is private here: the names are the log's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from tracecloak.schemas.events.events import ACTIVITY, ESCAPES_REMARK, OTHER
from tracecloak.schemas.events.tally import FileTally, ReadTally
from tracecloak.schemas.texts import FORMULA_BEGINNINGS, escaped, escaped_exactly, formulas
from tracecloak.transforms.sources import EventSource

_HEADER = """\
# The names of all activities of a log, rare ones too. They are data until somebody answers for
# them: a name can say who a case is about. Read them, strike out what the world must not know,
# and declare what is left as vocabulary. No epsilon covers a name in such a list.
"""


@dataclass(frozen=True)
class LogNames:
    """What activities a log has.

    Attributes:
        names: Sorted, those that can stand in a list of one name a line.
        n_broken: How many others there are, with a line break in them.
        tally: What was found of the records, of which those that cannot be read name nothing.
    """

    names: tuple[str, ...]
    n_broken: int
    tally: ReadTally


def names_of(source: EventSource) -> LogNames:
    """Returns the names of all events that can be read.

    Raises:
        InputSchemaError: A file cannot be read.
    """
    names: set[str] = set()
    tallies = []
    for file in source.files:
        tally = FileTally(file.rank)
        for events, _ in source.read(file, tally):
            names.update(pc.unique(events.column(ACTIVITY).cast("string")).to_pylist())
        tallies.append(tally.result())
    broken = {name for name in names if "\n" in name or name.endswith("\r")}
    blank = {name for name in names if not name.strip()}
    listed = tuple(sorted(names - broken - blank - {OTHER}))
    return LogNames(listed, len(broken), ReadTally.merge(tallies))


def vocabulary_file(log: LogNames) -> str:
    """Returns a file as `read_vocabulary` reads it, with what to know.

    It is to be read by a person, so characters that steer a terminal or an editor are written as
    escapes, and names that a spreadsheet would compute are counted.
    """
    header = [_HEADER]
    if log.n_broken:
        header.append(
            f"# {log.n_broken} names hold a line break and cannot be in a list of one name a line; "
            "they are left out.\n"
        )
    names: Sequence[str] = log.names
    if n_formulas := len(formulas(names)):
        subject = f"{n_formulas} begin as formulas of a spreadsheet do ({FORMULA_BEGINNINGS})"
        header.append(f"# {subject}, which computes them in a CSV.\n")
    if any(escaped(name) != name for name in names):
        header.append(f"{ESCAPES_REMARK}\n")
        names = [escaped_exactly(name) for name in names]
    return "".join([*header, "\n", *(f"{name}\n" for name in names)])
