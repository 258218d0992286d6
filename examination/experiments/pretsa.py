"""`tracecloak experiment pretsa`: the evaluation of PRETSA with learnt distances, on given logs.

Rösel, Fahrenkrog-Petersen, van der Aa and Weidlich ("A Distance Measure for Privacy-preserving
Process Mining based on Feature Learning"), section 4: PRETSA with Levenshtein's and with the
embedding distance for every k and t, Figures 2 to 4 and Table 3; PRETSA-case beside them.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, get_args

import numpy as np

from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.release_key import ReleaseKey
from tracecloak.anonymizers.pretsa.activity_embedding import event_distances
from tracecloak.anonymizers.variants.distance import PenaltyDirection
from tracecloak.examination.comparison.compare import Row
from tracecloak.examination.experiments.figures import shown
from tracecloak.examination.experiments.grids import (
    Cell,
    Flag,
    Grid,
    Released,
    Section,
    Table,
    boxes_of,
    numbers,
    table_of,
    wholes,
)
from tracecloak.examination.experiments.log import Log
from tracecloak.examination.experiments.measures import figures_of
from tracecloak.examination.experiments.settings import one_of, some_of
from tracecloak.examination.experiments.statements import (
    Statement,
    judged,
    medians,
)
from tracecloak.examination.measure.behaviour_measures import edges_of
from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.errors import UsageError

_DISTANCES = ("levenshtein", "embedding")
_ENDS = {"protected": True, "published": False}
_DIRECTIONS: tuple[PenaltyDirection, ...] = get_args(PenaltyDirection)
_TOP = (1, 2, 3)
# All settings of section 4.2, and those of them that an hour does ten times.
_ALL_K, _ALL_T = tuple(str(2**i) for i in range(1, 9)), ("0.1", "0.25", "0.5", "0.75", "1")
_K, _T = ("4", "32"), ("0.1", "0.5")


class PretsaGrid(Grid):
    """The experiment; see the module.

    Args:
        flags: Texts by name: `k`, `t`, `distances`, `ends` and `penalty_direction`, each None where
            it was not given.

    Raises:
        UsageError: One is out of range.
    """

    name: ClassVar[str] = "pretsa"
    title: ClassVar[str] = "PRETSA by two distances"
    methods: ClassVar[tuple[str, ...]] = ("pretsa", "pretsa-case")
    has_distances: ClassVar[bool] = True
    flags: ClassVar[tuple[Flag, ...]] = (
        Flag("k", f"fewest cases of a prefix (default {','.join(_K)})", full=",".join(_ALL_K)),
        Flag("t", f"of PRETSA, the distance of durations (default {','.join(_T)})",
             full=",".join(_ALL_T)),
        Flag("distances", "of variants (default levenshtein,embedding)"),
        Flag("ends", "protected: each variant has k cases; or published: each prefix only (default "
             "protected)"),
        Flag("penalty_direction", "of the embedding distance: text, paper_formula or authors_code "
             "(default text)"),
    )  # fmt: skip

    def __init__(self, flags: Mapping[str, str | None]) -> None:
        self._k = wholes("k", flags["k"], _K)
        self._t = numbers("t", flags["t"], _T, 0, 1)
        self._distances = some_of("distances", flags["distances"], _DISTANCES)
        self._ends = one_of("ends", flags["ends"], tuple(_ENDS))
        self._direction = one_of("penalty_direction", flags["penalty_direction"], _DIRECTIONS)

    def cells(self, log: Log) -> Iterator[Cell]:
        """Yields every k and t for each distance, and every k for PRETSA-case."""
        for distance in self._distances:
            for k in self._k:
                params = {"k": k, "distance": distance, "protect_ends": _ENDS[self._ends]}
                if distance == "embedding":
                    params["penalty_direction"] = self._direction
                for t in self._t:
                    yield _cell(_arm(distance, t), k, "pretsa", {**params, "t": float(t)})
                yield _cell(_arm(distance, None), k, "pretsa-case", params)

    def figures(self, log: Log, released: Released, cell: Cell) -> Row:
        """Returns the measures of activities and times; of the log itself its Table 3 too."""
        row = figures_of(log, released)
        return row if cell.method else {**row, **self._properties(log)}

    def _properties(self, log: Log) -> Row:
        """A row of Tables 2 and 3; distances only where the embedding is looked at."""
        row: Row = {f"top_{x}": share for x, share in zip(_TOP, top_shares(log), strict=True)}
        row["mean_cases"] = log.variants.n_cases / log.variants.n_variants
        row["most_cases"] = int(log.variants.counts.max())
        if "embedding" in self._distances:
            randomness = Randomness(ReleaseKey.generate(), "experiment", "", "")
            with contextlib.suppress(UsageError):  # without gensim: the releases say so
                distances = event_distances(log.variants, randomness)
                used = np.unique(log.variants.codes)
                between = distances[np.ix_(used, used)]
                row["event_distance_mean"] = float(between.mean())
                row["event_distance_std"] = float(between.std())
        return row

    def noted(self) -> Mapping[str, Any]:
        """Returns what the template of the notes prints."""
        return {"ends": self._ends, "direction": self._direction}

    def sections(self, log: Log, rows: Sequence[Row], log_row: Row) -> Iterator[Section]:
        """Yields Table 2, Figures 2 to 4 for every t, Table 3, and what the paper lacks."""
        yield Section("Table 2: the log", "", [_sizes_shown(log, log_row)], "table-2")
        for title, name, y, file in (
            ("Figure 2: advanced behavioural appropriateness", "appropriateness",
             "behavioural appropriateness", "figure-2"),
            ("Figure 3: truly sampled behaviour", "sampled_truly", "truly sampled score",
             "figure-3"),
            ("Figure 4: total duration error", "duration_error", "total duration error",
             "figure-4"),
        ):  # fmt: skip
            for t in (*self._t, None):
                arms = [_arm(distance, t) for distance in self._distances]
                chart = boxes_of(rows, name, arms, self._levels, y, "k")
                with_t = "PRETSA-case" if t is None else f"t = {t}"
                parts = [chart] if chart.values else []
                yield Section(
                    f"{title}, {with_t}", "", [*parts, self._table(rows, name, arms)],
                    f"{file}-{with_t.replace(' ', '')}",
                )  # fmt: skip
        yield Section("Table 3: the log", "", [_properties_shown(log_row)], "table-3")
        arms = [_arm(d, t) for d in self._distances for t in (*self._t, None)]
        for name, title in _FURTHER.items():
            yield Section(f"Beside the paper: {title}", "", [self._table(rows, name, arms)], name)

    def statements(self, log: Log, rows: Sequence[Row], log_row: Row) -> Iterator[Statement]:
        """Yields what section 4.3 states, each of the medians over all k and t that were run."""
        arms = {t: [_arm(d, t) for d in ("embedding", "levenshtein")] for t in self._t}

        n_pairs = len(self._t) * len(self._levels)

        def pairs(name: str) -> list[tuple[float, float]]:
            median = medians(rows, name, None if name == "duration_error" else 0.0)
            levels = itertools.product(self._t, self._levels)
            found = [(median(arms[t][0], k), median(arms[t][1], k)) for t, k in levels]
            return [(a, b) for a, b in found if a is not None and b is not None]

        for name, figure, what in (
            ("appropriateness", "Figure 2", "behavioural appropriateness"),
            ("sampled_truly", "Figure 3", "the truly sampled score"),
        ):
            yield _better(
                f"section 4.3, {figure}",
                f"the embedding improves {what} for certain k and t",
                pairs(name),
                n_pairs,
            )
        more = [a - b for a, b in pairs("duration_error")]
        by = float(np.median(more)) if more else 0.0
        yield judged(
            "section 4.3, Figure 4",
            "the embedding does not make the total duration error worse (by the median of all)",
            [by <= _SAME if len(more) == n_pairs else None],
            f"larger in {sum(a > 0 for a in more)} of {len(more)} settings, by {shown(by)} in the "
            "median",
        )
        mean, std = log_row.get("event_distance_mean"), log_row.get("event_distance_std")
        printed = _PRINTED.get((log.traces.n_cases, log.variants.n_variants))
        text = "Tables 2 and 3 have this log's figures (distances within 0.1, shares within 0.01)"
        if printed is None:
            yield judged("Tables 2 and 3", text, (), "this is not a log of the paper")
            return
        tops = [log_row[f"top_{x}"] for x in _TOP]
        here = [log_row["mean_cases"], log_row["most_cases"], mean, std, *tops]
        near = (0.05, 0, 0.1, 0.1, 0.01, 0.01, 0.01)
        holds = [
            None if a is None else abs(a - b) <= by + 1e-9
            for a, b, by in zip(here, printed, near, strict=True)
        ]
        yield judged(
            "Tables 2 and 3",
            text,
            holds,
            "; ".join(
                f"{name} {shown(a)} against {shown(b)}"
                for name, a, b in zip(_PRINTED_NAMES, here, printed, strict=True)
            ),
        )

    @property
    def _levels(self) -> list[str]:
        return list(map(str, self._k))

    def _table(self, rows: Sequence[Row], name: str, arms: Sequence[str]) -> Table:
        run = {row["arm"] for row in rows}
        return table_of(rows, name, "k", [arm for arm in arms if arm in run], self._levels)


# A smaller difference of the total duration error does not count as one.
_SAME = 0.01
# Tables 2 and 3 of the paper, by numbers of cases and variants.
_PRINTED_NAMES = (
    "cases a variant", "most cases", "mean distance", "its deviation", "top 1", "top 2", "top 3",
)  # fmt: skip
_PRINTED = {
    (1434, 116): (12.4, 713, 0.83, 0.29, 0.828, 0.913, 0.992),
    (1050, 846): (1.2, 35, 0.77, 0.42, 0.670, 0.821, 0.943),
    (2099, 896): (2.3, 206, 0.93, 0.28, 0.888, 0.967, 0.990),
}
_FURTHER = {
    "data_utility": "data utility: 1 minus the earth mover's distance of variants",
    "total_variation": "total variation of variants",
    "sampled_to_the_unit": "directly-follows pairs with the expected count to the unit",
    "graph_kept": "directly-follows edges that are kept",
    "bottlenecks_shared": "bottlenecks that are kept",
    "released_variants": "released variants",
    "released_cases": "released cases",
    "events_kept": "released events as a share of the log's",
    "seconds": "seconds, from cases in memory to released cases",
}


def top_shares(log: Log) -> Sequence[float | None]:
    """Returns the share of the 1, 2 and 3 most frequent directly-followers of an activity.

    Table 3: medians over the activities that are followed by any; None if none is.
    """
    edges = edges_of(log.traces)
    order = np.lexsort((-edges.weight, edges.source))
    sources, weights = edges.source[order], edges.weight[order].astype(np.int64)
    if not len(sources):
        return [None] * len(_TOP)
    heads = np.flatnonzero(np.diff(sources, prepend=-1))
    group = np.cumsum(np.diff(sources, prepend=-1) != 0) - 1
    rank = np.arange(len(sources)) - heads[group]
    total = sum_groups(group, weights, len(heads))
    shares = []
    for x in _TOP:
        top = sum_groups(group[rank < x], weights[rank < x], len(heads))
        shares.append(float(np.median(top / total)))
    return shares


def _better(
    source: str, text: str, pairs: Sequence[tuple[float, float]], n_pairs: int
) -> Statement:
    """Whether the first figure is above the second in some of so many settings."""
    n = sum(a > b for a, b in pairs)
    worse = sum(a < b for a, b in pairs)
    figures = f"higher in {n} and lower in {worse} of {len(pairs)} settings"
    return judged(source, text, [n > 0 if len(pairs) == n_pairs else None], figures)


def _sizes_shown(log: Log, log_row: Row) -> Table:
    """A row of Table 2."""
    return Table(
        ("log", "cases", "variants", "cases a variant: mean", "most"),
        [(
            log.name, f"{log.traces.n_cases:,}", f"{log.variants.n_variants:,}",
            f"{log_row['mean_cases']:.1f}", f"{log_row['most_cases']:,}",
        )],
    )  # fmt: skip


def _properties_shown(log_row: Row) -> Table:
    names = ["event_distance_mean", "event_distance_std", *(f"top_{x}" for x in _TOP)]
    header = ("event distance: mean", "standard deviation", *(f"top {x} followers" for x in _TOP))
    return Table(
        ("of the log", *header),
        [("median of activities", *(shown(log_row.get(n)) for n in names))],
    )


def _cell(arm: str, k: int, method: str, params: Mapping[str, object]) -> Cell:
    return Cell(arm, str(k), "", method, params, needs_log=True)


def _arm(distance: str, t: str | None) -> str:
    return f"PRETSA-case, {distance}" if t is None else f"PRETSA, {distance}, t = {t}"
