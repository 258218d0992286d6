"""How this process keeps its memory while it starts, and while a local runner works."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Collects no garbage in the block, which loads modules, and never looks at what it leaves.

    Classes and functions come by the ten thousand then and all stay, so looking for cycles among
    them frees nothing and takes a fifth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.enable()


def keep_pandas_out() -> None:
    """Has Arrow do without pandas in this process; whoever imports it himself gets it.

    At the first list that is to be an array, Arrow imports pandas, where it is installed, to see
    whether the list is one of its own: that takes a third of a second and 50 MB, and we have no
    such lists. Arrow asks once. For the command, as a notebook's process is its user's.
    """
    import pyarrow as pa

    sys.meta_path.insert(0, _NO_PANDAS)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(_NO_PANDAS)


class _NoPandas:
    """Finds that pandas is not there."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


_NO_PANDAS = _NoPandas()


def keep_freed_memory() -> None:
    """Lets this process reuse large freed blocks instead of giving them back to the system.

    A local runner copies a shuffle many times in blocks of its whole size. Each would be fetched
    anew, page by page, which is a third of the time of counting 30 million events. Peak memory is
    the same. All threads take memory from one heap: a heap of each thread would be given back
    whatever these bounds say, and what one thread frees no other could use, which is a sixth of the
    memory of a release. And Arrow, which is not loaded yet, will take its memory where numpy does:
    its own allocator would keep what it frees for itself, and each of the two would fetch what the
    other has free, which is a quarter of that memory and half a second for 3 million events. Only
    where the C library is glibc; elsewhere nothing happens.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "gnu_get_libc_version"):
        for parameter in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD):
            library.mallopt(parameter, _NEVER_BYTES)
        library.mallopt(_M_ARENA_MAX, 1)
        # A pool that is chosen later is not used by all of Arrow.
        os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"


# From glibc's malloc.h; above these sizes it would map blocks of their own, and trim the heap; the
# last is how many heaps there are.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_NEVER_BYTES = 2**31 - 1
