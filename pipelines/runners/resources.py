"""Resources of a run in memory: limits, threads, memory, and the columns that it keeps."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import pyarrow as pa

from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.errors import TracecloakError
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor


# --- What a run in memory works with: its limits, its threads, and the columns that it holds. -----
# What it holds of a log is in memory up to a bound, and beyond it in a file on a disk that has no
# name, so it ends with the process however that ends.


# ---
# How much memory and how many cores a run in memory takes: what was asked for, or a public rule.
# Neither depends on the records of the log, and neither changes a byte of what is released.


# What Python, its libraries and the readers of files take, whatever is read.
_PROGRAM_BYTES = 224 << 20
# A batch is looked at by a kernel as a whole, which takes about so many times its bytes.
_KERNEL_BYTES = 16
_SMALLEST_BATCH_BYTES, _LARGEST_BATCH_BYTES = 1 << 18, 1 << 24
# Smaller inputs have one worker and one shard: more would cost more than they give.
SMALL_INPUT_BYTES = 4 << 20

# Where Linux says in which control groups this process is, and what these are limited to.
_OF_PROCESS, _GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Limits:
    """What a run may take.

    A third of its memory holds events or cases. Once more as much can be lost where these are made
    of those: what is freed lies in pieces between what is still held, and Arrow and numpy take over
    what the other one frees only in the command (`runners.memory.keep_freed_memory`). A quarter is
    for the steps that are at work. The rest is for what was counted, which nobody can know before.

    Attributes:
        n_workers: Threads.
        held_bytes: How many bytes of events and cases are held in memory; the others go to the
            disk.
        step_bytes: How much one worker may take beside them for what is at work.
        batch_bytes: About how many bytes a batch of cases has that is looked at as a whole.
    """

    n_workers: int
    held_bytes: int
    step_bytes: int
    batch_bytes: int

    @classmethod
    def of(cls, memory_bytes: int | None, n_workers: int | None, input_bytes: int) -> Limits:
        """Returns the limits that were asked for, or those by the rule.

        Args:
            memory_bytes: None: half of what this process may have.
            n_workers: None: as many as it may use cores, and one of a small input.
            input_bytes: Size of all files.
        """
        if n_workers is None:
            has_affinity = hasattr(os, "sched_getaffinity")
            n_cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
            n_workers = n_cores if input_bytes > SMALL_INPUT_BYTES else 1
        n_bytes = memory_bytes or available_bytes() // 2
        data_bytes = max(n_bytes - _PROGRAM_BYTES, n_bytes // 8)
        step_bytes = data_bytes // 4 // n_workers
        batch_bytes = max(step_bytes // _KERNEL_BYTES, _SMALLEST_BATCH_BYTES)
        return cls(n_workers, data_bytes // 3, step_bytes, min(batch_bytes, _LARGEST_BATCH_BYTES))


def available_bytes() -> int:
    """Returns how much memory this process may have at most, whatever others take of it.

    That is the memory of the machine, or less if a control group of the process, or one above it,
    of either version, or a limit of the process's resources says so.
    """
    bounds = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        soft = resource.getrlimit(limit)[0]
        bounds += [soft] if soft != resource.RLIM_INFINITY else []
    files: list[Path] = []
    lines: list[str] = []
    with contextlib.suppress(OSError):  # another system than Linux
        lines = _OF_PROCESS.read_text().splitlines()
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            root, name = _GROUPS, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = _GROUPS / "memory", "memory.limit_in_bytes"
        else:
            continue
        # In a container the group of this process can be the root of what is seen.
        path = root / group.strip("/")
        files += [folder / name for folder in (path, *path.parents) if folder.is_relative_to(root)]
    texts = [file.read_text().strip() for file in files if file.is_file()]
    return min([*bounds, *(int(text) for text in texts if text.isdigit())])


# ---
# What a run in memory holds of a log: in memory up to a bound, and beyond it in a file on a disk.
# The file has no name, or loses it as soon as it is there, so it ends with the process however that
# ends. Only the user of this process could open it. What is in it are records as they were read and
# cases as they will be released, neither of them encrypted.


S = TypeVar("S")
T = TypeVar("T")
Columns = TypeVar("Columns", pa.RecordBatch, TraceBatch)


@dataclass(eq=False, slots=True)
class Block(Generic[Columns]):
    """Some columns that a `Hold` has.

    Attributes:
        n_bytes: What they take.
        kind: What they are.
    """

    n_bytes: int
    kind: type[Columns]
    _columns: Columns | None
    _place: tuple[int, int] = (0, 0)


@dataclass(eq=False)
class Hold(contextlib.AbstractContextManager["Hold"]):
    """What a run has to work with: it holds blocks of columns, and its threads look at them.

    Attributes:
        limits: How much memory and how many workers it may take.
        folder: Where the file lies that gets the blocks which do not stay in memory; None: where
            the system has such files.
    """

    limits: Limits
    folder: str | None
    _n_bytes: int = field(default=0, init=False)
    _file: FileIO | None = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _pool: ThreadPoolExecutor | None = field(default=None, init=False)

    def each(
        self, function: Callable[[S], T], items: Iterable[S], most: int | None = None
    ) -> Iterator[T]:
        """Yields what a function returns of each item, in the order of the items.

        Threads look at several at once, as numpy and Arrow let go of Python's lock. At most one
        item more than there are workers is taken, or has a result that waits.

        Args:
            function: Called by any of the workers.
            items: What it is called with.
            most: How many workers there are for it at most; None: all.
        """
        n_workers = self.limits.n_workers
        n = n_workers if most is None else min(n_workers, most)
        if n == 1:
            yield from map(function, items)
            return
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor  # loaded on use

            self._pool = ThreadPoolExecutor(n_workers, "tracecloak")
        begun: deque[Future[T]] = deque()
        try:
            for item in items:
                begun.append(self._pool.submit(function, item))
                del item
                if len(begun) > n:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            for future in begun:
                future.cancel()

    def put(self, columns: Columns) -> Block[Columns]:
        """Takes in columns.

        Raises:
            TracecloakError: They must go to the disk, which is full or cannot be written.
        """
        block = Block(columns.nbytes, type(columns), columns)
        with self._lock:
            fits = self._n_bytes + block.n_bytes <= self.limits.held_bytes
            if fits:
                self._n_bytes += block.n_bytes
        if not fits:
            message = _message(columns)
            block._place = self._write(message), len(message)
            block._columns = None
        return block

    def look(self, block: Block[Columns]) -> Columns:
        """Returns the columns of a block, which stays."""
        if block._columns is not None:
            return block._columns
        first, n_bytes = block._place
        with self._lock:
            assert self._file is not None  # something was put there
            self._file.seek(first)
            parts: list[bytes] = []
            while n_bytes:  # the system reads no more than 2 GiB at once
                parts.append(self._file.read(n_bytes))
                n_bytes -= len(parts[-1])
        message = b"".join(parts)
        if block.kind is TraceBatch:
            return cast(Columns, decode(message))
        with pa.ipc.open_stream(pa.py_buffer(message)) as reader:
            return cast(Columns, reader.read_next_batch())

    def take(self, block: Block[Columns]) -> Columns:
        """Returns the columns of a block, which is held no longer."""
        columns = self.look(block)
        self.drop(block)
        return columns

    def drop(self, block: Block[Columns]) -> None:
        """Holds a block no longer."""
        if block._columns is not None:
            block._columns = None
            with self._lock:
                self._n_bytes -= block.n_bytes

    def _write(self, message: memoryview | bytes) -> int:
        """Returns where in the file a message begins."""
        try:
            with self._lock:
                if self._file is None:
                    # Its mode is 0600, and where the system lets it has no name at any time.
                    self._file = tempfile.TemporaryFile(dir=self.folder, buffering=0)
                first = self._file.seek(0, os.SEEK_END)
                left = memoryview(message)
                while left:
                    left = left[self._file.write(left) :]
            return first
        except OSError as error:
            folder = self.folder or tempfile.gettempdir()
            what = "is full" if error.errno == errno.ENOSPC else "cannot be written"
            raise TracecloakError(
                f"what does not fit into memory is put into {folder}, whose disk {what}, and "
                "nothing was released: free some of it, or set memory to more"
            ) from error

    def __exit__(self, *_: object) -> None:
        """Waits for what is at work still, of which nobody takes the result, and forgets all."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        if self._file is not None:
            self._file.close()


def _message(columns: pa.RecordBatch | TraceBatch) -> pa.Buffer | bytes:
    if isinstance(columns, TraceBatch):
        return encode(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, columns.schema) as writer:
        writer.write_batch(columns)
    return sink.getvalue()


@dataclass(eq=False)
class HeldTraces:
    """Batches of complete cases, which can be gone through any number of times.

    All have one vocabulary when they come out, whatever they had when they went in.

    Attributes:
        n_events: How many events they have.
    """

    _hold: Hold
    _are_lent: bool = False
    _blocks: list[Block[TraceBatch]] = field(default_factory=list, init=False)
    _vocabulary: ActivityVocabulary = field(default=ActivityVocabulary.of([]), init=False)
    n_events: int = field(default=0, init=False)

    def add(self, traces: TraceBatch, max_bytes: int) -> None:
        """Takes in cases, in batches of about `max_bytes`."""
        for batch in traces.split(max_bytes) if traces.n_cases else ():
            self._blocks.append(self._hold.put(batch))
        if traces.vocabulary is not self._vocabulary:
            self._vocabulary = ActivityVocabulary.merge([self._vocabulary, traces.vocabulary])
        self.n_events += traces.n_events

    def __iter__(self) -> Iterator[TraceBatch]:
        for block in self._blocks:
            yield self._recoded(self._hold.look(block))

    def lent(self) -> HeldTraces:
        """Returns the same batches, which stay here when they are taken or dropped there."""
        lent = HeldTraces(self._hold, _are_lent=True)
        lent._blocks, lent._vocabulary = [*self._blocks], self._vocabulary
        lent.n_events = self.n_events
        return lent

    def taken(self) -> Iterable[TraceBatch]:
        """Yields the batches, none of which is held any more."""
        blocks, self._blocks = self._blocks[::-1], []
        take = self._hold.look if self._are_lent else self._hold.take
        while blocks:
            yield self._recoded(take(blocks.pop()))

    def drop(self) -> None:
        """Holds none of the batches any more."""
        while self._blocks:
            block = self._blocks.pop()
            if not self._are_lent:
                self._hold.drop(block)

    def _recoded(self, batch: TraceBatch) -> TraceBatch:
        if batch.vocabulary == self._vocabulary:
            return replace(batch)  # what is computed of it is not kept with it
        return batch.recode(self._vocabulary)
