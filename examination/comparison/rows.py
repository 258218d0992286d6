"""Rows of figures, one a release: each is computed once and kept, and a run goes on where it ended.

`compare` and `experiment` say which cells there are and what is measured; here they are released.
Models are mined by as many processes as there are processors. The figures are exact about private
data: for the operator only.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import math
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from tracecloak.anonymizers.registry import METHODS
from tracecloak.examination.comparison.original import Original
from tracecloak.examination.measure.mining import Baseline, ModelQuality, PatientMiner
from tracecloak.schemas.errors import GuaranteeError, TracecloakError, UsageError, check_least
from tracecloak.schemas.models import ProcessTree
from tracecloak.schemas.published.manifest import TOOL_VERSION
from tracecloak.schemas.statistics.variants import VariantHistogram
from tracecloak.transforms.files import write_private

_LOG = logging.getLogger("tracecloak")

# A row is a repetition: what it is known by, and figures (null where one does not apply).
Row = dict[str, Any]
# What is mined, or judged: released variants, a released tree, or a model of the log itself.
Asked = VariantHistogram | ProcessTree | Baseline

# What a row is known by, where it has it: where these agree, it is not computed again.
_IDENTITY = (
    "version", "log", "cases", "events", "variants", "max_length", "experiment", "arm", "level",
    "method", "params", "epsilon", "delta", "repetition",
)  # fmt: skip

# Processes that mine: each holds the log, and pm4py.
_MOST_MINERS = 8
# Seconds between two attempts to interrupt them.
_BETWEEN = 0.05


@dataclass(frozen=True)
class Cell:
    """One method with one set of parameters, to be released several times.

    Attributes:
        arm: What the charts call it.
        level: Where on their axis it stands, such as an epsilon.
        epsilon: Its epsilon as published, as text.
        method: Its name in the registry; an empty text: the log itself is looked at.
        params: Its parameters.
        needs_log: Whether a log with times is measured, not just its variants.
        is_mined: Whether a process is mined from the release.
        model: The model of the log itself that is judged, in place of one that is mined.
        declared: Further parameters, which declare attributes by the log's own values. Rows have
            the names and columns of the attributes only.
        is_drawn: Whether two releases differ in more than ids. If not, there is one.
    """

    arm: str
    level: str
    epsilon: str
    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    needs_log: bool = False
    is_mined: bool = False
    model: Baseline | None = None
    declared: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    is_drawn: bool = True

    @property
    def title(self) -> str:
        """What the progress calls it."""
        return f"{self.arm}, {self.level}" if self.level else self.arm


@dataclass(frozen=True, eq=False)
class Step:
    """One release, and what is measured of it.

    Attributes:
        number: Of the cell among those of the log.
        cell: What is released; once it is refused, it is not tried again.
        row: What its row is known by.
        patience: Seconds that mining and judging its model may take; 0: none is mined.
    """

    number: int
    cell: Cell
    row: Row
    patience: float


@dataclass(frozen=True, eq=False)
class Benchmark(ABC):
    """Releases of logs in memory, each under a fresh key, and what is measured of each.

    All cells are released once, then all once more, and so on: whenever a run ends, there is about
    as much of every cell.

    Attributes:
        logs: Of distinct names; none before they are read, which can take long.
        repetitions: Releases of each cell of each log.
        mined: Of so many of them a process is mined.
        patience: Seconds that mining and judging one model may take.
        max_minutes: After so many of them no release is begun, see `shares_time`. None: there is no
            end.
        stage: What the progress calls it.
        shares_time: Whether the logs share the minutes; else each has as many.
    """

    stage: ClassVar[str]
    shares_time: ClassVar[bool]

    logs: tuple[Original, ...]
    repetitions: int = 10
    mined: int = 0
    patience: float = 3600.0
    max_minutes: float | None = None

    @property
    @abstractmethod
    def model_figures(self) -> Mapping[str, str]:
        """Attributes of `ModelQuality` by the columns that have them; none: none is mined."""

    @abstractmethod
    def cells(self, log: Original) -> Iterable[Cell]:
        """Returns what is released of a log."""

    @abstractmethod
    def identity(self, cell: Cell) -> Row:
        """Returns the columns of rows that distinguish a cell from other cells of a log."""

    @abstractmethod
    def measure(self, log: Original, cell: Cell, repetition: int) -> tuple[Row, Asked]:
        """Makes one release; returns its figures, and what is mined of it if it is to be."""

    def check_runs(self, **names: Sequence[str]) -> None:
        """Checks how often and how long something is run.

        Args:
            names: What must be distinct, by what it is called in the error.

        Raises:
            UsageError: A number is out of range, or a name comes twice.
        """
        check_least(1, repetitions=self.repetitions)
        check_least(0, mine=self.mined)
        limits = {"patience": (self.patience, " s"), "max_minutes": (self.max_minutes, "")}
        for what, (limit, unit) in limits.items():
            if limit is not None and not 0 < limit <= 10**6:
                raise UsageError(f"{what} must be above 0 and at most 10^6{unit}, got {limit:g}")
        check_distinct(log=[log.name for log in self.logs], **names)

    def steps(self, log: Original) -> list[Step]:
        """Returns the releases of a log, in their order: cells keep theirs."""
        version, steps = code_version(), []
        for number, cell in enumerate(self.cells(log)):
            head = {"version": version + code_beside(cell.method), **log.identity()}
            known_by = {**head, **self.identity(cell)}
            for repetition in range(self.repetitions if cell.is_drawn else 1):
                is_mined = cell.is_mined and repetition < self.mined and self.model_figures
                patience = self.patience if is_mined else 0.0
                steps.append(Step(number, cell, {**known_by, "repetition": repetition}, patience))
        return sorted(steps, key=lambda step: step.row["repetition"])

    def rows(self, known: Iterable[Row] = ()) -> Iterator[tuple[Row, bool]]:
        """Yields every row, and whether it was computed now or is one of those known.

        Rows of a log come together, each as soon as it is known. A release that was refused has
        `refused` in place of figures, the reason, and its cell has no further rows; `is_lost` is
        that the promise cannot be kept, so that nothing of the log would be left. Where the time is
        up, rows are missing.

        Args:
            known: Rows that were computed before.
        """
        seconds = math.inf if self.max_minutes is None else 60 * self.max_minutes
        known_rows = {_key(row): row for row in known}
        end = time.monotonic() + seconds
        for number, log in enumerate(self.logs):
            if self.shares_time:
                seconds = (end - time.monotonic()) / (len(self.logs) - number)
            yield from self._rows_of(log, known_rows, seconds)

    def _rows_of(
        self, log: Original, known: Mapping[tuple[Any, ...], Row], seconds: float
    ) -> Iterator[tuple[Row, bool]]:
        end = time.monotonic() + seconds
        refused: set[int] = set()
        waiting: set[Future[Row]] = set()

        def finished(most: int) -> Iterator[tuple[Row, bool]]:
            """Waits until so many models are mined at most, and yields rows of the others."""
            while len(waiting) > most:
                for future in futures.wait(waiting, return_when=futures.FIRST_COMPLETED).done:
                    waiting.remove(future)
                    yield future.result(), True

        steps, stage = self.steps(log), f"{self.stage} on {log.name}"
        with Miners(partial(PatientMiner, log.variants, log.vocabulary, self.patience)) as miners:
            for done, step in enumerate(steps):
                before = known.get(_key(step.row))
                if step.number in refused:
                    continue
                if before is not None and ("refused" in before or self._is_known(before, step)):
                    yield before, False
                    if "refused" in before:
                        refused.add(step.number)
                    continue
                yield from finished(miners.n - 1)
                if time.monotonic() >= end:
                    continue
                _LOG.info(
                    "%s: %s (%d of %d)", stage, step.cell.title, done + 1, len(steps),
                    extra={"stage": stage, "done": done, "total": len(steps)},
                )  # fmt: skip
                try:
                    figures, asked = self.measure(log, step.cell, step.row["repetition"])
                except TracecloakError as error:
                    refused.add(step.number)
                    is_lost = {"is_lost": True} if isinstance(error, GuaranteeError) else {}
                    yield {**step.row, "refused": str(error), **is_lost}, True
                    continue
                row = {**step.row, **figures}
                if step.patience:
                    waiting.add(miners.submit(partial(self._with_model, row, step, asked)))
                else:
                    yield {**row, **self._model_row(step)}, True
            yield from finished(0)

    def _with_model(self, row: Row, step: Step, asked: Asked, miner: PatientMiner) -> Row:
        quality = None
        begun = time.perf_counter()
        try:
            quality = miner.mined(asked)
        except (TimeoutError, RuntimeError) as error:
            _LOG.warning("%s: %s", step.cell.title, error)
        return {**row, **self._model_row(step, quality, time.perf_counter() - begun)}

    def _model_row(
        self, step: Step, quality: ModelQuality | None = None, seconds: float | None = None
    ) -> Row:
        """The figures of a model, and of the seconds it took."""
        if not self.model_figures:
            return {}
        found = {name: getattr(quality, of, None) for name, of in self.model_figures.items()}
        texts = {n: str(tree) for n, tree in found.items() if isinstance(tree, ProcessTree)}
        return {**found, **texts, "mine_patience": step.patience, "mine_seconds": seconds}

    def _is_known(self, before: Row, step: Step) -> bool:
        """Whether a row of the same release that was computed before need not be again."""
        has_model = any(before.get(name) is not None for name in self.model_figures)
        is_empty = before.get("released_cases") == 0
        return has_model or is_empty or step.patience <= before.get("mine_patience", 0.0)

    def missing(self, rows: Iterable[Row]) -> int:
        """Returns how many releases are neither among some rows nor of a cell that was refused."""
        by_key, n_missing = {_key(row): row for row in rows}, 0
        for log in self.logs:
            steps = [(step.number, by_key.get(_key(step.row))) for step in self.steps(log)]
            refused = {number for number, row in steps if "refused" in (row or ())}
            n_missing += sum(row is None and number not in refused for number, row in steps)
        return n_missing

    def run(self, path: Path) -> list[Row]:
        """Computes what a file of rows lacks, adds each as it comes, and returns all in order.

        Args:
            path: JSON lines. Rows of other benchmarks stay in it.

        Raises:
            UsageError: The file is not one of rows.
        """
        known = read_rows(path)
        # Of logs that are not public, either; without what was cut off.
        write_private(path, "".join(json.dumps(row) + "\n" for row in known).encode())
        rows = []
        with path.open("a", encoding="utf-8") as stream:
            for row, is_new in self.rows(known):
                if is_new:
                    stream.write(json.dumps(row) + "\n")
                    stream.flush()
                rows.append(row)
        keys = [_key(step.row) for log in self.logs for step in self.steps(log)]
        place = {key: number for number, key in enumerate(keys)}
        return sorted(rows, key=lambda row: place[_key(row)])


def check_distinct(**names: Sequence[str]) -> None:
    """Raises UsageError if a name comes twice, by what it is called in the error."""
    for what, given in names.items():
        twice = sorted({one for one in given if given.count(one) > 1})
        if twice:
            raise UsageError(f"{what} {twice[0]!r} is there twice: leave one out, or rename it")


class Miners:
    """Processes that mine at once; each begins with its first question, and all end with the block.

    Args:
        make: Makes one.
        n: How many; by default as many as there are processors, and eight at most.
    """

    def __init__(self, make: Callable[[], PatientMiner], n: int | None = None) -> None:
        self.n = n or min(os.cpu_count() or 1, _MOST_MINERS)
        self._all = [make() for _ in range(self.n)]
        self._of_thread = threading.local()
        free = iter(self._all)
        # A thread waits for the answers of each process.
        self._threads = ThreadPoolExecutor(
            self.n, "miner", lambda: setattr(self._of_thread, "miner", next(free))
        )
        self._asked: list[Future[Row]] = []

    def submit(self, ask: Callable[[PatientMiner], Row]) -> Future[Row]:
        """Begins to ask one that is free, or as soon as one is; returns the answer to come."""
        self._asked.append(self._threads.submit(lambda: ask(self._of_thread.miner)))
        return self._asked[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends all processes, at work or not."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        while not all(one.done() for one in self._asked):
            for miner in self._all:
                miner.interrupt()
            time.sleep(_BETWEEN)  # one that is just beginning has no process yet
        self._threads.shutdown()
        for miner in self._all:
            miner.close()


# --- The file of rows -----------------------------------------------------------------------------


def code_version() -> str:
    """Returns the version of tracecloak and a digest of the code that figures depend on.

    So no figure of a method that was changed since is taken for one of the method as it is; a
    method that another distribution adds has a digest of its own, see `code_beside`.

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


def code_beside(name: str) -> str:
    """Returns a digest of the files beside that of a method which another distribution adds."""
    kind = type(METHODS[name]) if name in METHODS else Cell
    if kind.__module__.startswith("tracecloak."):
        return ""
    file = Path(inspect.getfile(kind))
    files = file.parent.rglob("*.py") if (file.parent / "__init__.py").exists() else [file]
    texts = (path.read_bytes() for path in sorted(files))
    return f" {hashlib.sha256(b''.join(texts)).hexdigest()[:16]}"


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in _IDENTITY)


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
            _ = row["version"], row["log"], row["repetition"]
        except (ValueError, KeyError, TypeError):
            raise UsageError(
                f"line {number} of {path.name} is no row of a comparison: move the file away"
            ) from None
        rows.append(row)
    return rows


def quartiles(values: Iterable[float | None]) -> tuple[float, float, float] | None:
    """Returns (median, first quartile, third quartile) of what is known; None of nothing."""
    known = [value for value in values if value is not None and not math.isnan(value)]
    if not known:
        return None
    low, middle, high = np.quantile(known, (0.25, 0.5, 0.75)).tolist()
    return middle, low, high
