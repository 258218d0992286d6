"""What is told of the data, in a file of a folder that only the operator reads.

Lines of the logger `tracecloak.operator` have numbers of the data, or are there only because of
one record: "1 of 901: no case id, first at record 301". Lines of `tracecloak` itself have none, and
may be read by whoever reads the log of a service or of a worker. A terminal shows both.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from tracecloak.transforms.files import is_on_this_machine, write_anew

_LOG = logging.getLogger("tracecloak")
_OPERATOR = logging.getLogger("tracecloak.operator")
_FORMAT = "%(asctime)s %(levelname)s %(message)s"
_NAME = "operator.log"


class _InFolder(logging.Handler):
    """Adds lines to a file at once, as the process can be killed; progress is none of them."""

    def __init__(self, folder: str) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(logging.Formatter(_FORMAT))
        self.addFilter(lambda record: not hasattr(record, "stage"))
        self._folder = folder

    def emit(self, record: logging.LogRecord) -> None:
        line = f"{self.format(record)}\n".encode()
        try:
            if is_on_this_machine(self._folder):
                _add(Path(self._folder) / _NAME, line)
            else:  # where nothing can be added to a file, each line is one
                name = hashlib.sha256(line).hexdigest()[:16]
                write_anew(f"{self._folder.rstrip('/')}/operator-{name}.log", line)
        except Exception as error:  # whatever a file system does: no run fails for it
            _LOG.warning("%s cannot be written: %s", self._folder, type(error).__name__)


def _add(path: Path, line: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(line)


@contextlib.contextmanager
def operator_log(folder: str) -> Iterator[None]:
    """Keeps what is told of the data while the block runs, by all threads of this process.

    Args:
        folder: Which only the operator reads, on this machine or any Beam file system; it is made
            when there is something to keep.
    """
    handler = _InFolder(folder)
    _OPERATOR.addHandler(handler)
    try:
        yield
    finally:
        _OPERATOR.removeHandler(handler)


def keep_on_worker(folder: str) -> None:
    """Keeps what is told of the data in a worker from now on, and off the worker's own log.

    Where the command itself runs and keeps it already, nothing changes.
    """
    if not any(isinstance(handler, _InFolder) for handler in _OPERATOR.handlers):
        _OPERATOR.propagate = False
        _OPERATOR.addHandler(_InFolder(folder))
