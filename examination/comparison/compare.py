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

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import ClassVar

from tracecloak.examination.comparison.contenders import Contender, Release, Released
from tracecloak.examination.comparison.original import Original, graph_figures
from tracecloak.examination.comparison.rows import Asked, Benchmark, Cell, Row
from tracecloak.examination.measure import measures
from tracecloak.examination.measure.intervals import CHAINS, bootstrap
from tracecloak.examination.measure.mining import require_pm4py
from tracecloak.schemas.statistics.variants import VariantHistogram

DEFAULT_EPSILONS = ("0.1", "0.5", "1", "2", "4")
DEFAULT_DELTA = "1e-6"
DEFAULT_REPETITIONS = 20
# The lines, and what they have in place of a budget.
BOOTSTRAP = "bootstrap of the log"
LINES = (BOOTSTRAP, *CHAINS)
NO_BUDGET = "none"


@dataclass(frozen=True, eq=False)
class Comparison(Benchmark):
    """What is compared with what.

    Attributes:
        logs: See `Benchmark`, as all others.
        methods: The methods and peers by name.
        epsilons: As texts.
        delta: As text; methods that need none spend none.

    Raises:
        UsageError: One of them is out of range, a name comes twice, or a library that is needed is
            not installed.
    """

    stage: ClassVar[str] = "compare"
    shares_time: ClassVar[bool] = False

    methods: Mapping[str, Contender] = field(kw_only=True)
    epsilons: tuple[str, ...] = field(kw_only=True)
    delta: str = field(kw_only=True)

    def __post_init__(self) -> None:
        self.check_runs(epsilons=self.epsilons)
        for method in self.methods.values():
            for epsilon in self.epsilons:
                method.check(epsilon, self.delta)
        measures.require_pot()
        if self.mined:
            require_pm4py()

    @property
    def model_figures(self) -> Mapping[str, str]:
        """What is said of the quality of a model."""
        return {f"mined_{name}": name for name in ("fitness", "precision", "f_score")}

    def cells(self, log: Original) -> Iterator[Cell]:
        """Yields all lines, and all methods with each epsilon."""
        for line in LINES:
            yield Cell(line, NO_BUDGET, NO_BUDGET, "")
        for name, method in self.methods.items():
            for epsilon in self.epsilons:
                yield Cell(name, epsilon, epsilon, name, is_mined=method.kind != "graph")

    def identity(self, cell: Cell) -> Row:
        """Returns the columns of rows that distinguish a cell from others."""
        row = {"method": cell.arm, "kind": "line", "epsilon": cell.epsilon, "delta": NO_BUDGET}
        if (method := self.methods.get(cell.method)) is not None:
            row |= {"kind": method.kind, "delta": method.delta(self.delta)}
        return row

    def measure(self, log: Original, cell: Cell, repetition: int) -> tuple[Row, Asked]:
        """Makes a release, or draws a line, and measures it."""
        if not cell.method:
            drawn = _drawn(log, cell.arm, repetition)
            return _figures(log, drawn), drawn.variants
        released = self._release_of(log, cell.method, cell.epsilon)()
        return {**_figures(log, released), "seconds": released.seconds}, released.variants

    @cached_property
    def _release_of(self) -> Callable[[Original, str, str], Release]:
        """What makes the releases of a cell, which counts once what it counts."""
        return cache(lambda log, name, epsilon: self.methods[name].cell(log, epsilon, self.delta))


def _figures(original: Original, released: Released) -> Row:
    """The measures of a release, by what it holds."""
    if released.graph is not None:
        return graph_figures(original.side, released.graph, released.half_width)
    return original.figures(released.variants, released.traces)


def _drawn(original: Original, name: str, draw: int) -> Released:
    """A draw of a line; a chain has no times."""
    if name == BOOTSTRAP:
        traces = bootstrap(original.traces, draw).recode(original.vocabulary)
        return Released(VariantHistogram.from_traces(traces), traces)
    return Released(CHAINS[name].draw(original.variants, len(original.vocabulary), draw))
