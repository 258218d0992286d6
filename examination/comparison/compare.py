"""`tracecloak compare`: methods at the same true epsilon on given logs, beside lines without noise.

Every method gets the same epsilon for all that it releases, per case added or removed, the same
delta if it needs one, and the same public facts: the activities, a length at which cases are cut,
and the dates of a log with times. For the comparison they are read from the log, which a release
must not do. Releases are made in memory under fresh keys and measured against the whole log. The
figures are exact about private data: for the operator only.

The lines are a bootstrap of the log, which no release need pass, and chains with its exact counts
(`examination.measure.chains`), which are the limit of methods that draw cases from such a chain.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tracecloak.examination.comparison.contenders import Contender, Outcome
from tracecloak.examination.comparison.original import Original
from tracecloak.examination.measure import measures
from tracecloak.examination.measure.bootstrap import bootstrap
from tracecloak.examination.measure.chains import CHAINS
from tracecloak.examination.measure.mining import ModelQuality, require_pm4py
from tracecloak.examination.measure.registry import Figures, checked
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

# What a row is known by: where these agree, it is not computed again.
_IDENTITY = (
    "version", "log", "cases", "events", "variants", "max_length", "method", "epsilon", "delta",
    "repetition",
)  # fmt: skip

# A row is a repetition: what it is known by, and figures (null where one does not apply).
Row = dict[str, Any]


def check(
    names: Sequence[str],
    methods: Mapping[str, Contender],
    epsilons: Sequence[str] = DEFAULT_EPSILONS,
    delta: str = DEFAULT_DELTA,
    repetitions: int = DEFAULT_REPETITIONS,
    mined: int = 0,
) -> None:
    """Checks what is known of a comparison before its logs are read, which can take long.

    Args:
        names: Of the logs.
        methods: This and the others are as in `Comparison`.
        epsilons: See there.
        delta: See there.
        repetitions: See there.
        mined: See there.

    Raises:
        UsageError: One of them is out of range, a name comes twice, or a library that is needed is
            not installed.
    """
    if repetitions < 1:
        raise UsageError(f"repetitions must be at least 1, got {repetitions}")
    if mined < 0:
        raise UsageError(f"mine must be at least 0, got {mined}")
    for what, given in (("log", names), ("epsilons", epsilons)):
        twice = sorted({one for one in given if given.count(one) > 1})
        if twice:
            raise UsageError(f"{what} {twice[0]!r} is there twice: leave one out, or rename it")
    for method in methods.values():
        for epsilon in epsilons:
            method.check(epsilon, delta)
    measures.require_pot()
    if mined:
        require_pm4py()


@dataclass(frozen=True)
class Comparison:
    """What is compared with what.

    Attributes:
        originals: The logs, of distinct names.
        methods: The methods and peers by name.
        epsilons: As texts.
        delta: As text; methods that need none spend none.
        repetitions: Releases of each method on each log at each epsilon.
        mined: Of so many of them a process is mined.

    Raises:
        UsageError: As `check` raises it.
    """

    originals: tuple[Original, ...]
    methods: Mapping[str, Contender]
    epsilons: tuple[str, ...] = DEFAULT_EPSILONS
    delta: str = DEFAULT_DELTA
    repetitions: int = DEFAULT_REPETITIONS
    mined: int = 0

    def __post_init__(self) -> None:
        check(
            [original.name for original in self.originals],
            self.methods,
            self.epsilons,
            self.delta,
            self.repetitions,
            self.mined,
        )

    def rows(self, known: Iterable[Row] = ()) -> Iterator[tuple[Row, bool]]:
        """Yields every row, and whether it was computed now or is one of those known.

        A row whose method refuses its parameters has `refused` in place of figures: the reason.
        """
        known_rows = {_key(row): row for row in known}
        version = code_version()
        n_cells = len(self.originals) * len(self.methods) * len(self.epsilons)
        number = 0
        for original in self.originals:
            head = {"version": version, **original.identity()}
            yield from self._lines(original, head, known_rows)
            for name, method in self.methods.items():
                for epsilon in self.epsilons:
                    number += 1
                    cell = {
                        **head,
                        "method": name,
                        "kind": method.kind,
                        "epsilon": epsilon,
                        "delta": method.delta(self.delta),
                    }
                    _LOG.info(
                        "compare: %s, %s, epsilon %s (%d of %d)",
                        original.name, name, epsilon, number, n_cells,
                        extra={"stage": "compare", "done": number - 1, "total": n_cells},
                    )  # fmt: skip
                    yield from self._of_cell(original, method, cell, known_rows)

    def _lines(
        self, original: Original, head: Row, known: Mapping[tuple[Any, ...], Row]
    ) -> Iterator[tuple[Row, bool]]:
        """The rows of the lines, of which there are as many as repetitions."""
        for name in LINES:
            for repetition in range(self.repetitions):
                line = {
                    **head,
                    "method": name,
                    "kind": "line",
                    "epsilon": NO_BUDGET,
                    "delta": NO_BUDGET,
                    "repetition": repetition,
                }
                before = known.get(_key(line))
                if before is not None:
                    yield before, False
                    continue
                yield {**line, **_line_figures(original, name, repetition)}, True

    def _of_cell(
        self,
        original: Original,
        method: Contender,
        head: Row,
        known: Mapping[tuple[Any, ...], Row],
    ) -> Iterator[tuple[Row, bool]]:
        cell = None
        for repetition in range(self.repetitions):
            row = {**head, "repetition": repetition}
            is_mined = repetition < self.mined and method.kind != "graph"
            before = known.get(_key(row))
            if before is not None and ("refused" in before or is_mined <= before["is_mined"]):
                yield before, False
                if "refused" in before:
                    return
                continue
            try:
                cell = cell or method.cell(original, row["epsilon"], row["delta"])
                begun = time.perf_counter()
                released = cell.release()
                seconds = time.perf_counter() - begun
            except UsageError as error:
                yield {**row, "refused": str(error)}, True
                return
            quality = None
            if is_mined and released.variants is not None:
                quality = original.process.of(released.variants, original.vocabulary)
            yield (
                {
                    **row,
                    **_figures(original, released),
                    "seconds": seconds,
                    "is_mined": is_mined,
                    **_of_model(quality_figures(quality)),
                },
                True,
            )


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


def _of_model(figures: Figures) -> Figures:
    """The same by the names of the registry."""
    return checked({f"mined_{name}": value for name, value in figures.items()})


def _line_figures(original: Original, name: str, draw: int) -> Row:
    """The measures of a line: all that it has; a chain has no times."""
    if name == BOOTSTRAP:
        traces = bootstrap(original.traces, draw).recode(original.vocabulary)
        variants = VariantHistogram.from_traces(traces)
        return {**original.figures(variants), **original.figures_of_times(traces)}
    drawn = CHAINS[name].draw(original.variants, len(original.vocabulary), draw)
    return dict(original.figures(drawn))


def quality_figures(quality: ModelQuality | None) -> Figures:
    """Returns a mined model's fitness, precision and f_score; null without a model."""
    names = ("fitness", "precision", "f_score")
    return {name: None if quality is None else getattr(quality, name) for name in names}


def code_version() -> str:
    """Returns the version of tracecloak and a digest of the code that figures depend on.

    So no figure of a method that was changed since is taken for one of the method as it is.

    Raises:
        ValueError: A place that figures depend on has no code: it was moved.
    """
    root = Path(__file__).parents[2]
    rooms = ("comparison", "experiments", "measure")
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


class Rows(Protocol):
    """What computes rows, and does not compute one again that is known."""

    def rows(self, known: Iterable[Row] = ()) -> Iterator[tuple[Row, bool]]:
        """Yields all rows, and whether each is new."""
        ...


def run(comparison: Rows, path: Path) -> list[Row]:
    """Computes what a file of rows lacks, adds each row as it comes, and returns all of them.

    Args:
        comparison: What is compared.
        path: JSON lines. Rows of other comparisons stay in it.
    """
    known = read_rows(path)
    keep_private(path)  # of logs that are not public, either
    # Without what was cut off.
    path.write_text("".join(json.dumps(row) + "\n" for row in known), encoding="utf-8")
    rows = []
    with path.open("a", encoding="utf-8") as stream:
        for row, is_new in comparison.rows(known):
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
