"""The log that a release is compared with, and whether the release can be of it.

A release of another log is not measured. A release says next to nothing of its input, so mostly
this cannot be told from its files: only that none of its activities is in the log, or that the log
lies outside of its public dates. Where the operator has the ledger that paid for it, the ledger's
note of the cases that it read tells (`pipelines.ledger.noted_cases`).
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tracecloak.anonymizers.contract.case_digests import CaseSketch
from tracecloak.examination.measure.measures import require_pot
from tracecloak.pipelines.budget.opening import officers_ledger, store_at
from tracecloak.pipelines.configuration.config import SourceConfig, load_log
from tracecloak.pipelines.configuration.plan import source_of
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger.database import LedgerError
from tracecloak.pipelines.ledger.noted_cases import SHARED, NotedCases, share_text
from tracecloak.pipelines.verification.data import Contents
from tracecloak.pipelines.verification.received import Received
from tracecloak.schemas.calendar.local_time import DAY_US, day_number
from tracecloak.schemas.errors import RetryLater, UsageError
from tracecloak.schemas.events.events import OTHER
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.transforms.files import absolute
from tracecloak.transforms.keys.wrapping import KeyReference
from tracecloak.transforms.sources import EventSource

# --- The log that a release is judged by: its tables at the versions that the release read. -------


def as_released(config: SourceConfig, release: Received | None, store: KeyStore) -> SourceConfig:
    """Returns how the log of a release is read, with a version of each table.

    A version that is not named is that of the receipt, as the table may have changed since.

    Args:
        config: How the log is read.
        release: The release; None: it is not one release that is judged.
        store: The key store that may have the release's receipt.

    Raises:
        UsageError: A table has no version, and no receipt says which one the release read.
        KeyStoreError: The receipt cannot be read.
    """
    tables = config.tables
    if not tables:
        return config
    from tracecloak.transforms.lakes.tables import address_of, at_version_read

    read: tuple[str, ...] = ()
    if release is not None:
        home = str(Path(absolute(release.folder.path)).parent)
        if (receipt := store.receipt(home, release.body["release_id"])) is not None:
            read = receipt.origin.tables

    def pinned(text: str) -> str:
        address = at_version_read(address_of(text), read)
        if address.version is None:
            raise UsageError(
                f"log {text!r} names no version, and this key store does not say which one the "
                f"release read; name it as {text}@VERSION, which the operator's statement has, or "
                "name the key_store of the release"
            )
        return str(address)

    log = tuple(pinned(text) if text in tables else text for text in config.log)
    return config.model_copy(update={"log": log})


def opened(flags: dict[str, Any]) -> tuple[Received, EventSource, KeyStore, str | None]:
    """Opens a release, and the log that it was made of, as flags of a command name them.

    Args:
        flags: With release, and perhaps key_store and ledger; all others say how a log is read.

    Returns:
        The release, its log, the key store, and the ledger that is named.

    Raises:
        UsageError: A flag is wrong, there is no such log, or the release has a log and the extra
            measures is not installed.
        InputSchemaError: The folder is no release, or a file is not as it was released.
    """
    store, url = store_at(flags.pop("key_store", None)), flags.pop("ledger", None)
    folder = flags.pop("release")
    log = load_log(flags)
    release = Received.at(folder)
    if Contents(release).logs:
        require_pot()  # before a log is opened
    return release, source_of(as_released(log, release, store)), store, url


# --- Whether a release can be of a log: a release of another one is not measured. -----------------
# A release says next to nothing of its input, so mostly this cannot be told from its files. What
# can be told: none of its activities is in the log, or the log lies outside of its public dates.
# Where the operator has the ledger that paid for it, the ledger's note of the cases that it read
# tells (`pipelines.ledger.noted_cases`), which is a matter of the operator alone.


NotedShare = Callable[[str, str, TraceBatch], float | None]


def check_origin(
    folder: str,
    manifest: Mapping[str, Any],
    original: TraceBatch,
    names: Collection[str],
    noted_share: NotedShare | None = None,
) -> str:
    """Returns how much is known of whether a release is of a log.

    Args:
        folder: The release's.
        manifest: Its manifest.
        original: The log.
        names: The activities that the release has.
        noted_share: See `examination.evaluation.evaluate.evaluation_of`.

    Raises:
        UsageError: It is of another log.
    """
    log_names = set(original.vocabulary.names.to_pylist())
    released = set(names) - {OTHER}
    share, wrong = None, ""
    if log_names and released and not log_names & released:
        wrong = "it has no activity in common with the original"
    elif _is_outside_of_dates(original, manifest.get("params", {})):
        wrong = "no case of the original lies within its first_date and last_date"
    elif noted_share is not None and "release_id" in manifest:
        output = absolute(folder).rstrip("/").rpartition("/")[0] or "/"
        share = noted_share(output, manifest["release_id"], original)
        if share is not None and share < SHARED:
            wrong = "the ledger notes that it read other cases"
    if wrong:
        raise UsageError(
            f"the release in {folder!r} is of another log: {wrong}; name the log that it was made "
            "of, read with the same keys"
        )
    if share is None:
        return "not known: the names of the activities do not speak against it"
    return f"by the ledger it read {share_text(share)} of the smaller log's cases"


def _is_outside_of_dates(original: TraceBatch, params: dict[str, Any]) -> bool:
    """Whether all cases begin a day or more outside of public dates, in whichever zone they are."""
    try:
        first, last = (
            datetime.date.fromisoformat(str(params[name])) for name in ("first_date", "last_date")
        )
    except (KeyError, ValueError):
        return False
    low, high = (day_number(first) - 1) * DAY_US, (day_number(last) + 2) * DAY_US
    starts = original.starts
    return bool(len(starts)) and not bool(np.any((starts >= low) & (starts < high)))


def share_noted_in(store: KeyStore, ledger: str | None) -> NotedShare:
    """Returns what looks up, in a ledger, which cases a release read.

    Args:
        store: The key store that has the key of the notes, if the environment names none.
        ledger: URL of the ledger, or None for that of the key store, if it has one.

    Returns:
        A function, see `examination.evaluation.evaluate`. Where a ledger is named and cannot be
        read, it raises a LedgerError, a UsageError or RetryLater.
    """

    def share(output: str, release_id: str, original: TraceBatch) -> float | None:
        try:
            url, place = officers_ledger(store, ledger).url, absolute(output)
            released = place, release_id
            noted = [
                one for one in NotedCases(url).all() if (one.output, one.release_id) == released
            ]
            reference = _deployment_key(store)
            if not noted or reference is None:
                return None
            key = reference.resolve()
            sketch = CaseSketch.from_traces(original, key)
        except (UsageError, LedgerError, RetryLater):
            if ledger is not None:
                raise
            return None  # nobody asked for a ledger, and there is none that can be read
        same_key = (one.sketch for one in noted if one.deployment_key == key.fingerprint)
        shares = [share for one in same_key if (share := sketch.shared_with(one)) is not None]
        return max(shares, default=None)

    return share


def _deployment_key(store: KeyStore) -> KeyReference | None:
    named = os.environ.get("TRACECLOAK_DEPLOYMENT_KEY")
    if named:
        return KeyReference(named)
    return store.own_key("deployment") if (store.path / "deployment.secret").exists() else None
