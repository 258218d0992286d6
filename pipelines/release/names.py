"""The names of a log's activities as a file to read, strike out and declare public; without Beam.

Nothing is counted and nothing is private here: the names are the log's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow.compute as pc

from tracecloak.schemas.events.events import ACTIVITY
from tracecloak.schemas.events.tally import ReadTally, TallyOfFile
from tracecloak.schemas.events.vocabulary import OTHER
from tracecloak.transforms.sources import EventSource

_HEADER = """\
# The names of all activities of a log, rare ones too. They are data until somebody answers for
# them: a name can say who a case is about. Read them, strike out what the world must not know,
# and declare what is left with --vocabulary. No epsilon covers a name in such a list.
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
        tally = TallyOfFile(file.rank)
        for events, _ in source.read(file, tally):
            names.update(pc.unique(events.column(ACTIVITY).cast("string")).to_pylist())
        tallies.append(tally.result())
    broken = {name for name in names if "\n" in name or name.endswith("\r")}
    blank = {name for name in names if not name.strip()}
    kept = tuple(sorted(names - broken - blank - {OTHER}))
    return LogNames(kept, len(broken), ReadTally.merge(tallies))


def vocabulary_file(found: LogNames) -> str:
    """Returns a file as `schemas.events.vocabulary.read_vocabulary` reads it, with what to know."""
    broken = ""
    if found.n_broken:
        broken = (
            f"# {found.n_broken} names hold a line break and cannot be in a list of one name a "
            "line; they are left out.\n"
        )
    return _HEADER + broken + "\n" + "".join(f"{name}\n" for name in found.names)
