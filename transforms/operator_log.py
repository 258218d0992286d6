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
import threading
from collections.abc import Iterator
from pathlib import Path

from tracecloak.transforms.files import is_on_this_machine, make_private_folder, write_anew

_LOG = logging.getLogger("tracecloak")
_OPERATOR = logging.getLogger("tracecloak.operator")
_FORMAT = "%(asctime)s %(levelname)s %(message)s"
_NAME = "operator.log"


class _InFolder(logging.Handler):
    """Adds lines to a file at once, as the process can be killed; leaves progress out."""

    def __init__(self, folder: str, thread: int | None = None) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(logging.Formatter(_FORMAT))
        self.addFilter(lambda record: not hasattr(record, "stage"))
        self.addFilter(lambda record: thread is None or record.thread == thread)
        self.thread = thread  # whose lines it takes; None: those of all
        self._folder = folder

    def emit(self, record: logging.LogRecord) -> None:
        line = f"{self.format(record)}\n".encode()
        try:
            if is_on_this_machine(self._folder):
                path = Path(self._folder) / _NAME
                make_private_folder(path.parent)
                descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                with os.fdopen(descriptor, "wb") as stream:
                    stream.write(line)
            else:  # where nothing can be added to a file, each line is one
                name = hashlib.sha256(line).hexdigest()[:16]
                write_anew(f"{self._folder.rstrip('/')}/operator-{name}.log", line)
        except Exception as error:  # whatever a file system does: no run fails for it
            _LOG.warning("%s cannot be written: %s", self._folder, type(error).__name__)


_LOCK = threading.Lock()


def _threads() -> list[int | None]:
    """Returns the threads of this process that keep their lines now; None: all do."""
    return [one.thread for one in _OPERATOR.handlers if isinstance(one, _InFolder)]


@contextlib.contextmanager
def operator_log(folder: str, thread: int | None = None) -> Iterator[None]:
    """Keeps what is told of the data while the block runs.

    Args:
        folder: Which only the operator reads, on this machine or any Beam file system; it is made
            when there is something to keep.
        thread: By which thread; None: by all of this process.
    """
    handler = _InFolder(folder, thread)
    _OPERATOR.addHandler(handler)
    try:
        yield
    finally:
        _OPERATOR.removeHandler(handler)


@contextlib.contextmanager
def kept_on_worker(folder: str | None) -> Iterator[None]:
    """Gives the operator, not the worker's log, what this thread of a worker logs of the data.

    Where the command itself runs and keeps it already, nothing changes.

    Args:
        folder: See `operator_log`; None: nothing is kept, and nothing changes.
    """
    if folder is None or None in _threads():
        yield
        return
    try:
        with operator_log(folder, threading.get_ident()):
            with _LOCK:
                _OPERATOR.propagate = False
            yield
    finally:
        with _LOCK:
            _OPERATOR.propagate = not any(_threads())
