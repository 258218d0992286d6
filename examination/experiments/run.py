"""`tracecloak experiment`: a paper's evaluation on given logs, as one command that can be resumed.

A `Paper` says what is run and measured; this module runs it. Every release is made in memory under
a fresh key, and every figure is a row of JSON lines that is written as soon as it is known: a run
that was killed goes on where it stopped. All cells are released once, then all once more, and so
on: whenever a run ends, there is about as much of every cell. Models are mined by as many processes
as there are processors. The figures are exact about private data: for the operator only.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pydantic

from tracecloak.anonymizers.contract.in_memory import anonymise, decide
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.contract.wrong_values import usage_error
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.anonymizers.registry import METHODS
from tracecloak.examination.comparison import compare
from tracecloak.examination.comparison.compare import Row
from tracecloak.examination.comparison.report import INTERNAL
from tracecloak.examination.experiments.amun import AmunPaper
from tracecloak.examination.experiments.paper import Cell, Log, Paper, Released
from tracecloak.examination.experiments.small_papers import DpimPaper, PretsaPaper, SacofaSapaPaper
from tracecloak.examination.experiments.table import THE_LOG, Statement
from tracecloak.examination.experiments.tlkc import TlkcPaper
from tracecloak.examination.measure.measures import require_pot
from tracecloak.examination.measure.mining import (
    MinedQuality,
    PatientMiner,
    require_pm4py,
    require_scikit_learn,
)
from tracecloak.schemas.errors import GuaranteeError, TracecloakError, UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.variants import VariantHistogram
from tracecloak.transforms.sources import EventSource

# --- Several processes that mine and judge models, as many as there are processors. ---------------
# What is asked and how long it may take is `PatientMiner`'s; here is who is asked when.


_T = TypeVar("_T")
# Each holds the log, and pm4py.
_MOST = 8
# Seconds between two attempts to interrupt.
_BETWEEN = 0.05


class Miners:
    """Processes that mine at once; each begins with its first question, and all end with the block.

    Args:
        make: Makes one.
        n: How many; by default as many as there are processors, and eight at most.
    """

    def __init__(self, make: Callable[[], PatientMiner], n: int | None = None) -> None:
        self.n = n or min(os.cpu_count() or 1, _MOST)
        self._all = [make() for _ in range(self.n)]
        self._free: SimpleQueue[PatientMiner] = SimpleQueue()
        for miner in self._all:
            self._free.put(miner)
        # A thread waits for the answer of each process.
        self._threads = ThreadPoolExecutor(self.n, thread_name_prefix="miner")

    def submit(self, ask: Callable[[PatientMiner], _T]) -> Future[_T]:
        """Begins to ask one that is free, or as soon as one is; returns the answer to come."""
        return self._threads.submit(self._asked, ask)

    def _asked(self, ask: Callable[[PatientMiner], _T]) -> _T:
        miner = self._free.get()
        try:
            return ask(miner)
        finally:
            self._free.put(miner)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends all processes, at work or not."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        while self._free.qsize() < self.n:
            for miner in self._all:
                miner.interrupt()
            time.sleep(_BETWEEN)  # one that is just beginning has no process yet
        self._threads.shutdown()
        for miner in self._all:
            miner.close()


# ---
# `tracecloak experiment`: a paper's evaluation on given logs, as one command that can be resumed.
# A `Paper` says what is run and measured; this module runs it. Every
# release is made in memory under a fresh key, and every figure is a row of JSON lines that is
# written
# as soon as it is known: a run that was killed goes on where it stopped. All cells are released
# once,
# then all once more, and so on: whenever a run ends, there is about as much of every cell. Models
# are
# mined by as many processes as there are processors. The figures are exact about private data: for
# the operator only.


_LOG = logging.getLogger("tracecloak")

# A new experiment is a file of a paper, its TOML file, and a line here.
PAPERS: dict[str, type[Paper]] = {
    paper.name: paper for paper in (AmunPaper, SacofaSapaPaper, TlkcPaper, PretsaPaper, DpimPaper)
}
DEFAULT_PATIENCE = 120.0
# After so many minutes no release is begun any more, unless the paper's whole grid is asked for.
DEFAULT_MINUTES = 60.0

ROWS, TABLE = "experiment.jsonl", "experiment.parquet"
REPORT_FILES = "experiment.html, figures/*.svg, experiment.parquet and experiment.jsonl"

# What a row is known by: where these agree, it is not computed again.
_IDENTITY = (
    "version", "experiment", "log", "cases", "events", "variants", "max_length", "arm", "level",
    "method", "params", "repetition",
)  # fmt: skip
_MINED = ("fitness", "precision", "f_score", "generalization")


def read_log(name: str, source: EventSource, paper: Paper) -> Log:
    """Reads a log with the attributes that an experiment needs, and how long that took.

    Raises:
        UsageError: There is no case in it.
        InputSchemaError: It cannot be read, or lacks a column.
    """
    begun = time.perf_counter()
    columns = paper.columns(source.mapping)
    mapping = replace(source.mapping, attributes=tuple(columns.items()))
    log = Log.read(name, replace(source, mapping=mapping))
    assert isinstance(log, Log)
    return replace(log, read_seconds=time.perf_counter() - begun, columns=columns)


def require_extras(paper: Paper, mined: int) -> None:
    """Checks that the libraries are installed that the figures of an experiment need.

    Args:
        paper: The experiment.
        mined: As in `Experiment`.

    Raises:
        UsageError: One is not installed.
    """
    if paper.spec["has_distances"]:
        require_pot()
    if paper.has_models:
        require_scikit_learn()
        if mined:
            require_pm4py()


def paper_named(name: str, flags: Mapping[str, str | None], is_full: bool = False) -> Paper:
    """Returns an experiment.

    Args:
        name: Its name.
        flags: Texts of the flags that were given.
        is_full: Whether the other flags are those of the paper's whole grid.

    Raises:
        UsageError: There is none of that name, it has no such flag, or one is out of range.
    """
    if name not in PAPERS:
        raise UsageError(f"experiment must be one of {', '.join(PAPERS)}, got {name!r}")
    kind = PAPERS[name]
    names = [flag["name"] for flag in kind.spec["flags"]]
    for given in flags:
        if given not in names:
            raise UsageError(f"experiment {name} has no flag --{given}: it has {', '.join(names)}")
    full = {flag["name"]: flag["full"] for flag in kind.spec["flags"] if is_full and "full" in flag}
    return kind({flag: flags.get(flag, full.get(flag)) for flag in names})


@dataclass(frozen=True)
class Experiment:
    """What is run.

    Attributes:
        paper: The experiment.
        logs: Of distinct names.
        methods: Names of the methods to run, or None: all of the paper's.
        repetitions: Releases of each cell.
        mined: Of so many of them a process is mined, where the paper mines.
        patience: Seconds that mining and judging one model may take.
        max_minutes: After so many of them no release is begun that would end later, by what those
            before it took; of several logs, each has its share. None: there is no end.

    Raises:
        UsageError: One of them is out of range, no method is there, or a library is not installed.
    """

    paper: Paper
    logs: tuple[Log, ...]
    methods: Sequence[str] | None = None
    repetitions: int = 10
    mined: int = 10
    patience: float = DEFAULT_PATIENCE
    max_minutes: float | None = None

    def __post_init__(self) -> None:
        names = [log.name for log in self.logs]
        compare.check_runs({"log": names}, self.repetitions, self.mined, self.max_minutes)
        if not 0 < self.patience <= 10**6:
            raise UsageError(f"patience must be above 0 and at most 10^6 s, got {self.patience:g}")
        for name in self.methods or ():
            if name not in self.paper.methods:
                raise UsageError(
                    f"methods must be of {', '.join(self.paper.methods)}, got {name!r}"
                )
        if not any(self._has(name) for name in self.paper.methods):
            raise UsageError(f"none of the methods is there: {', '.join(self.left_out)}")
        for log in self.logs:
            for cell in self._cells(log):
                if cell.method:
                    _parameters(METHODS[cell.method], cell)
        require_extras(self.paper, self.mined)

    @property
    def left_out(self) -> list[str]:
        """Names of the methods that should run and that this installation does not have."""
        wanted = self.paper.methods if self.methods is None else self.methods
        return [name for name in wanted if name not in METHODS]

    def _has(self, name: str) -> bool:
        return name in METHODS and (self.methods is None or name in self.methods)

    def _cells(self, log: Log) -> list[Cell]:
        return [cell for cell in self.paper.cells(log) if not cell.method or self._has(cell.method)]

    def rows(self, known: Iterable[Row] = ()) -> Iterator[tuple[Row, bool]]:
        """Yields every row, and whether it was computed now or is one of those known.

        Rows of a log come together, each as soon as it is known. A release that was refused has
        `refused` in place of figures, the reason, and its cell has no further rows; `is_lost` is
        that the promise cannot be kept, so that nothing of the log would be left. Where the time is
        up, rows are missing; see `missing`.
        """
        known_rows = {_key(row): row for row in known if "experiment" in row}
        end = None if self.max_minutes is None else time.monotonic() + 60 * self.max_minutes
        for number, log in enumerate(self.logs):
            left = None if end is None else (end - time.monotonic()) / (len(self.logs) - number)
            with Miners(partial(self.paper.miner, log, self.patience)) as miners:
                yield from self._of_log(log, miners, known_rows, left)

    def missing(self, rows: Sequence[Row]) -> int:
        """Returns how many releases are neither among some rows nor of a cell that was refused."""
        there = {_key(row) for row in rows}
        refused = {_key({**row, "repetition": 0}) for row in rows if "refused" in row}
        n = 0
        for log in self.logs:
            for step in self._steps(log):
                is_refused = _key({**step.identity, "repetition": 0}) in refused
                n += not is_refused and _key(step.identity) not in there
        return n

    def ordered(self, rows: Iterable[Row]) -> list[Row]:
        """Returns rows in the order in which their releases begin, not that in which they ended."""
        steps = (step for log in self.logs for step in self._steps(log))
        place = {_key(step.identity): number for number, step in enumerate(steps)}
        return sorted(rows, key=lambda row: place[_key(row)])

    def statements(self, rows: Sequence[Row]) -> dict[str, list[Statement]]:
        """Returns by log name the statements of the paper, each judged by all rows of the log."""
        by_log = {}
        for log in self.logs:
            log_row, of_log = rows_of(log, rows)
            by_log[log.name] = list(self.paper.statements(log, of_log, log_row))
        return by_log

    def _steps(self, log: Log) -> list[_Step]:
        """What is done on a log: the log itself, other models of it, and all cells again and again.

        What takes longer than the rest comes no later for that: nobody knows before.
        """
        head = {
            "version": compare.code_version(), "experiment": self.paper.name, **log.identity(),
        }  # fmt: skip
        cells = [self.paper.of_the_log(), *self._cells(log)]
        steps = [
            _Step(
                cell,
                repetition,
                {**head, **cell.identity, "delta": "0", "repetition": repetition},
                self.patience if cell.is_mined and repetition < self.mined else 0.0,
            )
            for cell in cells
            for repetition in range(self.repetitions if cell.method and cell.is_drawn else 1)
        ]
        return sorted(steps, key=lambda step: step.repetition)  # stable: cells keep their order

    def _of_log(
        self,
        log: Log,
        miners: Miners,
        known: Mapping[tuple[Any, ...], Row],
        seconds: float | None,
    ) -> Iterator[tuple[Row, bool]]:
        begun = time.monotonic()
        steps = self._steps(log)
        pace = _Pace()
        for step in steps:
            before = known.get(_key(step.identity))
            if before is not None:
                pace.note(step.cell, _seconds_of(before))
        refused: set[int] = set()
        waiting: dict[Future[Row], _Step] = {}

        def done(most: int) -> Iterator[tuple[Row, bool]]:
            """Waits until so many models are mined at most, and yields rows of the others."""
            while len(waiting) > most:
                for future in futures.wait(waiting, return_when=futures.FIRST_COMPLETED).done:
                    step, row = waiting.pop(future), future.result()
                    pace.note(step.cell, _seconds_of(row))
                    yield row, True

        for number, step in enumerate(steps):
            if id(step.cell) in refused:
                continue
            before = known.get(_key(step.identity))
            if before is not None and _is_reusable(before, step.patience):
                yield before, False
                if "refused" in before:
                    refused.add(id(step.cell))
                continue
            yield from done(miners.n - 1)
            now = time.monotonic()
            if seconds is not None and number and now - begun + pace.of(step.cell) > seconds:
                continue
            to_do = (
                one
                for one in steps[number:]
                if not _is_known(known, one) and id(one.cell) not in refused
            )
            left = pace.left(to_do, miners.n)
            if seconds is not None:  # never more than there are to the end
                left = min(left, seconds - (now - begun))
            _report_progress(log, step.cell, number, len(steps), left)
            try:
                released = release_of(log, step.cell) if step.cell.method else _unreleased(log)
                row = {
                    **step.identity,
                    **self.paper.figures(log, released, step.cell),
                    "seconds": released.seconds,
                    "read_seconds": log.read_seconds,
                }
            except TracecloakError as error:
                refused.add(id(step.cell))
                row = {**step.identity, "refused": str(error)}
                # The method's promise cannot be kept, so all of the log would be lost.
                yield {**row, "is_lost": True} if isinstance(error, GuaranteeError) else row, True
                continue
            if self.paper.has_models and step.patience:
                mined = partial(self._with_model, row, step, released)
                waiting[miners.submit(mined)] = step
                continue
            pace.note(step.cell, time.monotonic() - now)
            yield (
                {**row, **self._of_model(None, step, None)} if self.paper.has_models else row,
                True,
            )
        yield from done(0)

    def _with_model(self, row: Row, step: _Step, released: Released, miner: PatientMiner) -> Row:
        """Returns a row with the figures of the model that is mined from the release."""
        quality = None
        begun = time.perf_counter()
        try:
            quality = self.paper.mined(miner, released, step.cell)
        except (TimeoutError, RuntimeError) as error:
            _LOG.warning("experiment: %s", error)
        return {**row, **self._of_model(quality, step, time.perf_counter() - begun)}

    def _of_model(self, quality: MinedQuality | None, step: _Step, seconds: float | None) -> Row:
        names = (*_MINED, "tree", *self.paper.spec.get("of_models", ()))
        row: Row = {name: getattr(quality, name, None) for name in names}
        if quality is not None:
            row["tree"] = str(quality.tree)
        return {**row, "mine_patience": step.patience, "mine_seconds": seconds}


@dataclass(frozen=True, eq=False)
class _Step:
    """One release of a cell: which, what its row is known by, and the seconds to mine in."""

    cell: Cell
    repetition: int
    identity: Row
    patience: float


class _Pace:
    """What a step takes, by those that are done: of its cell, else of its method, else of any."""

    def __init__(self) -> None:
        self._sums: dict[object, tuple[float, int]] = {}

    def note(self, cell: Cell, seconds: float) -> None:
        """Takes in that a step of a cell took so long."""
        for key in self._keys(cell):
            total, n = self._sums.get(key, (0.0, 0))
            self._sums[key] = total + seconds, n + 1

    def of(self, cell: Cell) -> float:
        """Returns the mean seconds of such a step; 0 if nothing is done."""
        for key in self._keys(cell):
            if key in self._sums:
                total, n = self._sums[key]
                return total / n
        return 0.0

    def left(self, steps: Iterable[_Step], n_miners: int) -> float:
        """Returns the seconds that some steps take, if so many models are mined at once."""
        return sum(self.of(step.cell) / (n_miners if step.patience else 1) for step in steps)

    @staticmethod
    def _keys(cell: Cell) -> tuple[object, ...]:
        return (cell.arm, cell.level, cell.identity["params"]), cell.method, None


def _seconds_of(row: Row) -> float:
    return float(row.get("seconds") or 0) + float(row.get("mine_seconds") or 0)


def _is_known(known: Mapping[tuple[Any, ...], Row], step: _Step) -> bool:
    before = known.get(_key(step.identity))
    return before is not None and _is_reusable(before, step.patience)


def _report_progress(log: Log, cell: Cell, number: int, total: int, left_s: float) -> None:
    """Logs what is begun, with the seconds that are left."""
    stage = f"experiment on {log.name}"
    _LOG.info(
        "experiment: %s, %s%s (release %d of %d)",
        log.name, cell.arm, f", {cell.level}" if cell.level else "", number + 1, total,
        extra={"stage": stage, "done": number, "total": total, "left_s": left_s},
    )  # fmt: skip


def _is_reusable(row: Row, patience: float) -> bool:
    """Whether a row that was computed before need not be computed again to mine its process."""
    return (
        "refused" in row
        or row.get("f_score") is not None
        or row.get("released_cases") == 0
        or patience <= row.get("mine_patience", 0.0)
    )


def _parameters(method: Anonymizer, cell: Cell) -> Any:
    try:
        return method.Params(**cell.params, **cell.declared)
    except pydantic.ValidationError as error:
        raise usage_error(error) from None


def release_of(log: Log, cell: Cell) -> Released:
    """Makes one release of a log in memory, under a fresh key, and verifies it where that is due.

    Raises:
        UsageError: The method refuses its parameters, or the log with them.
        GuaranteeError: It cannot keep its promise on this log, or has not.
    """
    method = METHODS[cell.method]
    params = _parameters(method, cell)
    arguments: tuple[Any, ...] = (
        [log.traces], method, params, ReleaseKey.generate(), "experiment", "",
    )  # fmt: skip
    begun = time.perf_counter()
    if not cell.needs_log and {"variants", "tree"} & {*method.writes(params)}:
        _, decisions = decide(*arguments)
        products: Mapping[str, Any] = method.products(decisions, params).by_name
        seconds = time.perf_counter() - begun
        if "variants" in products:
            return Released(log.recoded(products["variants"]), None, seconds)
        return Released(VariantHistogram.merge(()), None, seconds, products["tree"])
    done = anonymise(*arguments)
    seconds = time.perf_counter() - begun
    if method.verifies:
        method.verify(done.traces, params)
    traces = TraceBatch.concat([batch.recode(log.vocabulary) for batch in done.traces])
    return Released(VariantHistogram.from_traces(traces), traces, seconds)


def rows_of(log: Log, rows: Sequence[Row]) -> tuple[Row, list[Row]]:
    """Returns the row of a log itself, and the others of it."""
    of_log = [row for row in rows if row["log"] == log.name]
    [log_row] = [row for row in of_log if row["arm"] == THE_LOG]
    return log_row, [row for row in of_log if row["arm"] != THE_LOG]


def _unreleased(log: Log) -> Released:
    return Released(log.variants, log.traces.recode(log.vocabulary), 0.0)


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _IDENTITY)


def run(experiment: Experiment, path: Path) -> list[Row]:
    """Computes what a file of rows lacks, adds each row as it comes, and returns all of them.

    Raises:
        UsageError: The file is not one of rows.
    """
    return experiment.ordered(compare.run(experiment.rows, path))


def write_parquet(rows: Sequence[Row], path: Path) -> None:
    """Writes rows as a table, a column a figure, null where a row has none."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: pa.array([row.get(name) for row in rows]) for name in names}
    table = pa.table(columns).replace_schema_metadata(
        {"tracecloak.publishable": "false", "tracecloak.warning": INTERNAL}
    )
    pq.write_table(table, path)
