"""How this process keeps its memory while it starts, and while a local runner works."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Collects no garbage in the block, which loads modules.

    Classes and functions come by the ten thousand then and all stay, so looking for cycles among
    them frees nothing and takes a fifth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def keep_freed_memory() -> None:
    """Lets this process reuse large freed blocks instead of giving them back to the system.

    A local runner copies a shuffle many times in blocks of its whole size. Each would be fetched
    anew, page by page, which is a third of the time of counting 30 million events. Peak memory is
    the same. Only where the C library is glibc; elsewhere nothing happens.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "gnu_get_libc_version"):
        for parameter in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD):
            library.mallopt(parameter, _NEVER_BYTES)


# From glibc's malloc.h; above these sizes it would map blocks of their own, and trim the heap.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_NEVER_BYTES = 2**31 - 1
