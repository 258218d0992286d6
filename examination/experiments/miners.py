"""Several processes that mine and judge models, as many as there are processors.

What is asked and how long it may take is `PatientMiner`'s; here is who is asked when.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Self, TypeVar

from tracecloak.examination.measure.quality import PatientMiner

_T = TypeVar("_T")
# Each holds the log, and pm4py.
_MOST = 8
# Seconds between two attempts to interrupt.
_BETWEEN = 0.05


class Miners:
    """Processes that mine at once; each begins with its first question, and all end with the block.

    Args:
        make: Makes one.
        n: How many; by default as many as there are processors, and eight at most.
    """

    def __init__(self, make: Callable[[], PatientMiner], n: int | None = None) -> None:
        self.n = n or min(os.cpu_count() or 1, _MOST)
        self._all = [make() for _ in range(self.n)]
        self._free: SimpleQueue[PatientMiner] = SimpleQueue()
        for miner in self._all:
            self._free.put(miner)
        # A thread waits for the answer of each process.
        self._threads = ThreadPoolExecutor(self.n, thread_name_prefix="miner")

    def submit(self, ask: Callable[[PatientMiner], _T]) -> Future[_T]:
        """Begins to ask one that is free, or as soon as one is; returns the answer to come."""
        return self._threads.submit(self._asked, ask)

    def _asked(self, ask: Callable[[PatientMiner], _T]) -> _T:
        miner = self._free.get()
        try:
            return ask(miner)
        finally:
            self._free.put(miner)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends all processes, at work or not."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        while self._free.qsize() < self.n:
            for miner in self._all:
                miner.interrupt()
            time.sleep(_BETWEEN)  # one that is just beginning has no process yet
        self._threads.shutdown()
        for miner in self._all:
            miner.close()
