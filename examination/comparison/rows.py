"""Rows of figures, one a release: each is computed once and kept, and a run goes on where it ended.

`compare` and `experiment` say which releases there are as steps; here they are made in their order.
Models are mined by as many processes as there are processors. The figures are exact about private
data: for the operator only.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

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


def check_runs(
    names: Mapping[str, Sequence[str]], repetitions: int, mined: int, max_minutes: float | None
) -> None:
    """Checks how often and how long something is run.

    Args:
        names: What must be distinct, by what it is called in the error.
        repetitions: Releases of each method and setting.
        mined: Of so many of them a process is mined.
        max_minutes: After so many of them no release is begun. None: there is no end.

    Raises:
        UsageError: One of them is out of range, or a name comes twice.
    """
    check_least(1, repetitions=repetitions)
    check_least(0, mine=mined)
    if max_minutes is not None and not 0 < max_minutes <= 10**6:
        raise UsageError(f"max_minutes must be above 0 and at most 10^6, got {max_minutes:g}")
    for what, given in names.items():
        twice = sorted({one for one in given if given.count(one) > 1})
        if twice:
            raise UsageError(f"{what} {twice[0]!r} is there twice: leave one out, or rename it")


@dataclass(frozen=True, eq=False)
class Step:
    """One release, and what is measured of it.

    Attributes:
        cell: What is released again and again; once it is refused, it is not tried again.
        row: What its row is known by.
        title: What the progress calls it.
        release: Releases and measures; returns the figures, and what is mined of it, if anything.
        model_row: Returns the figures of the model, and of the seconds it took; of no model None.
        is_known: Whether a row of the same release that was computed before need not be again.
    """

    cell: Hashable
    row: Row
    title: str
    release: Callable[[], tuple[Row, Asked | None]]
    model_row: Callable[[ModelQuality | None, float | None], Row]
    is_known: Callable[[Row], bool]


def rows_of_steps(
    stage: str,
    steps: Sequence[Step],
    miner: Callable[[], PatientMiner],
    known: Iterable[Row],
    seconds: float = math.inf,
) -> Iterator[tuple[Row, bool]]:
    """Yields every row, and whether it was computed now or is one of those known.

    Each comes as soon as it is known. A release that was refused has `refused` in place of figures,
    the reason, and its cell has no further rows; `is_lost` is that the promise cannot be kept, so
    that nothing of the log would be left. Where the time is up, rows are missing.

    Args:
        stage: What the progress calls all of them.
        steps: The releases of a log, in their order.
        miner: Makes what mines and judges models.
        known: Rows that were computed before.
        seconds: After so many of them no release is begun.
    """
    known_rows = {_key(row): row for row in known}
    end = time.monotonic() + seconds
    refused: set[Hashable] = set()
    waiting: set[Future[Row]] = set()

    def finished(most: int) -> Iterator[tuple[Row, bool]]:
        """Waits until so many models are mined at most, and yields rows of the others."""
        while len(waiting) > most:
            for future in futures.wait(waiting, return_when=futures.FIRST_COMPLETED).done:
                waiting.remove(future)
                yield future.result(), True

    with Miners(miner) as miners:
        for number, step in enumerate(steps):
            before = known_rows.get(_key(step.row))
            if step.cell in refused:
                continue
            if before is not None and ("refused" in before or step.is_known(before)):
                yield before, False
                if "refused" in before:
                    refused.add(step.cell)
                continue
            yield from finished(miners.n - 1)
            if time.monotonic() >= end:
                continue
            _LOG.info(
                "%s: %s (%d of %d)", stage, step.title, number + 1, len(steps),
                extra={"stage": stage, "done": number, "total": len(steps)},
            )  # fmt: skip
            try:
                figures, asked = step.release()
            except TracecloakError as error:
                refused.add(step.cell)
                row = {**step.row, "refused": str(error)}
                yield ({**row, "is_lost": True} if isinstance(error, GuaranteeError) else row), True
                continue
            row = {**step.row, **figures}
            if asked is None:
                yield {**row, **step.model_row(None, None)}, True
            else:
                waiting.add(miners.submit(partial(_with_model, row, step, asked)))
        yield from finished(0)


def _with_model(row: Row, step: Step, asked: Asked, miner: PatientMiner) -> Row:
    quality = None
    begun = time.perf_counter()
    try:
        quality = miner.mined(asked)
    except (TimeoutError, RuntimeError) as error:
        _LOG.warning("%s: %s", step.title, error)
    return {**row, **step.model_row(quality, time.perf_counter() - begun)}


def missing(steps: Iterable[Step], rows: Iterable[Row]) -> int:
    """Returns how many releases are neither among some rows nor of a cell that was refused."""
    by_key = {_key(row): row for row in rows}
    steps = list(steps)
    refused = {step.cell for step in steps if "refused" in by_key.get(_key(step.row), ())}
    return sum(step.cell not in refused and _key(step.row) not in by_key for step in steps)


def ordered(steps: Iterable[Step], rows: Iterable[Row]) -> list[Row]:
    """Returns rows in the order in which their releases begin, not that in which they ended."""
    place = {_key(step.row): number for number, step in enumerate(steps)}
    return sorted(rows, key=lambda row: place[_key(row)])


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


def run(compute: Callable[[list[Row]], Iterable[tuple[Row, bool]]], path: Path) -> list[Row]:
    """Computes what a file of rows lacks, adds each row as it comes, and returns all of them.

    Args:
        compute: Yields all rows, given those that are known, and whether each is new.
        path: JSON lines. Rows of other comparisons stay in it.

    Raises:
        UsageError: The file is not one of rows.
    """
    known = read_rows(path)
    # Of logs that are not public, either; without what was cut off.
    write_private(path, "".join(json.dumps(row) + "\n" for row in known).encode())
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
