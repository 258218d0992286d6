"""What the Amun paper prints of its 14 logs, to stand beside what comes out here.

Elkoumy, Pankova and Dumas, "Differentially Private Release of Event Logs for Process Mining",
Tables 6 to 9 and Figure 3, in `papers/amun.toml`. Each figure of Tables 6 to 8 is of one run; `-`
is the paper's own for a run that ended without one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

# The tables, by what they are called.
_PRINTED = tomllib.loads(
    (resources.files(__package__) / "papers" / "amun.toml").read_text(encoding="utf-8")
)

# Columns of the tables, as the experiment calls its methods.
SAMPLING, FILTERING, OVERSAMPLING = "Amun, sampling", "Amun, filtering", "Amun, oversampling"
PRIPEL, SACOFA = "PRIPEL", "SaCoFa"
_OF_AMUN = (SAMPLING, FILTERING, OVERSAMPLING, PRIPEL)
_COLUMNS = {
    "jaccard": (SAMPLING, FILTERING, PRIPEL, SACOFA),
    "frequencies": _OF_AMUN,
    "times": _OF_AMUN,
    "seconds": _OF_AMUN,
    "lost": (SAMPLING, FILTERING, PRIPEL),
}


@dataclass(frozen=True)
class Described:
    """A row of Table 9.

    Attributes:
        name: Of the log.
        n_cases: Traces.
        n_activities: Tasks.
        n_events: Events.
        n_edges: Edges.
        n_variants: Case variants.
        lengths: Of the shortest and of the longest trace.
        durations: Of the shortest and of the longest case, and their mean, as printed.
    """

    name: str
    n_cases: int
    n_activities: int
    n_events: int
    n_edges: int
    n_variants: int
    lengths: tuple[int, int]
    durations: tuple[str, str, str]


def described(n_cases: int, n_events: int, n_variants: int) -> Described | None:
    """Returns the log of the paper that has these numbers, or None: it has none that does."""
    for one in TABLE_9:
        if (one.n_cases, one.n_events, one.n_variants) == (n_cases, n_events, n_variants):
            return one
    return None


def printed(table: str, log: str, g: str, method: str) -> float | None:
    """Returns a figure of the paper, or None where it has none.

    Args:
        table: `jaccard`, `frequencies`, `times` (months), `seconds` or `lost`.
        log: A name of Table 9.
        g: The guessing advantage, as text.
        method: One of those above.
    """
    return _FIGURES.get((table, log, _advantage(g), method))


def epsilon_t(log: str, g: str) -> float | None:
    """Returns the mean epsilon of the times of Table 7, or None where it has none."""
    return _FIGURES.get(("epsilon_t", log, _advantage(g), ""))


def _advantage(g: str) -> str:
    return f"{float(g):g}"


def _rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split(";")] for line in text.strip().splitlines()]


def _table_9() -> tuple[Described, ...]:
    logs = []
    for name, *cells in _rows(_PRINTED["table_9"]):
        cases, tasks, events, edges, variants, shortest, longest = map(int, cells[:7])
        low, high, mean = cells[7:]
        logs.append(
            Described(name, cases, tasks, events, edges, variants, (shortest, longest),
                      (low, high, mean))
        )  # fmt: skip
    return tuple(logs)


def _figures() -> Mapping[tuple[str, str, str, str], float]:
    figures: dict[tuple[str, str, str, str], float] = {}

    def add(table: str, log: str, g: str, cells: list[str], factor: float = 1) -> None:
        for method, cell in zip(_COLUMNS[table], cells, strict=True):
            if cell != "-":
                figures[table, log, g, method] = float(cell) * factor

    for log, g, *cells in _rows(_PRINTED["table_6"]):
        add("jaccard", log, g, cells)
    for log, g, epsilon, *cells in _rows(_PRINTED["table_7"]):
        figures["epsilon_t", log, g, ""] = float(epsilon)
        add("frequencies", log, g, cells[:4])
        add("times", log, g, cells[4:])
    for log, *cells in _rows(_PRINTED["table_8"]):
        add("seconds", log, "0.2", cells, 60)
    for log, *cells in _rows(_PRINTED["figure_3"]):
        add("lost", log, "0.2", cells)
    return figures


TABLE_9 = _table_9()
_FIGURES = _figures()
