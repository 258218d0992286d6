"""What is noted beside the keys for the operator alone.

How the last try to release a window or to run a stream ended: a refusal leaves nothing in the
ledger, and whoever looks at what is due wants to know of it.

Which files a window leaves out because a person decided so: what, who, why and when. The digest of
what the release reads covers the paths.

Where results of queries lie, noted before a database is asked: a run that is killed while it asks
has reserved nothing, so neither the ledger nor a receipt knows of it. A note may outlive its
result, and says nothing then.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.receipts import KeyStoreError
from tracecloak.schemas.errors import TracecloakError
from tracecloak.transforms.files import exists, join, read_if_there, write_anew
from tracecloak.transforms.publish.release_folder import ReleaseFolder

_LOG = logging.getLogger("tracecloak")
_ATTEMPT, _LEFT_OUT = "attempt.json", "left-out.json"
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
    data = json.dumps(asdict(Attempt(now(), code, reason))).encode()
    try:
        write_anew(_path(store, output, release_id, _ATTEMPT), data)
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
    text = read_if_there(_path(store, output, release_id, _ATTEMPT))
    try:
        return None if text is None else Attempt(**json.loads(text))
    except (ValueError, TypeError):
        return None


@dataclass(frozen=True)
class LeftOut:
    """A file that is left out.

    Attributes:
        path: Where it is, as `transforms.files.absolute` has it.
        by: Who decided it.
        reason: Why.
        at: When, in UTC, such as 2026-11-23T02:00:00+00:00.
    """

    path: str
    by: str
    reason: str
    at: str


def left_out_of(store: KeyStore, output: str, release_id: str) -> tuple[LeftOut, ...]:
    """Returns what the release of a window leaves out, in the order of the decisions.

    Raises:
        KeyStoreError: What was decided cannot be read, so nobody can tell what is to be released.
    """
    path = _path(store, output, release_id, _LEFT_OUT)
    text = read_if_there(path)
    try:
        return () if text is None else tuple(LeftOut(**one) for one in json.loads(text))
    except (ValueError, TypeError):
        raise KeyStoreError(
            f"{path}, the list of files that are left out, is damaged; restore it from a backup, "
            "or remove it and decide again"
        ) from None


def note_left_out(
    store: KeyStore, output: str, release_id: str, decided: Sequence[LeftOut]
) -> None:
    """Notes what the release of a window leaves out, in place of what was decided before."""
    body = json.dumps([asdict(one) for one in decided], indent=2)
    write_anew(_path(store, output, release_id, _LEFT_OUT), body.encode())


def note_result(store: KeyStore, folder: ReleaseFolder) -> None:
    """Notes that the workplace of a release may hold the result of its query from now on.

    Raises:
        KeyStoreError: It cannot be written.
    """
    names = ("output", "release_id", "staging_area", "store")
    body = json.dumps({name: getattr(folder, name) for name in names})
    store.note(folder.output, folder.release_id, ".result", body)


def noted_results(store: KeyStore) -> list[ReleaseFolder]:
    """Returns the releases whose workplace holds a result, as far as one was noted.

    Raises:
        KeyStoreError: The key store cannot be read.
    """
    texts = map(store.read, store.names("releases/*.result"))
    folders = [ReleaseFolder(**json.loads(text)) for text in texts if text is not None]
    return [folder for folder in folders if exists(folder.input)]


def _path(store: KeyStore, output: str, release_id: str, name: str) -> str:
    return join(store.operator_folder(output, release_id), name)


def now() -> str:
    """Returns the time in UTC, such as 2026-11-23T02:00:00+00:00."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
