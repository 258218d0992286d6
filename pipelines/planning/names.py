"""The names of a log's activities as a file to read, strike out and declare public; without Beam.

Nothing is counted and nothing is private here: the names are the log's own. Names and ids may be
one, as they differ in case, blanks and signs, or in one letter.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from tracecloak.schemas.events.events import ACTIVITY, ESCAPES_REMARK, OTHER
from tracecloak.schemas.events.tally import FileTally, ReadTally
from tracecloak.schemas.texts import FORMULA_BEGINNINGS, escaped, escaped_exactly, formulas
from tracecloak.transforms.sources import EventSource


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


def vocabulary_lines(log: LogNames) -> list[str]:
    """Returns the lines of a file as `read_vocabulary` reads it, with what to know.

    It is to be read by a person, so characters that steer a terminal or an editor are written as
    escapes, and names that a spreadsheet would compute are counted.
    """
    from tracecloak.transforms.pages.page import from_template  # loaded on use

    has_escapes = any(escaped(name) != name for name in log.names)
    return from_template(
        __package__,
        "vocabulary.txt.j2",
        n_broken=log.n_broken,
        n_formulas=len(formulas(log.names)),
        beginnings=FORMULA_BEGINNINGS,
        remark=ESCAPES_REMARK if has_escapes else "",
        names=list(map(escaped_exactly, log.names)) if has_escapes else log.names,
    )


# --- Names and ids that may be one. ---------------------------------------------------------------

# Of no width are joiners, a mark of the order of bytes and the like.
_BLANKS = re.compile(r"[\s\u00ad\u200b-\u200f\u2060\ufeff]+")
# A sign such as + or < can be all of a difference; a hyphen is none between letters.
_SIGNS = re.compile(r"[\s_.,:;/]+|(?<=\w)-(?=\w)")
# One letter of a shorter word is too much of it.
_SHORTEST_MISSPELT = 5
# Comparing all pairs takes the square of this.
_MAX_NAMES = 2000


def normalized_id(name: str) -> str:
    """Returns an id without case, blanks and forms of letters; it keeps its signs.

    One of blanks alone stays as it is.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return _BLANKS.sub("", folded) or name


def plain(name: str) -> str:
    """Returns a name without what people do not mean: case, blanks, signs and forms of letters.

    A name of signs alone stays as it is.
    """
    folded = normalized_id(name)
    return _SIGNS.sub("", folded) or folded


def spellings(counts: Mapping[str, int], plain: Callable[[str], str] = plain) -> dict[str, str]:
    """Returns the names that are another spelling of a more frequent one, with that one.

    Args:
        counts: How often each name occurs.
        plain: Returns the same text for spellings of one name.
    """
    by_plain: dict[str, list[str]] = {}
    for name in sorted(counts, key=lambda name: (-counts[name], name)):
        by_plain.setdefault(plain(name), []).append(name)
    return {other: names[0] for names in by_plain.values() for other in names[1:]}


def misspellings(names: Sequence[str]) -> list[tuple[str, str]]:
    """Returns pairs of names that differ in one letter of one word, sorted.

    A word of fewer than 5 letters, or of digits, makes another name. Of more than 2,000 names none
    is compared.
    """
    from rapidfuzz.distance import OSA

    words = {name: _SIGNS.sub(" ", name.casefold()).split() for name in sorted(set(names))}
    if len(words) > _MAX_NAMES:
        return []
    pairs = []
    for (one, first), (other, second) in itertools.combinations(words.items(), 2):
        if len(first) != len(second):
            continue
        differing = [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]]
        if len(differing) == 1 and all(
            len(word) >= _SHORTEST_MISSPELT and word.isalpha() for word in differing[0]
        ):
            if OSA.distance(*differing[0], score_cutoff=1) == 1:
                pairs.append((one, other))
    return pairs
