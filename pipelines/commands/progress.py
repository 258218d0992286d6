"""Progress on long work: a bar when a person watches, plain lines when not."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
from collections.abc import Iterator
from typing import TextIO

from tqdm import tqdm

from tracecloak.pipelines.commands.table import Form

_FORMAT = "%(asctime)s %(levelname)s %(message)s"


class _BarHandler(logging.Handler):
    """Shows the last step in a bar on standard error."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(logging.INFO)
        self._stream = stream
        self._bar = tqdm(bar_format="{elapsed} {desc}", leave=False, file=stream)

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno > logging.INFO:
            self._bar.write(self.format(record), file=self._stream)
        self._bar.set_description_str(record.getMessage())

    def close(self) -> None:
        self._bar.close()
        super().close()


@contextlib.contextmanager
def _ours_alone() -> Iterator[TextIO]:
    """Gives a stream to standard error, which everybody else writes to in vain meanwhile.

    Workers of Beam, in threads or processes, print the tracebacks of failed stages there, whatever
    the loggers are set to.
    """
    try:
        number = sys.stderr.fileno()
    except (AttributeError, io.UnsupportedOperation):  # no file, as in a notebook
        yield sys.stderr
        return
    sys.stderr.flush()
    kept = os.dup(number)
    try:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), number)
        with open(kept, "w", buffering=1, errors="replace", closefd=False) as stream:
            yield stream
    finally:
        sys.stderr.flush()
        os.dup2(kept, number)
        os.close(kept)


@contextlib.contextmanager
def showing_progress(form: Form = "table", with_runner: bool = False) -> Iterator[None]:
    """Shows our own log while the block runs.

    Args:
        form: How the result is shown; `quiet` shows no progress and no warning, either.
        with_runner: Show the runner's log too. It quotes the errors of stages with their tracebacks
            and thereby, perhaps, data.
    """
    watched = sys.stderr.isatty() and form != "quiet"
    with contextlib.ExitStack() as stack:
        stream = sys.stderr if with_runner else stack.enter_context(_ours_alone())
        handler = _BarHandler(stream) if watched else logging.StreamHandler(stream)
        stack.callback(handler.close)
        if form == "quiet":
            handler.setLevel(logging.ERROR)
        yield from _showing(handler, watched, with_runner)


def _showing(handler: logging.Handler, watched: bool, with_runner: bool) -> Iterator[None]:
    handler.setFormatter(logging.Formatter("%(message)s" if watched else _FORMAT))
    logger = logging.getLogger("tracecloak")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
    runner = logging.INFO if with_runner else logging.CRITICAL
    logging.getLogger("apache_beam").setLevel(runner)
    # Schedulers find the job by the line in which the runner names it.
    service = logging.getLogger("apache_beam.runners.dataflow")
    service.setLevel(logging.INFO)
    if not with_runner:
        service.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        service.removeHandler(handler)
