"""Where is written, and when: rights, free disk, a probe of a file, and what clocks say."""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa

from tracecloak.examination.doctor.setting import Said, Setting
from tracecloak.pipelines.ledger.database import Database
from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.transforms.file_systems import class_of
from tracecloak.transforms.files import (
    create,
    delete_files,
    is_on_this_machine,
    join,
    make_private_folder,
    require_file_system,
    require_writable,
)
from tracecloak.transforms.publish.places import check_places
from tracecloak.transforms.services.service_clock import CLOCK_SKEW_US

# A release of a usual log takes less than the first; nothing at all is certain below the second.
_USUAL_BYTES, _LEAST_BYTES = 1 << 30, 64 << 20
_LEAST_FILES = 1_000


def look_at_output(setting: Setting) -> Iterator[Said]:
    """Looks whether the output can be written, and lies apart from what is not published."""
    config = setting.config
    check_places(setting.output, config.dead_letter)
    for name in ("output", "dead_letter"):
        folder = getattr(config, name)
        if folder is None:
            continue
        require_file_system(name, folder)
        if is_on_this_machine(folder):
            require_writable(name, folder)
            yield "ok", f"{name} can be written"
        else:
            yield (
                "ok",
                f"{name} is on a known file system; the run tries whether it takes files",
            )


def look_at_staging_area(setting: Setting) -> Iterator[Said]:
    """Looks whether files can be built beside the output, so that a release appears at once."""
    area, output = setting.staging_area, setting.output
    require_file_system("staging_area", area)
    setting.folder_of("any").check_apart()
    if is_on_this_machine(area):
        require_writable("staging_area", area)
        if is_on_this_machine(output) and _disk_of(area) != _disk_of(output):
            raise UsageError(
                f"staging_area {area!r} is on another file system than the output, so that a "
                "release could not appear at once; name a folder on that of the output"
            )
    if not setting.probes:
        yield "ok", "it is fit, as far as can be seen without writing; --probe writes one file"
        return
    yield from _probed(setting, area)


def look_at_disk(setting: Setting) -> Iterator[Said]:
    """Looks how much is free of the disks of this machine that are written."""
    disks: dict[int, tuple[str, str]] = {}
    for name, folder in setting.folders_here():
        disks.setdefault(_disk_of(folder), (name, folder))
    for name, folder in disks.values():
        there = _nearest(folder)
        free, status = shutil.disk_usage(there).free, os.statvfs(there)
        mend = f"on the disk of {name}; free some, or name a folder on another disk with {name}"
        if free < _LEAST_BYTES:
            yield "failure", f"less than 64 MiB are free {mend}"
        elif status.f_files and status.f_favail < _LEAST_FILES:
            yield "failure", f"fewer than 1,000 further files have room {mend}"
        elif free < _USUAL_BYTES:
            yield "warning", f"less than 1 GiB is free {mend}"
        else:
            yield "ok", f"1 GiB or more is free on the disk of {name}"


def _probed(setting: Setting, area: str) -> Iterator[Said]:
    """Writes one file and removes it, with the folders that were made for it."""
    path = join(area, f".tracecloak-doctor-{uuid.uuid4().hex[:16]}")
    written = _written_here if is_on_this_machine(area) else _written_elsewhere
    before = setting.now()
    try:
        stamp = written(path)
    except Exception as error:  # each file system has its own
        said = getattr(error, "strerror", None) or class_of(error)
        raise TracecloakError(
            f"a file that was written into staging_area {area!r} to try it failed: {said}; mend "
            "its disk or its rights, or name another folder with staging_area"
        ) from None
    yield "ok", "a file was written and removed"
    if stamp is not None:
        yield compared(before, stamp, setting.now(), "of the file system of staging_area")


def _written_here(text: str) -> float:
    path = Path(text)
    missing = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    make_private_folder(path.parent)
    try:
        with path.open("xb") as stream:
            stream.write(b"\n" * 4096)
            stream.flush()
            os.fsync(stream.fileno())
        return path.stat().st_mtime
    finally:
        path.unlink(missing_ok=True)
        for folder in missing:
            with contextlib.suppress(OSError):  # somebody else uses it by now
                folder.rmdir()


def _written_elsewhere(path: str) -> float | None:
    from apache_beam.io.filesystems import FileSystems

    with closing(create(path)) as stream:
        stream.write(b"\n")
    try:
        (listing,) = FileSystems.match([path])
        stamps = [file.last_updated_in_seconds for file in listing.metadata_list]
        return next(filter(None, stamps), None)
    finally:
        delete_files([path])


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
_MEND = "have all machines synchronise their time, such as by chrony or systemd-timesyncd"


def look_at_clock(setting: Setting) -> Iterator[Said]:
    """Asks the kernel whether the clock is kept right, and a ledger on a server for its time."""
    state = _kernel_state()
    if state == _NOT_SYNCHRONISED:
        yield "warning", f"no time service keeps this machine's clock right: {_MEND}"
    elif state is not None:
        yield "ok", "a time service keeps this machine's clock right"
    ledger = setting.ledger
    if ledger is not None and ledger.is_shared:
        before = setting.now()
        stamp = Database(ledger.url, 5.0).transact(_time_of, writes=False)
        yield compared(before, stamp, setting.now(), "of the ledger's database")


def compared(before: float, stamp: float, after: float, whose: str) -> Said:
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
                f"would begin and end at a wrong time; {_MEND}"
            )
    return "ok", f"this machine's clock is that {whose}, within {limit:.0f} s"


def _kernel_state() -> int | None:
    """Returns what the kernel says of its clock; None: it cannot be asked here."""
    try:
        ask = ctypes.CDLL(None).ntp_gettime
    except (OSError, AttributeError):
        return None
    state = int(ask(ctypes.create_string_buffer(_N_BYTES)))
    return state if state >= 0 else None


def _time_of(connection: sa.Connection) -> float:
    moment = connection.execute(sa.select(sa.func.current_timestamp())).scalar_one()
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return float(moment.timestamp())
