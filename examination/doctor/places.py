"""Checks of places: the key store, the ledger and its budget, the output, disks, clocks."""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import sqlalchemy as sa

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.examination.doctor.setting import CheckResult, Setting, Status
from tracecloak.pipelines.budget.opening import (
    check_migrated,
    check_worker_keys,
    out_of_reach,
)
from tracecloak.pipelines.keys.receipts import KeyStoreError
from tracecloak.pipelines.ledger import caps
from tracecloak.pipelines.ledger.balance import added, increase
from tracecloak.pipelines.ledger.cache import LedgerCache
from tracecloak.pipelines.ledger.database import TABLES, Database, LedgerError
from tracecloak.pipelines.ledger.entries import Reservation, WindowCharge, reservation_of
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.runners.flags import is_local
from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.transforms import files
from tracecloak.transforms.keys.signing import SigningReference
from tracecloak.transforms.keys.wrapping import KeyReference
from tracecloak.transforms.publish.release_folder import check_places
from tracecloak.transforms.services.kafka_clock import CLOCK_SKEW_US

# --- Where keys are and who pays: the key store, keys that are named, the ledger and its budget. --


_FOLDERS = ("releases", "ledgers", "units", "book", "operator")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def check_key_store(setting: Setting) -> Iterator[CheckResult]:
    """Looks whether keys can be read and written, and by whom else."""
    store = setting.store
    if not store.path.exists():
        files.require_writable("key_store", str(store.path))
        yield "ok", "there is none yet, and the first run makes it"
        return
    for folder in (store.path, *map(store.path.joinpath, _FOLDERS)):
        if folder.exists() and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise KeyStoreError(
                f"key store {store.path}: this user may not read and write {folder}; "
                "correct its rights or its disk, or name another key_store for another release"
            )
    in_clear = store.check_secrets()
    status = store.path.stat()
    is_ours = status.st_uid == os.geteuid()
    if not is_ours and status.st_mode & stat.S_IWOTH:
        yield "warning", "anybody can replace the key store; let its owner run chmod o-rwx on it"
    elif is_ours and status.st_mode & _OTHERS:
        yield (
            "warning",
            "others can read the key store; run chmod go-rwx on it, or the next run does",
        )
    if in_clear:
        yield "warning", "keys are in clear, and the next run wraps them by key_encryption_key"
    if store.has_ledger_file or any(store.names("ledgers/*")) or any(store.names("releases/*")):
        yield "ok", "its keys can be read, and it can be written"
    else:
        yield "ok", "it can be written, and no release was begun with it yet"


def check_named_keys(setting: Setting) -> Iterator[CheckResult]:
    """Asks for the keys that the configuration or the environment names, and forgets them."""
    config = setting.config
    if config.worker_keys is not None:
        files.require_file_system("worker_keys", config.worker_keys)
        if files.is_on_this_machine(config.worker_keys):
            files.require_writable("worker_keys", config.worker_keys)
    check_worker_keys(config)
    release = setting.release
    if release is None:
        return
    keys = release.keys
    if keys.sign is not None:
        SigningReference.given(keys.sign).key()
        yield "ok", "the key of sign is there"
    named = {
        "deployment_key": (keys.deployment_key, keys.cases_kept_days > 0),
        "book_key": (keys.book_key, release.schedule is not None),
    }
    for name, (text, is_used) in named.items():
        text = text or os.environ.get(f"TRACECLOAK_{name.upper()}")
        if text is not None and is_used:
            KeyReference(text).resolve()
            yield "ok", f"{name} is there"
    if release.schedule is not None:
        from tracecloak.pipelines.release.window import check_book_key

        check_book_key(release)


def check_release_id(setting: Setting) -> Iterator[CheckResult]:
    """Looks what a run does with the next release: begins it, finishes it, or refuses."""
    release, ledger = setting.release, setting.ledger
    name = None if release is None else release.keys.release_id
    if ledger is None or release is None or name is None:
        return
    from tracecloak.pipelines.budget.registry import TABLE, ReleaseRegistry

    folder = setting.folder_of(name)
    books = ReleaseRegistry(setting.store, ledger, folder)
    standing = books.look()
    if (refusal := books.refusal(standing)) is not None:
        raise refusal
    if standing.receipt is not None and standing.state in ("drawn", "visible", "released"):
        # Of its input nothing. Parameters that an earlier version of a method was given otherwise
        # for the same are told by the run alone.
        method, then = release.method, standing.receipt.origin
        now = method.version, dict(method.inner_versions(release.params))
        if now == (then.method_version, then.inner_versions):
            standing.receipt.check_same(standing.receipt.input_fingerprint, release.digest)
    row = next(row for row in TABLE if row.state == standing.state)
    yield "ok", f"{name}: what a run would do with it. {row.next_run}"


# --- Who pays -------------------------------------------------------------------------------------


_LOCK_SECONDS = 5.0
_NO_KEY = "0" * 64  # a fingerprint that no key has


def check_ledger(setting: Setting) -> Iterator[CheckResult]:
    """Looks whether the ledger can be read and written, and goes with the key store."""
    ledger = setting.ledger
    if ledger is None:
        yield "ok", "there is none yet, and the first run begins it, as new_ledger says"
        return
    if not ledger.is_shared and not is_local(setting.config.runner):
        raise out_of_reach(setting.config.runner)
    database = Database(ledger.url, _LOCK_SECONDS)
    # A transaction that may write, and writes nothing: it waits for who holds the lock.
    database.transact(lambda connection: _check_may_insert(ledger, connection), writes=True)
    check_migrated(ledger, setting.store)
    past = ledger.past(is_sound=True)
    yield "ok", "it answers, can be written, and its chain is sound"
    memory = LedgerCache(setting.store, ledger.place)
    complaints = memory.complaints(past, memory.heads())
    if complaints:
        raise LedgerError(". ".join(complaints))
    yield "ok", "it and the key store remember the same"


def check_budget(setting: Setting) -> Iterator[CheckResult]:
    """Looks whether the account pays for what comes next, and how often it does after that."""
    ledger, account = setting.ledger, setting.config.account
    if ledger is None or (asked := _asked(setting)) is None:
        yield "ok", "nothing is spent yet" if ledger is None else "what comes next is paid already"
        return
    past = ledger.past()
    caps.is_charged(past.states(asked.output, asked.release_id), asked)
    caps.check_caps(past, asked, ledger.accounts.get(account))
    spent = past.spent(account, asked.window)
    more = increase(spent.all, added(spent.all, [caps.asked_of(asked)]))
    known = account in ledger.accounts or any(e.account == account for e in ledger.entries())
    left = ledger.balance(account) if known else None
    times = None if left is None else left.room(more)
    epsilon = decimal_text(more["epsilon"])
    if times is None:
        why = "need not pay for" if left and left.caps else "has no cap, so it pays for"
        yield "ok", f"account {account!r} {why} what comes next"
        return
    n_more = times - 1
    status: Status = "warning" if n_more == 0 else "ok"
    what = "stream" if setting.stream is not None else "release"
    tail = f"and for {n_more:,} more of the same" if n_more else "and for no other of the same"
    yield status, f"account {account!r} pays epsilon {epsilon} for the next {what}, {tail}"


def _asked(setting: Setting) -> Reservation | None:
    """Returns what the next run takes from its account; None: it is paid."""
    release, stream = setting.release, setting.stream
    if stream is not None:
        from tracecloak.pipelines.stream.epoch import reservation_of_epoch

        is_paid = setting.store.receipt(*stream.place) is not None
        return None if is_paid else reservation_of_epoch(stream, _NO_KEY)
    assert release is not None
    from tracecloak.pipelines.release.window import known_scope

    name = release.keys.release_id or "unnamed"
    if setting.store.receipt(setting.output, name) is not None:
        return None
    reservation = reservation_of(release, setting.folder_of(name), _NO_KEY)
    if release.window is not None:
        scope = known_scope(release, setting.store) or "of a book that is not there yet"
        charge = WindowCharge(scope, release.window.label, release.windows_add_up)
        reservation = replace(reservation, window=charge)
    return reservation


def _check_may_insert(ledger: Ledger, connection: sa.Connection) -> None:
    if not ledger.is_shared and not os.access(connection.engine.url.database or "", os.W_OK):
        raise LedgerError(f"{ledger.place} cannot be written by this user: correct its rights")
    if connection.dialect.name != "postgresql":
        return
    for table in TABLES:
        asked = sa.select(sa.func.has_table_privilege(table.name, "INSERT"))
        if not connection.execute(asked).scalar_one():
            raise LedgerError(
                f"{ledger.place} cannot be written by this user: grant INSERT on table {table.name}"
            )


# --- Where is written, and when: rights, free disk, a probe of a file, and what clocks say. -------


# A release of a usual log takes less than the first; nothing at all is certain below the second.
_USUAL_BYTES, _LEAST_BYTES = 1 << 30, 64 << 20
_LEAST_FILES = 1_000


def check_output(setting: Setting) -> Iterator[CheckResult]:
    """Looks whether the output can be written, and lies apart from what is not published."""
    config = setting.config
    check_places(setting.output, config.dead_letter)
    for name in ("output", "dead_letter"):
        folder = getattr(config, name)
        if folder is None:
            continue
        files.require_file_system(name, folder)
        if files.is_on_this_machine(folder):
            files.require_writable(name, folder)
            yield "ok", f"{name} can be written"
        else:
            yield "ok", f"{name} is on a known file system; the run tries whether it takes files"


def check_staging_area(setting: Setting) -> Iterator[CheckResult]:
    """Looks whether files can be built beside the output, so that a release appears at once."""
    area, output = setting.staging_area, setting.output
    files.require_file_system("staging_area", area)
    setting.folder_of("any").check_apart()
    if files.is_on_this_machine(area):
        files.require_writable("staging_area", area)
        if files.is_on_this_machine(output) and _disk_of(area) != _disk_of(output):
            raise UsageError(
                f"staging_area {area!r} is on another file system than the output; move it there"
            )
    if not setting.probes:
        yield "ok", "it is fit, as far as can be seen without writing; a probe writes one file"
        return
    yield from _probed(setting, area)


def check_disk(setting: Setting) -> Iterator[CheckResult]:
    """Looks how much is free of the disks of this machine that are written."""
    disks: dict[int, tuple[str, str]] = {}
    for name, folder in setting.folders_here():
        disks.setdefault(_disk_of(folder), (name, folder))
    for name, folder in disks.values():
        there = _nearest(folder)
        free, status = shutil.disk_usage(there).free, os.statvfs(there)
        remedy = f"on the disk of {name}; free some, or name a folder on another disk with {name}"
        if free < _LEAST_BYTES:
            yield "failure", f"less than 64 MiB are free {remedy}"
        elif status.f_files and status.f_favail < _LEAST_FILES:
            yield "failure", f"fewer than 1,000 further files have room {remedy}"
        elif free < _USUAL_BYTES:
            yield "warning", f"less than 1 GiB is free {remedy}"
        else:
            yield "ok", f"1 GiB or more is free on the disk of {name}"


def _probed(setting: Setting, area: str) -> Iterator[CheckResult]:
    """Writes one file and removes it, with the folders that were made for it."""
    path, folder = (
        files.join(area, f".tracecloak-doctor-{uuid.uuid4().hex[:16]}"),
        Path(area).absolute(),
    )
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    before = setting.now()
    try:
        try:
            files.write_anew(path, b"\n" * 4096)
            stamp = _stamp_of(path)
        finally:
            files.delete_files([path])
            for one in missing if files.is_on_this_machine(area) else ():
                with contextlib.suppress(OSError):  # somebody else uses it by now
                    one.rmdir()
    except Exception as error:  # each file system has its own
        said = getattr(error, "strerror", None) or files.class_of(error)
        raise TracecloakError(
            f"no file can be written into staging_area {area!r}: {said}; correct its disk or rights"
        ) from None
    yield "ok", "a file was written and removed"
    if stamp is not None:
        yield compared(before, stamp, setting.now(), "of the file system of staging_area")


def _stamp_of(path: str) -> float | None:
    """Returns when a file was written, by its file system; None: that does not tell."""
    if files.is_on_this_machine(path):
        return os.stat(path).st_mtime
    from apache_beam.io.filesystems import FileSystems

    (listing,) = FileSystems.match([path])
    return next((t for f in listing.metadata_list if (t := f.last_updated_in_seconds)), None)


def _nearest(folder: str) -> Path:
    """Returns a folder, or the nearest around it that is there."""
    path = Path(folder).absolute()
    return next(each for each in (path, *path.parents) if each.exists())


def _disk_of(folder: str) -> int:
    return _nearest(folder).stat().st_dev


# --- Clocks ---------------------------------------------------------------------------------------


# What `ntp_gettime` of Linux returns where no time service has set the clock for long.
_NOT_SYNCHRONISED = 5
# More than its structure takes on any machine.
_N_BYTES = 256
_REMEDY = "have all machines synchronise their time, such as by chrony or systemd-timesyncd"


def check_clock(setting: Setting) -> Iterator[CheckResult]:
    """Asks the kernel whether the clock is kept right, and a ledger on a server for its time."""
    try:
        state = int(ctypes.CDLL(None).ntp_gettime(ctypes.create_string_buffer(_N_BYTES)))
    except (OSError, AttributeError):
        state = -1  # the kernel cannot be asked here
    if state == _NOT_SYNCHRONISED:
        yield "warning", f"no time service keeps this machine's clock right: {_REMEDY}"
    elif state >= 0:
        yield "ok", "a time service keeps this machine's clock right"
    ledger = setting.ledger
    if ledger is not None and ledger.is_shared:
        before = setting.now()
        stamp = Database(ledger.url, 5.0).transact(_time_of, writes=False)
        yield compared(before, stamp, setting.now(), "of the ledger's database")


def compared(before: float, stamp: float, after: float, whose: str) -> CheckResult:
    """Returns how this machine's clock and another one agree.

    Args:
        before: This machine's, when the other was asked.
        stamp: What the other said.
        after: This machine's, when the answer was there.
        whose: The other, after "that".
    """
    limit = CLOCK_SKEW_US / 1e6
    for by, side in ((before - stamp, "ahead of"), (stamp - after, "behind")):
        # File systems have stamps of whole seconds at worst.
        if by > limit:
            return "failure", (
                f"this machine's clock is {by:,.0f} s {side} that {whose}: windows and steps "
                f"would begin and end at a wrong time; {_REMEDY}"
            )
    return "ok", f"this machine's clock is that {whose}, within {limit:.0f} s"


def _time_of(connection: sa.Connection) -> float:
    moment = connection.execute(sa.select(sa.func.current_timestamp())).scalar_one()
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return float(moment.timestamp())
