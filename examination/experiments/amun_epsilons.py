"""Amun's epsilons of times, as the paper has them in Table 7: the mean over a log or a release.

Not here: Amun's own estimate of each (`anonymizers.amun`).

Beside them is what the Amun paper prints of its 14 logs, to stand beside what comes out here.

Elkoumy, Pankova and Dumas, "Differentially Private Release of Event Logs for Process Mining",
Tables 6 to 9 and Figure 3, in `papers/amun.toml`. Each figure of Tables 6 to 8 is of one run; `-`
is the paper's own for a run that ended without one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from tracecloak.anonymizers.amun.guessing_advantage import epsilon_of_counts
from tracecloak.anonymizers.amun.method import Amun
from tracecloak.anonymizers.amun.params import DAY_US, AmunParams, ticks_of
from tracecloak.anonymizers.amun.params import Released as ReleasedByAmun
from tracecloak.anonymizers.contract.in_memory import decide
from tracecloak.anonymizers.noise.release_key import KEY_BYTES, ReleaseKey
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.durations import DurationTable

# Releases over which the mean epsilon of the released times is taken.
N_RELEASES = 5


def of_log(traces: TraceBatch, params: AmunParams) -> float:
    """Returns the mean of the epsilons that Amun estimates for the times of a log, starts included.

    Before any is divided by the copies of its case, which `of_releases` does. A time whose group
    has one value only has the epsilon of the least favourable prior, (1 - g) / 2, which is that of
    the counts.

    Args:
        traces: The log; not empty.
        params: Amun's, in the mode sampling.
    """
    key = ReleaseKey.generate()
    decisions: Mapping[str, Any] = decide([traces], Amun(), params, key, "experiment", "")[1]
    epsilons, counts = _epsilons_of(traces, decisions, params)
    return float((epsilons * counts).sum() / counts.sum())


def of_releases(traces: TraceBatch, params: AmunParams) -> float:
    """Returns the mean epsilon of the times of a released log, starts included.

    What the paper prints as epsilon_t: its authors' code takes the mean after it has divided the
    epsilon of each step by the copies of its case. The mean of some releases under keys of their
    own, so that a run that is taken up again finds the same.

    Args:
        traces: The log; not empty.
        params: Amun's, in the mode sampling.
    """
    means = []
    for number in range(N_RELEASES):
        key = ReleaseKey(bytes([number]) * KEY_BYTES)
        randomness, decided = decide([traces], Amun(), params, key, "experiment", "")
        decisions: Mapping[str, Any] = decided
        epsilons = _epsilons_of(traces, decisions, params)[0]
        released = ReleasedByAmun.of(traces, decisions, params, randomness)
        _, groups, ticks = ticks_of(released.traces, decisions, params)
        of_events = epsilons[decisions["sampling"].times.find(groups, ticks)]
        copies = np.repeat(released.copies, released.traces.lengths)
        if params.choices.divided_epsilons == "steps":
            copies[released.traces.is_first] = 1
        means.append(float((of_events / copies).mean()))
    return float(np.mean(means))


def _epsilons_of(
    traces: TraceBatch, decisions: Mapping[str, Any], params: AmunParams
) -> tuple[np.ndarray, np.ndarray]:
    """(float64[n_pairs], int64[n_pairs]): epsilons of the times that were decided, and how many."""
    n_groups = decisions["dafsa"].dafsa.n_transitions + 1
    _, groups, ticks = ticks_of(traces, decisions, params)
    table = DurationTable.from_events(groups, ticks)
    smallest, largest = table.extremes(n_groups)
    tick_us = np.where(table.groups == n_groups - 1, DAY_US, params.choices.time_unit_us).astype(
        np.float64
    )
    widths = (largest - smallest)[table.groups] * tick_us
    scales = decisions["sampling"].scales.astype(np.float64)
    epsilons = np.full(len(scales), epsilon_of_counts(params.guessing_advantage))
    spread = scales > 0
    epsilons[spread] = widths[spread] / scales[spread]
    return epsilons, table.counts


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
