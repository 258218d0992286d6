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

import hashlib
import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tracecloak.examination.comparison.contenders import Contender, Outcome, Release
from tracecloak.examination.comparison.original import Original
from tracecloak.examination.measure import measures
from tracecloak.examination.measure.intervals import CHAINS, bootstrap
from tracecloak.examination.measure.mining import require_pm4py
from tracecloak.examination.measure.registry import checked
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.manifest import TOOL_VERSION
from tracecloak.schemas.statistics.variants import VariantHistogram
from tracecloak.transforms.files import keep_private

_LOG = logging.getLogger("tracecloak")
DEFAULT_EPSILONS = ("0.1", "0.5", "1", "2", "4")
DEFAULT_DELTA = "1e-6"
DEFAULT_REPETITIONS = 20
# Mining takes seconds a release, hundreds of times what the other figures take.
DEFAULT_MINED = 3
# The lines, and what they have in place of a budget.
BOOTSTRAP = "bootstrap of the log"
LINES = (BOOTSTRAP, *CHAINS)
NO_BUDGET = "none"

_OF_MODELS = ("fitness", "precision", "f_score")

# What a row is known by: where these agree, it is not computed again.
_IDENTITY = (
    "version", "log", "cases", "events", "variants", "max_length", "method", "epsilon", "delta",
    "repetition",
)  # fmt: skip

# A row is a repetition: what it is known by, and figures (null where one does not apply).
Row = dict[str, Any]


def check_runs(
    names: Mapping[str, Sequence[str]], repetitions: int, mined: int, max_minutes: float | None
) -> None:
    """Checks how often and how long something is run.

    Args:
        names: What must be distinct, by what it is called in the error.
        repetitions: This and the others are as in `Comparison`.
        mined: See there.
        max_minutes: See there.

    Raises:
        UsageError: One of them is out of range, or a name comes twice.
    """
    if repetitions < 1:
        raise UsageError(f"repetitions must be at least 1, got {repetitions}")
    if mined < 0:
        raise UsageError(f"mine must be at least 0, got {mined}")
    if max_minutes is not None and not 0 < max_minutes <= 10**6:
        raise UsageError(f"max_minutes must be above 0 and at most 10^6, got {max_minutes:g}")
    for what, given in names.items():
        twice = sorted({one for one in given if given.count(one) > 1})
        if twice:
            raise UsageError(f"{what} {twice[0]!r} is there twice: leave one out, or rename it")


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
        check_runs(names, self.repetitions, self.mined, self.max_minutes)
        for method in self.methods.values():
            for epsilon in self.epsilons:
                method.check(epsilon, self.delta)
        measures.require_pot()
        if self.mined:
            require_pm4py()

    def rows(self, known: Iterable[Row] = ()) -> Iterator[tuple[Row, bool]]:
        """Yields every row, and whether it was computed now or is one of those known.

        All methods release once, then all once more, and so on: where the time ends, there is about
        as much of each. A row whose method refuses its parameters has `refused` in place of
        figures: the reason.
        """
        known_rows = {_key(row): row for row in known}
        version = code_version()
        n_cells = len(self.methods) * len(self.epsilons)
        total = len(self.originals) * self.repetitions * n_cells
        for number, original in enumerate(self.originals):
            head = {"version": version, **original.identity()}
            seconds = math.inf if self.max_minutes is None else 60 * self.max_minutes
            run = _OfLog(original, known_rows, time.monotonic() + seconds, self.mined)
            cells = [
                _Cell({**head, "version": version + method.code, "method": name,
                       "kind": method.kind, "epsilon": epsilon,
                       "delta": method.delta(self.delta)}, method)
                for name, method in self.methods.items()
                for epsilon in self.epsilons
            ]  # fmt: skip
            for repetition in range(self.repetitions):
                for line in LINES:
                    yield from run.line(head, line, repetition)
                for place, cell in enumerate(cells):
                    done = (number * self.repetitions + repetition) * n_cells + place
                    yield from run.release(cell, repetition, done, total)


@dataclass
class _Cell:
    """One method on one log at one epsilon: what its rows begin with, and what releases it."""

    head: Row
    method: Contender
    release: Release | None = None
    is_refused: bool = False


@dataclass(frozen=True)
class _OfLog:
    """The releases of one log, up to the end of its time."""

    original: Original
    known: Mapping[tuple[Any, ...], Row]
    end: float
    mined: int

    @property
    def is_over(self) -> bool:
        """Whether no release is begun any more."""
        return time.monotonic() >= self.end

    def line(self, head: Row, name: str, repetition: int) -> Iterator[tuple[Row, bool]]:
        """Yields the row of one draw of a line; none where the time is over."""
        line = {
            **head,
            "method": name,
            "kind": "line",
            "epsilon": NO_BUDGET,
            "delta": NO_BUDGET,
            "repetition": repetition,
        }
        before = self.known.get(_key(line))
        if before is not None:
            yield before, False
        elif not self.is_over:
            yield {**line, **_line_figures(self.original, name, repetition)}, True

    def release(
        self, cell: _Cell, repetition: int, done: int, total: int
    ) -> Iterator[tuple[Row, bool]]:
        """Yields the row of one release; none after a refusal, or where the time is over."""
        row = {**cell.head, "repetition": repetition}
        is_mined = repetition < self.mined and cell.method.kind != "graph"
        before = self.known.get(_key(row))
        if cell.is_refused:
            return
        if before is not None and ("refused" in before or is_mined <= before["is_mined"]):
            cell.is_refused = "refused" in before
            yield before, False
            return
        if self.is_over:
            return
        _LOG.info(
            "compare: %s, %s, epsilon %s (%d of %d)",
            row["log"], row["method"], row["epsilon"], done + 1, total,
            extra={"stage": "compare", "done": done, "total": total},
        )  # fmt: skip
        try:
            if cell.release is None:
                cell.release = cell.method.cell(self.original, row["epsilon"], row["delta"])
            begun = time.perf_counter()
            released = cell.release()
            seconds = time.perf_counter() - begun
        except UsageError as error:
            cell.is_refused = True
            yield {**row, "refused": str(error)}, True
            return
        quality = None
        if is_mined and released.variants is not None:
            quality = self.original.process.of(released.variants, self.original.vocabulary)
        figures = _figures(self.original, released)
        of_model = {f"mined_{name}": getattr(quality, name, None) for name in _OF_MODELS}
        timed = {"seconds": seconds, "is_mined": is_mined}
        yield {**row, **figures, **timed, **checked(of_model)}, True


def _figures(original: Original, released: Outcome) -> Row:
    """The measures of a release, by what it holds."""
    row: Row = {}
    if released.variants is not None:
        row |= original.figures(released.variants)
    if released.traces is not None:
        row |= original.figures_of_times(released.traces)
    if released.graph is not None:
        row |= original.figures_of_graph(released.graph, released.half_width)
    return row


def _line_figures(original: Original, name: str, draw: int) -> Row:
    """The measures of a line: all that it has; a chain has no times."""
    if name == BOOTSTRAP:
        traces = bootstrap(original.traces, draw).recode(original.vocabulary)
        variants = VariantHistogram.from_traces(traces)
        return {**original.figures(variants), **original.figures_of_times(traces)}
    drawn = CHAINS[name].draw(original.variants, len(original.vocabulary), draw)
    return dict(original.figures(drawn))


def code_version() -> str:
    """Returns the version of tracecloak and a digest of the code that figures depend on.

    So no figure of a method that was changed since is taken for one of the method as it is; a
    method that another distribution adds has a digest of its own, see `Contender.code`.

    Raises:
        ValueError: A place that figures depend on has no code: it was moved.
    """
    root = Path(__file__).parents[2]
    rooms = ("comparison", "experiments", "linkage", "measure")
    places = ("schemas", "anonymizers", *(f"examination/{room}" for room in rooms))
    digest = hashlib.sha256()
    for place in places:
        files = sorted((root / place).rglob("*.py"))
        if not files:  # a digest of nothing would not change with the code
            raise ValueError(f"there is no code in {place}: name the place where it is now")
        for path in files:
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return f"{TOOL_VERSION} {digest.hexdigest()[:16]}"


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _IDENTITY)


def read_rows(path: Path) -> list[Row]:
    """Reads rows that were written before; a last line that was cut off is passed over.

    Raises:
        UsageError: The file is not one of rows.
    """
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    rows = []
    for number, line in enumerate(lines[:-1], 1):  # what follows the last line end is no line
        try:
            row = json.loads(line)
            _key(row)
        except (ValueError, KeyError, TypeError):
            raise UsageError(
                f"line {number} of {path.name} is no row of a comparison: move the file away"
            ) from None
        rows.append(row)
    return rows


def run(compute: Callable[[list[Row]], Iterable[tuple[Row, bool]]], path: Path) -> list[Row]:
    """Computes what a file of rows lacks, adds each row as it comes, and returns all of them.

    Args:
        compute: Yields all rows, given those that are known, and whether each is new.
        path: JSON lines. Rows of other comparisons stay in it.
    """
    known = read_rows(path)
    keep_private(path)  # of logs that are not public, either
    # Without what was cut off.
    path.write_text("".join(json.dumps(row) + "\n" for row in known), encoding="utf-8")
    rows = []
    with path.open("a", encoding="utf-8") as stream:
        for row, is_new in compute(known):
            if is_new:
                stream.write(json.dumps(row) + "\n")
                stream.flush()
            rows.append(row)
    return rows


def quartiles(values: Iterable[float | None]) -> tuple[float, float, float] | None:
    """Returns (median, first quartile, third quartile) of what is known; None of nothing."""
    known = [value for value in values if value is not None and not math.isnan(value)]
    if not known:
        return None
    low, middle, high = np.quantile(known, (0.25, 0.5, 0.75)).tolist()
    return middle, low, high
