"""`tracecloak experiment pretsa`: the evaluation of PRETSA with learnt distances, on given logs.

Rösel, Fahrenkrog-Petersen, van der Aa and Weidlich ("A Distance Measure for Privacy-preserving
Process Mining based on Feature Learning"), section 4: PRETSA with Levenshtein's and with the
embedding distance for every k and t, Figures 2 to 4 and Table 3; PRETSA-case beside them. What is
shown and stated is in `papers/pretsa.toml`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.release_key import ReleaseKey
from tracecloak.anonymizers.pretsa.activity_embedding import event_distances
from tracecloak.examination.comparison.compare import Row
from tracecloak.examination.experiments.networks import Log
from tracecloak.examination.experiments.paper import Cell, Paper, Released, figures_of
from tracecloak.examination.experiments.table import Figures, Section, Table
from tracecloak.examination.measure.behaviour_measures import edges_of
from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.errors import UsageError

_TOP = (1, 2, 3)


class PretsaPaper(Paper):
    """The evaluation; see the module."""

    name: ClassVar[str] = "pretsa"

    def cells(self, log: Log) -> Iterator[Cell]:
        """Yields every k and t for each distance, and every k for PRETSA-case."""
        for distance in self.given["distances"]:
            for k in self.given["k"]:
                params = {
                    "k": k, "distance": distance, "protect_ends": self.given["ends"] == "protected"
                }  # fmt: skip
                if distance == "embedding":
                    params["penalty_direction"] = self.given["penalty_direction"]
                for t in self.given["t"]:
                    arm, with_t = f"PRETSA, {distance}, t = {t}", {**params, "t": float(t)}
                    yield Cell(arm, str(k), "", "pretsa", with_t, needs_log=True)
                yield Cell(
                    f"PRETSA-case, {distance}", str(k), "", "pretsa-case", params, needs_log=True
                )

    def figures(self, log: Log, released: Released, cell: Cell) -> Row:
        """Returns the measures of activities and times; of the log itself its Table 3 too."""
        row = figures_of(log, released)
        return row if cell.method else {**row, **self._properties(log)}

    def _properties(self, log: Log) -> Row:
        """A row of Tables 2 and 3; distances only where the embedding is looked at."""
        row: Row = {f"top_{x}": share for x, share in zip(_TOP, top_shares(log), strict=True)}
        row["mean_cases"] = log.variants.n_cases / log.variants.n_variants
        row["most_cases"] = int(log.variants.counts.max())
        if "embedding" in self.given["distances"]:
            randomness = Randomness(ReleaseKey.generate(), "experiment", "", "")
            with contextlib.suppress(UsageError):  # without gensim: the releases say so
                distances = event_distances(log.variants, randomness)
                used = np.unique(log.variants.codes)
                between = distances[np.ix_(used, used)]
                row["event_distance_mean"] = float(between.mean())
                row["event_distance_std"] = float(between.std())
        return row

    def sizes(self, log: Log, table: Figures, spec: Row) -> Iterator[Section]:
        """Yields Table 2."""
        row = table.rows[0]
        cells = (
            log.name, f"{log.traces.n_cases:,}", f"{log.variants.n_variants:,}",
            f"{row['mean_cases']:.1f}", f"{row['most_cases']:,}",
        )  # fmt: skip
        header = ("log", "cases", "variants", "cases a variant: mean", "most")
        yield Section("Table 2: the log", "", [Table(header, [cells])], "table-2")


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
