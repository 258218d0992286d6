"""Names and ids that may be one, as they differ in case, blanks and signs, or in one letter."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence

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
