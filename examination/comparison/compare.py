"""`tracecloak compare`: methods at the same true epsilon on given logs, beside lines without noise.

Every method gets the same epsilon for all that it releases, per case added or removed, the same
delta if it needs one, and the same public facts: the activities, a length at which cases are cut,
and the dates of a log with times. For the comparison they are read from the log, which a release
must not do. Releases are made in memory under fresh keys and measured against the whole log. The
figures are exact about private data: for the operator only.

The lines are a bootstrap of the log, which no release need pass, and chains with its exact counts
(`examination.measure.intervals`), which are the limit of methods that draw cases from such a chain.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tracecloak.examination.comparison import rows
from tracecloak.examination.comparison.contenders import Contender, Release, Released
from tracecloak.examination.comparison.original import Original, graph_figures
from tracecloak.examination.comparison.rows import Asked, Row, Step
from tracecloak.examination.measure import measures
from tracecloak.examination.measure.intervals import CHAINS, bootstrap
from tracecloak.examination.measure.mining import ModelQuality, PatientMiner, require_pm4py
from tracecloak.examination.measure.registry import checked
from tracecloak.schemas.statistics.variants import VariantHistogram

DEFAULT_EPSILONS = ("0.1", "0.5", "1", "2", "4")
DEFAULT_DELTA = "1e-6"
DEFAULT_REPETITIONS = 20
# Seconds after which a model has no figures.
_PATIENCE = 3600.0
# The lines, and what they have in place of a budget.
BOOTSTRAP = "bootstrap of the log"
LINES = (BOOTSTRAP, *CHAINS)
NO_BUDGET = "none"

_OF_MODELS = ("fitness", "precision", "f_score")


@dataclass(frozen=True)
class Comparison:
    """What is compared with what.

    Attributes:
        originals: The logs, of distinct names; none before they are read, which can take long.
        methods: The methods and peers by name.
        epsilons: As texts.
        delta: As text; methods that need none spend none.
        repetitions: Releases of each method on each log at each epsilon.
        mined: Of so many of them a process is mined.
        max_minutes: Of each log, after which no release of it is begun: a public bound on the time
            that a comparison takes. None: there is no end.

    Raises:
        UsageError: One of them is out of range, a name comes twice, or a library that is needed is
            not installed.
    """

    originals: tuple[Original, ...]
    methods: Mapping[str, Contender]
    epsilons: tuple[str, ...] = DEFAULT_EPSILONS
    delta: str = DEFAULT_DELTA
    repetitions: int = DEFAULT_REPETITIONS
    mined: int = 0
    max_minutes: float | None = None

    def __post_init__(self) -> None:
        names = {"log": [one.name for one in self.originals], "epsilons": self.epsilons}
        rows.check_runs(names, self.repetitions, self.mined, self.max_minutes)
        for method in self.methods.values():
            for epsilon in self.epsilons:
                method.check(epsilon, self.delta)
        measures.require_pot()
        if self.mined:
            require_pm4py()

    def rows(self, known: Iterable[Row] = ()) -> Iterator[tuple[Row, bool]]:
        """Yields every row, and whether it was computed now or is one of those known.

        See `rows_of_steps`.
        """
        seconds = math.inf if self.max_minutes is None else 60 * self.max_minutes
        for original in self.originals:
            miner = partial(PatientMiner, original.variants, original.vocabulary, _PATIENCE)
            stage = f"compare on {original.name}"
            yield from rows.rows_of_steps(stage, self.steps(original), miner, known, seconds)

    def steps(self, original: Original) -> list[Step]:
        """Returns what is done on a log.

        All lines and methods release once, then all once more, and so on: where the time ends,
        there is about as much of each.
        """
        version = rows.code_version()
        head = {"version": version, **original.identity()}

        @functools.cache  # what a cell counts, it counts once
        def release_of(name: str, epsilon: str) -> Release:
            method = self.methods[name]
            return method.cell(original, epsilon, method.delta(self.delta))

        # What is released: its name, kind, epsilon, delta, further digest, and what makes it.
        arms: list[tuple[str, str, str, str, str, Any]] = [
            (line, "line", NO_BUDGET, NO_BUDGET, "", partial(_line_figures, original, line))
            for line in LINES
        ]
        arms += [
            (name, method.kind, epsilon, method.delta(self.delta), method.code,
             partial(_release_figures, original, partial(release_of, name, epsilon)))
            for name, method in self.methods.items() for epsilon in self.epsilons
        ]  # fmt: skip

        def step(repetition: int, arm: tuple[str, str, str, str, str, Any]) -> Step:
            name, kind, epsilon, delta, code, release = arm
            is_mined = repetition < self.mined and kind not in ("line", "graph")
            row = {
                **head, "version": version + code, "method": name, "kind": kind,
                "epsilon": epsilon, "delta": delta, "repetition": repetition,
            }  # fmt: skip
            return Step(
                (name, epsilon),
                row,
                f"{name}, epsilon {epsilon}",
                partial(release, repetition if kind == "line" else is_mined),
                partial(_model_row, is_mined) if kind != "line" else lambda *_: {},
                lambda before: is_mined <= before.get("is_mined", False),
            )

        return [step(repetition, arm) for repetition in range(self.repetitions) for arm in arms]

    def ordered(self, made: Iterable[Row]) -> list[Row]:
        """Returns all rows in the order of the steps."""
        return rows.ordered([step for one in self.originals for step in self.steps(one)], made)


def _release_figures(
    original: Original, release_of: Any, is_mined: bool
) -> tuple[Row, Asked | None]:
    released: Released = release_of()()
    asked = released.variants if is_mined else None
    return {**_figures(original, released), "seconds": released.seconds}, asked


def _model_row(is_mined: bool, quality: ModelQuality | None, seconds: float | None) -> Row:
    model_row = {f"mined_{name}": getattr(quality, name, None) for name in _OF_MODELS}
    return {"is_mined": is_mined, **checked(model_row)}


def _figures(original: Original, released: Released) -> Row:
    """The measures of a release, by what it holds."""
    if released.graph is not None:
        return graph_figures(original.side, released.graph, released.half_width)
    return original.figures(released.variants, released.traces)


def _line_figures(original: Original, name: str, draw: int) -> tuple[Row, None]:
    """The measures of a line: all that it has; a chain has no times."""
    if name == BOOTSTRAP:
        traces = bootstrap(original.traces, draw).recode(original.vocabulary)
        return _figures(original, Released(VariantHistogram.from_traces(traces), traces)), None
    drawn = CHAINS[name].draw(original.variants, len(original.vocabulary), draw)
    return _figures(original, Released(drawn)), None
