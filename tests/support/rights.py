"""Rights of files as an ordinary user has them, also in tests that run as root."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")
# CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, by which root passes over rights of files.
_OVERRIDES = (1 << 1) | (1 << 2)
_VERSION = 0x20080522
_PR_CAPBSET_DROP = 24


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable"))


def drop_overrides() -> None:
    """Has rights of files count for this thread, for those it starts, and for its children."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = _Header(_VERSION, 0), (_Sets * 2)()
    assert libc.capget(ctypes.byref(header), sets) == 0
    sets[0].effective &= ~_OVERRIDES
    sets[0].permitted &= ~_OVERRIDES
    assert libc.capset(ctypes.byref(header), sets) == 0
    if os.geteuid() == 0:  # or root's next program would have them again
        for bit in (1, 2):
            assert libc.prctl(_PR_CAPBSET_DROP, bit, 0, 0, 0) == 0


def as_ordinary_user(call: Callable[[], _T]) -> _T:
    """Calls a function in a thread, for which, and for those it starts, rights of files count."""
    with ThreadPoolExecutor(1, initializer=drop_overrides) as thread:
        return thread.submit(call).result()
