"""What a paper states of its results, and whether the figures of an experiment agree.

A paper says, for example, that one algorithm keeps more than another. An experiment has the medians
of both on a log, so it can say whether that is so there: confirmed, or deviates. A statement of
which a figure is missing is undecided, unless the others refute it. A statement is judged on each
log alone, whether or not it is a log of the paper.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from tracecloak.examination.comparison.compare import Row
from tracecloak.examination.experiments.figures import median_of, shown, values_of

Verdict = Literal["confirmed", "deviates", "undecided"]
NO_FIGURES = "there are no figures of all that it compares"


@dataclass(frozen=True)
class Statement:
    """A sentence of a paper beside what was found on one log.

    Attributes:
        source: Where the paper has it, such as "section 5.3, Figure 2".
        text: What it states, in our words.
        verdict: Whether the figures agree.
        found: The figures; of one without any, why.
    """

    source: str
    text: str
    verdict: Verdict
    found: str


def judged(source: str, text: str, holds: Iterable[bool | None], found: str) -> Statement:
    """Returns a statement with its verdict.

    It deviates if a part of it does not hold, whatever the others are. Else it is confirmed only if
    all figures are there: where one is missing, it is undecided.

    Args:
        source: See `Statement`.
        text: See `Statement`.
        holds: Whether each part of it holds; None: a figure that this needs is missing.
        found: See `Statement`.
    """
    parts = list(holds) or [None]
    unrefuted: Verdict = "undecided" if None in parts else "confirmed"
    verdict = "deviates" if False in parts else unrefuted
    return Statement(source, text, verdict, found or NO_FIGURES)


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
        pairs: (place, first, second); None is a missing figure.
        slack: How far below the first may be.
    """
    places = list(pairs)
    holds = [None if a is None or b is None else a >= b - slack for _, a, b in places]
    if set(holds) <= {None}:
        return judged(source, text, holds, "")
    figures = "; ".join(f"{place}: {shown(a)} against {shown(b)}" for place, a, b in places)
    return judged(source, text, holds, figures)


def ordered(
    source: str, text: str, places: Sequence[tuple[str, float | None]], slack: float = 0.0
) -> Statement:
    """Judges that figures do not grow from one place to the next.

    Args:
        source: See `Statement`.
        text: See `Statement`.
        places: (place, figure), the largest figure first as the paper has them; None is a missing
            figure, and at least two of them must be known.
        slack: How far above the one before it each may be.
    """
    known = [value for _, value in places if value is not None]
    holds: list[bool | None] = [b <= a + slack for a, b in itertools.pairwise(known)]
    holds += [None] * (len(places) - len(known))
    return judged(source, text, holds, ", ".join(f"{place} {shown(v)}" for place, v in places))


def medians(
    rows: Sequence[Row], name: str, at_loss: float | None = 0.0
) -> Callable[[str, str], float | None]:
    """Returns a function from (arm, level) to the median of a figure, or to None without values.

    Args:
        rows: Of one log.
        name: The figure.
        at_loss: What a release counts as that was refused because nothing would be left of the log;
            None: as a missing figure.
    """

    def found(arm: str, level: str) -> float | None:
        values = values_of(rows, name, arm=arm, level=level)
        if at_loss is not None and values_of(rows, "is_lost", arm=arm, level=level):
            values.append(at_loss)
        return median_of(values)

    return found


def counted(statements: Sequence[Statement]) -> str:
    """Returns a text that says how many of some statements have each verdict."""
    numbers = Counter(statement.verdict for statement in statements)
    return ", ".join(f"{numbers[verdict]} {verdict}" for verdict in get_args(Verdict))
