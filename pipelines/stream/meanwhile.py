"""meanwhile: what goes on beside a stream, in a thread of its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def meanwhile(
    do: Callable[[threading.Event], None], join_seconds: float | None = None
) -> Iterator[None]:
    """Runs a function while the block runs.

    Args:
        do: What is run; it ends soon after its event is set.
        join_seconds: How long its end is waited for, where it may hang; None: whatever it takes.
    """
    is_over = threading.Event()
    thread = threading.Thread(target=do, args=(is_over,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(join_seconds)
