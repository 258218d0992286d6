"""Output on a terminal: results in one form for all commands, and progress."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TextIO

from tracecloak.schemas.texts import escaped, in_json

# --- What commands show once they are done: a table for people, JSON for programs, or nothing. ----
# On a terminal the table is drawn by `rich`, which is loaded only then; it takes no colour where
# NO_COLOR is set. Elsewhere, and where TERM is `dumb`, it is aligned text. Results go to standard
# output, and progress, warnings and errors to standard error. Whatever is shown may hold names of
# data or of somebody else's release, so characters that steer a terminal are shown as escapes.


Form = Literal["table", "json", "quiet"]
"""How a result is shown: for people, for programs, or not at all."""


@dataclass(frozen=True)
class Result:
    """What came of a command.

    Attributes:
        rows: What to read, each a word or two and a text.
        data: The same for programs, as JSON values; its keys stay the same from version to version.
        above: Lines that stand above the rows.
        below: Lines that stand below them.
    """

    rows: Sequence[tuple[str, str]] = ()
    data: Any = field(default_factory=dict)
    above: Sequence[str] = ()
    below: Sequence[str] = ()


def show(result: Result, form: Form) -> None:
    """Prints a result in the form that was asked for."""
    if form == "quiet":
        return
    if form == "json":
        # Outside its strings, JSON has no control characters but the ends of its lines.
        print(escaped(json.dumps(result.data, indent=2, ensure_ascii=False), "\n", in_json))
        return
    for line in result.above:
        print(escaped(line))
    rows = [(escaped(label), escaped(text)) for label, text in result.rows]
    if rows and is_terminal():
        _draw(rows)
    else:
        width = max((len(label) for label, _ in rows), default=0)
        for label, text in rows:
            print(f"{label:<{width}}  {text}")
    for line in result.below:
        print(escaped(line))


def tell(text: str) -> None:
    """Writes lines to standard error, beside the result."""
    print(escaped(text, kept="\n\t"), file=sys.stderr)


def is_terminal() -> bool:
    """Returns whether a person watches standard output on a terminal that can be drawn on."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _draw(rows: Sequence[tuple[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in rows:
        # The rows are given as texts, in which nothing is read as markup, whatever a path is
        # called.
        table.add_row(Text(label, style="bold cyan"), Text(text))
    Console(file=sys.stdout, highlight=False).print(table)


def duration(seconds: float) -> str:
    """Returns a time in words: "0.4 seconds", "12 seconds", "3 minutes 5 seconds", "2 hours"."""
    if seconds < 9.95:
        return f"{seconds:.1f} seconds"
    whole = round(seconds)
    parts = [(whole // 3600, "hour"), (whole // 60 % 60, "minute"), (whole % 60, "second")]
    shown = [(number, name) for number, name in parts if number][:2]
    return " ".join(f"{number:,} {name}{'s' if number != 1 else ''}" for number, name in shown)


def quantity(number: int, one: str, many: str = "") -> str:
    """Returns a number with its noun: "1 record", "2,000 records"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


# --- Progress on long work: one line that a person watches on a terminal, few lines in a log. -----
# A stage of work reports itself by records of the logger `tracecloak`. A record that knows how
# far the work is has an `extra` with these names: `stage`, a name; `total`, how much there is to
# do, in a unit that is done at an even pace, such as bytes or releases; and `done`, how much of
# it is finished. Where several workers are at it, each has a `part`, and the parts' `done` add
# up. The time that is left follows from these numbers.
#
# Lines of the logger `tracecloak.operator` have numbers of the data. They are shown to the
# operator on a terminal. Where standard error is no terminal, or `--json` is given, others may
# read it, such as in the log of a service, so these lines go to the operator's folder alone.


_OPERATOR = logging.getLogger("tracecloak.operator")
_FORMAT = "%(asctime)s %(levelname)s %(message)s"
# Lines of one stage in a log are this far apart at least, but for its first and its last one.
_APART_S = 60.0


class EscapingFormatter(logging.Formatter):
    """Shows control characters of a message as escapes, as they could steer a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the lines of a record."""
        return escaped(super().format(record), kept="\n\t")


class _LineHandler(logging.Handler):
    """Shows the time so far, how far the stage is, the time that is left of it, and its text."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(logging.INFO)
        from rich import progress
        from rich.console import Console

        self.live = progress.Progress(
            progress.TimeElapsedColumn(),
            progress.BarColumn(20),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.description}", markup=False),
            console=Console(file=stream, highlight=False), transient=True, refresh_per_second=4,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self._task = self.live.add_task("starting", total=None)
        self._stage: object = None
        self._done_of_part: dict[object, float] = {}
        self.live.start()

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno > logging.INFO:
            self.live.console.print(self.format(record), markup=False, soft_wrap=True)
            return
        stage, total = getattr(record, "stage", None), getattr(record, "total", None)
        if stage != self._stage:
            self._stage, self._done_of_part = stage, {}
        if stage is not None:
            self._done_of_part[getattr(record, "part", None)] = getattr(record, "done", 0)
        text = escaped(record.getMessage())
        done = sum(self._done_of_part.values())
        self.live.tasks[0].total = total  # None: `update` would keep the last one
        self.live.update(self._task, completed=done, description=text)

    def close(self) -> None:
        self.live.stop()
        super().close()


class _LogHandler(logging.StreamHandler[TextIO]):
    """Writes lines with their time; of stages that report their progress, one a minute."""

    _stage: object = None
    _written = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        now, stage = time.monotonic(), getattr(record, "stage", None)
        is_last = getattr(record, "done", 0) + 1 >= getattr(record, "total", 0)
        is_due = stage != self._stage or is_last or now - self._written >= _APART_S
        if record.levelno > logging.INFO or stage is None or is_due:
            if stage is not None:
                self._stage, self._written = stage, now
            super().emit(record)


class OperatorLinesFilter(logging.Filter):
    """Holds back records that are for the operator alone.

    In a command that keeps them in no folder, such as one that releases nothing, it says once that
    the same command shows them on a terminal.
    """

    _is_told = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns whether anybody may read a record."""
        if record.name != _OPERATOR.name:
            return True
        is_lost = record.levelno > logging.INFO and not _OPERATOR.handlers
        if is_lost and not self._is_told:
            self._is_told = True
            logging.getLogger("tracecloak").warning(
                "something was found in the records that is for the operator alone: the same "
                "command shows it on a terminal, as a table"
            )
        return False


@contextlib.contextmanager
def _ours_alone() -> Iterator[TextIO]:
    """Gives a stream to standard error, while what all others write there is thrown away.

    Workers of Beam, in threads or processes, print the tracebacks of failed stages there, whatever
    the loggers are set to.
    """
    try:
        number = sys.stderr.fileno()
    except (AttributeError, io.UnsupportedOperation):  # no file, as in a notebook
        yield sys.stderr
        return
    sys.stderr.flush()
    stderr_copy = os.dup(number)
    try:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), number)
        with open(stderr_copy, "w", buffering=1, errors="replace", closefd=False) as stream:
            yield stream
    finally:
        sys.stderr.flush()
        os.dup2(stderr_copy, number)
        os.close(stderr_copy)


@contextlib.contextmanager
def showing_progress(
    form: Form = "table", with_runner: bool = False
) -> Iterator[Callable[[str], bool] | None]:
    """Shows our own log while the block runs, and gives it what asks a person a question.

    That is None where nobody answers: standard input or standard error is no terminal, or `form` is
    `json`.

    Args:
        form: How the result is shown; `quiet` shows no progress and no warning, either. Numbers of
            the data are shown with `table` alone, and on a terminal alone.
        with_runner: Show the runner's log too. It quotes the errors of stages with their tracebacks
            and thereby, perhaps, data.
    """
    with contextlib.ExitStack() as stack:
        stream = sys.stderr if with_runner else stack.enter_context(_ours_alone())
        handler: logging.Handler = logging.StreamHandler(stream)
        handler.setLevel(logging.ERROR)
        text_format = None
        if form != "quiet" and stream.isatty() and os.environ.get("TERM") != "dumb":
            handler, text_format = _LineHandler(stream), "%(message)s"
        elif form != "quiet":
            handler, text_format = _LogHandler(stream), _FORMAT
        handler.setFormatter(EscapingFormatter(text_format))
        if not is_of_operator(form, stream):
            handler.addFilter(OperatorLinesFilter())
        stack.callback(handler.close)
        logger = logging.getLogger("tracecloak")
        logger.setLevel(logging.INFO)
        logger.propagate = False
        runner = logging.INFO if with_runner else logging.CRITICAL
        logging.getLogger("apache_beam").setLevel(runner)
        # Schedulers find the job by the line in which the runner names it.
        service = logging.getLogger("apache_beam.runners.dataflow")
        service.setLevel(logging.INFO)
        for one in (logger,) if with_runner else (logger, service):
            one.addHandler(handler)
            stack.callback(one.removeHandler, handler)
        is_answered = form != "json" and stream.isatty() and sys.stdin.isatty()
        yield (lambda question: _answer(handler, stream, question)) if is_answered else None


def _answer(handler: logging.Handler, stream: TextIO, question: str) -> bool:
    """Returns whether a person answers yes; the end of the input is no."""
    live = handler.live if isinstance(handler, _LineHandler) else None
    if live is not None:
        live.stop()  # it would be drawn over the question
    stream.write(f"{escaped(question)} [y/N] ")
    stream.flush()
    answer = sys.stdin.readline().strip().lower()
    if live is not None:
        live.start()
    return answer in ("y", "yes")


def is_of_operator(form: Form, stream: TextIO | None = None) -> bool:
    """Returns whether numbers of the data may be shown, as a person looks at a terminal.

    Args:
        form: How the result is shown.
        stream: Where they would be; None: standard error.
    """
    return form == "table" and (stream or sys.stderr).isatty()
