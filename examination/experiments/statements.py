"""What a paper states of its results, and whether the figures of an experiment agree.

A paper says, for example, that one algorithm keeps more than another. An experiment has the medians
of both on a log, so it can say whether that is so there: confirmed, or deviates. What it has no
figures for is untested, and the reason is said. A statement is judged on each log alone, whether or
not it is a log of the paper.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from tracecloak.examination.comparison.compare import Row
from tracecloak.examination.experiments.figures import median_of, shown, values_of

Verdict = Literal["confirmed", "deviates", "untested"]
IN_WORDS: dict[Verdict, str] = {
    "confirmed": "confirmed",
    "deviates": "deviates",
    "untested": "could not be tested",
}
NO_FIGURES = "there are no figures of all that it compares"


@dataclass(frozen=True)
class Statement:
    """A sentence of a paper beside what was found on one log.

    Attributes:
        source: Where the paper has it, such as "section 5.3, Figure 2".
        text: What it states, in our words.
        verdict: Whether the figures agree.
        found: The figures; of one that was not tested, why.
    """

    source: str
    text: str
    verdict: Verdict
    found: str


def judged(source: str, text: str, holds: bool | None, found: str) -> Statement:
    """Returns a statement with its verdict; None: whether it holds is not known."""
    verdict: Verdict = "untested" if holds is None else "confirmed" if holds else "deviates"
    return Statement(source, text, verdict, found)


def untested(source: str, text: str, why: str = NO_FIGURES) -> Statement:
    """Returns a statement that could not be tested, and why."""
    return Statement(source, text, "untested", why)


def at_least(
    source: str,
    text: str,
    pairs: Iterable[tuple[str, float | None, float | None]],
    slack: float = 0.0,
) -> Statement:
    """Judges that in each of some places the first figure is not below the second.

    Args:
        source: See `Statement`.
        text: See `Statement`.
        pairs: (place, first, second); a place that lacks one of the two is passed over.
        slack: How far below the first may be.
    """
    known = [(place, a, b) for place, a, b in pairs if a is not None and b is not None]
    if not known:
        return untested(source, text)
    figures = "; ".join(f"{place}: {shown(a)} against {shown(b)}" for place, a, b in known)
    return judged(source, text, all(a >= b - slack for _, a, b in known), figures)


def ordered(
    source: str, text: str, places: Sequence[tuple[str, float | None]], slack: float = 0.0
) -> Statement:
    """Judges that figures do not grow from one place to the next.

    Args:
        source: See `Statement`.
        text: See `Statement`.
        places: (place, figure), the largest figure first as the paper has them; at least two of
            them must be known.
        slack: How far above the one before it each may be.
    """
    known = [(place, value) for place, value in places if value is not None]
    if len(known) < 2:
        return untested(source, text)
    values = [value for _, value in known]
    falls = all(b <= a + slack for a, b in itertools.pairwise(values))
    return judged(source, text, falls, ", ".join(f"{place} {shown(v)}" for place, v in known))


def medians(rows: Sequence[Row], name: str) -> Callable[[str, str], float | None]:
    """Returns a function from (arm, level) to the median of a figure, or to None without values."""

    def found(arm: str, level: str) -> float | None:
        return median_of(values_of(rows, name, arm=arm, level=level))

    return found


def counted(statements: Sequence[Statement]) -> str:
    """Returns a text that says how many of some statements have each verdict."""
    numbers = Counter(statement.verdict for statement in statements)
    return ", ".join(f"{numbers[verdict]} {words}" for verdict, words in IN_WORDS.items())
