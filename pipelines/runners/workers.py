"""Threads that look at several batches at once, as numpy and Arrow let go of Python's lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

S = TypeVar("S")
T = TypeVar("T")


class Workers:
    """So many threads, or none at all where one worker does everything.

    Args:
        n: How many items are worked at at once, at least 1.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self._pool: ThreadPoolExecutor | None = None

    def each(
        self, function: Callable[[S], T], items: Iterable[S], most: int | None = None
    ) -> Iterator[T]:
        """Yields what a function returns of each item, in the order of the items.

        At most one item more than there are workers is taken, or has a result that waits.

        Args:
            function: Called by any of the workers.
            items: What it is called with.
            most: How many workers there are for it at most; None: all.
        """
        n = self.n if most is None else min(self.n, most)
        if n == 1:
            yield from map(function, items)
            return
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor  # loaded on use

            self._pool = ThreadPoolExecutor(self.n, "tracecloak")
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

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        """Waits for what is at work still, of which nobody takes the result."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
