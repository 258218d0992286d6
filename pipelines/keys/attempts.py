"""How the last try to release a window or to run a stream ended, noted for the operator alone.

A refusal leaves nothing in the ledger, and whoever looks at what is due wants to know of it.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.schemas.errors import TracecloakError
from tracecloak.transforms.files import read_if_there, write_anew

_LOG = logging.getLogger("tracecloak")
_NAME = "attempt.json"
# Of a try that has not ended, or whose process was killed.
NOT_ENDED = -1
_NOT_ENDED = "it began, and did not end by itself: it was killed, or its machine stopped"


@dataclass(frozen=True)
class Attempt:
    """One try.

    Attributes:
        at: When it ended, in UTC, such as 2026-11-23T02:00:00+00:00; or when it began.
        exit_code: That of the command; 0: it was released, or the stream was stopped or is over;
            NOT_ENDED: it only began.
        reason: What the command said, which never holds data; empty if it was released.
    """

    at: str
    exit_code: int
    reason: str = ""


def note_attempt(store: KeyStore, output: str, release_id: str, code: int, reason: str) -> None:
    """Notes a try in place of the one before, if it can be: nothing else depends on it.

    Args:
        store: The key store.
        output: The folder of all releases.
        release_id: Of the release or the stream.
        code: See `Attempt`, as is the next one.
        reason: What the command said.
    """
    at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    data = json.dumps(asdict(Attempt(at, code, reason))).encode()
    try:
        write_anew(_path(store, output, release_id), data)
    except Exception as error:  # whatever a file system does
        _LOG.warning("how %s ended was not noted: %s", release_id, type(error).__name__)


@contextlib.contextmanager
def end_noted(store: KeyStore, output: str, release_id: str) -> Iterator[Callable[[], None]]:
    """Notes how the block ends, unless another process is at the release or there is no store yet.

    Args:
        store: The key store.
        output: The folder of all releases.
        release_id: Of the release or the stream.

    Returns:
        Notes that the try began, which its end replaces.
    """
    place, code, reason = (store, output, release_id), 0, "it was stopped, or is over"
    try:
        yield lambda: note_attempt(*place, NOT_ENDED, _NOT_ENDED)
    except BaseException as error:
        code = getattr(error, "exit_code", TracecloakError.exit_code)
        reason = str(error) if isinstance(error, TracecloakError) else type(error).__name__
        raise
    finally:
        if store.path.exists() and not store.is_held(output, release_id):
            note_attempt(*place, code, reason)


def last_attempt(store: KeyStore, output: str, release_id: str) -> Attempt | None:
    """Returns the last try that was noted; None: none was, or its file is damaged."""
    text = read_if_there(_path(store, output, release_id))
    try:
        return None if text is None else Attempt(**json.loads(text))
    except (ValueError, TypeError):
        return None


def _path(store: KeyStore, output: str, release_id: str) -> str:
    return f"{store.operator_folder(output, release_id).rstrip('/')}/{_NAME}"
