"""What the Amun paper prints of its 14 logs, to stand beside what comes out here.

Elkoumy, Pankova and Dumas, "Differentially Private Release of Event Logs for Process Mining",
Tables 6 to 9 and Figure 3, in `papers/amun.toml`. Each figure of Tables 6 to 8 is of one run; `-`
is the paper's own for a run that ended without one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib import resources
from typing import NamedTuple

_PRINTED = tomllib.loads(
    (resources.files(__package__) / "papers" / "amun.toml").read_text(encoding="utf-8")
)
SAMPLING, FILTERING, OVERSAMPLING = "Amun, sampling", "Amun, filtering", "Amun, oversampling"
PRIPEL, SACOFA = "PRIPEL", "SaCoFa"
_OF_AMUN = (SAMPLING, FILTERING, OVERSAMPLING, PRIPEL)
# The columns of each table behind the log and, but for the last two, the advantage.
_COLUMNS = {
    "table_6": [("jaccard", one) for one in (SAMPLING, FILTERING, PRIPEL, SACOFA)],
    "table_7": [("epsilon_t", ""), *(("frequencies", one) for one in _OF_AMUN),
                *(("times", one) for one in _OF_AMUN)],
    "table_8": [("seconds", one) for one in _OF_AMUN],
    "figure_3": [("lost", one) for one in (SAMPLING, FILTERING, PRIPEL)],
}  # fmt: skip


class Described(NamedTuple):
    """A row of Table 9: a log, its numbers, and the lengths of its shortest and its longest trace.

    `durations` is how long its shortest and its longest case take, and their mean, as printed.
    """

    name: str
    n_cases: int
    n_activities: int
    n_events: int
    n_edges: int
    n_variants: int
    shortest: int
    longest: int
    durations: tuple[str, ...]


def described(n_cases: int, n_events: int, n_variants: int) -> Described | None:
    """Returns the log of the paper that has these numbers, or None: it has none that does."""
    sizes = n_cases, n_events, n_variants
    return next((x for x in TABLE_9 if (x.n_cases, x.n_events, x.n_variants) == sizes), None)


def printed(table: str, log: str, g: str, method: str = "") -> float | None:
    """Returns a figure of the paper, or None where it has none.

    Args:
        table: `jaccard`, `frequencies`, `times` (months), `seconds` or `lost`; `epsilon_t`: the
            mean epsilon of the times of Table 7, which is of no method.
        log: A name of Table 9.
        g: The guessing advantage, as text.
        method: One of those above.
    """
    return FIGURES.get((table, log, f"{float(g):g}", method))


def _rows(name: str) -> Iterator[list[str]]:
    for line in _PRINTED[name].strip().splitlines():
        yield [cell.strip() for cell in line.split(";")]


def _figures() -> Iterator[tuple[tuple[str, str, str, str], float]]:
    for name, columns in _COLUMNS.items():
        for log, *cells in _rows(name):
            g = "0.2" if len(cells) == len(columns) else cells.pop(0)
            for (table, method), cell in zip(columns, cells, strict=True):
                if cell != "-":
                    factor = 60 if table == "seconds" else 1
                    yield (table, log, g, method), float(cell) * factor


def _described(name: str, *cells: str) -> Described:
    cases, tasks, events, edges, variants, shortest, longest = map(int, cells[:7])
    return Described(name, cases, tasks, events, edges, variants, shortest, longest, cells[7:])


TABLE_9 = tuple(_described(*cells) for cells in _rows("table_9"))
FIGURES = dict(_figures())
