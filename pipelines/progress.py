"""Progress on long work: a bar when a person watches, plain lines when not."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator

from tqdm import tqdm

_FORMAT = "%(asctime)s %(levelname)s %(message)s"


class _BarHandler(logging.Handler):
    """Shows the last step in a bar on standard error."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._bar = tqdm(bar_format="{elapsed} {desc}", leave=False)

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno > logging.INFO:
            self._bar.write(self.format(record), file=sys.stderr)
        self._bar.set_description_str(record.getMessage())

    def close(self) -> None:
        self._bar.close()
        super().close()


@contextlib.contextmanager
def showing_progress(with_runner: bool) -> Iterator[None]:
    """Shows our own log while the block runs.

    Args:
        with_runner: Show the runner's log too. It quotes the errors of stages with their tracebacks
            and thereby, perhaps, data.
    """
    watched = sys.stderr.isatty()
    handler: logging.Handler = _BarHandler() if watched else logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s" if watched else _FORMAT))
    logger = logging.getLogger("tracecloak")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
    runner = logging.INFO if with_runner else logging.CRITICAL
    logging.getLogger("apache_beam").setLevel(runner)
    # Schedulers find the job by the line in which the runner names it.
    logging.getLogger("apache_beam.runners.dataflow").setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()
