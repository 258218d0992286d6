"""What the user of a frame reads: errors and lines of logs that name calls of Python."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator

from tracecloak.pipelines.configuration.python_words import in_python, told_in_python

_LOGGERS = ("tracecloak", "tracecloak.operator")
_INSTEAD = {
    "`tracecloak profile` with the same flags of the log": (
        "`tracecloak profile --log log.parquet`, with the frame in that file,"
    ),
    "<release_id, which this method needs>": "<a new name>",
    "--for ": "goal ",
    "with the same flags": "with the same keywords",
    "with the same configuration": "with the same keywords",
}
_CALL = re.compile(r"`tracecloak (plan|vocabulary)`")


def of_frame(text: str) -> str:
    """Returns a sentence of the command in the words of Python, for whoever has a frame.

    So `tracecloak plan`, in marks, becomes `tracecloak.plan(df, …)`.
    """
    for of_command, of_python in _INSTEAD.items():
        text = text.replace(of_command, of_python)
    return in_python(_CALL.sub(r"`tracecloak.\1(df, …)`", text))


@contextlib.contextmanager
def told_of_frame() -> Iterator[None]:
    """Has errors and lines of logs speak of frames and keywords, and not of files and flags."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_reworded)
    try:
        with told_in_python(of_frame):
            yield
    finally:
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(_reworded)


def _reworded(record: logging.LogRecord) -> bool:
    record.msg, record.args = of_frame(record.getMessage()), ()
    return True
