"""Several processes that mine at once."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tracecloak.examination.comparison.rows import Miners


class Slow:
    """A miner whose answer comes when it is interrupted, or when others are asked, too."""

    together = threading.Barrier(2, timeout=20)

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.is_closed = False

    def mined(self, released: Any) -> Any:
        self.together.wait()
        if released == "together":
            return {"answer": released}
        assert self.ended.wait(20)
        raise RuntimeError("the process that mines has ended")

    def interrupt(self) -> None:
        self.ended.set()

    def close(self) -> None:
        self.is_closed = True


def test_two_are_asked_at_once_and_what_is_at_work_is_ended_with_the_block() -> None:
    made: list[Any] = []

    def make() -> Any:
        made.append(Slow())
        return made[-1]

    with pytest.raises(KeyboardInterrupt), Miners(make, 2) as miners:
        answers = [miners.submit(lambda miner: miner.mined("together")) for _ in range(6)]
        assert [one.result() for one in answers] == [{"answer": "together"}] * 6
        asked = [miners.submit(lambda miner: miner.mined("for ever")) for _ in range(4)]
        time.sleep(0.2)
        raise KeyboardInterrupt
    assert all(isinstance(one.exception(), RuntimeError) for one in asked[:2])
    assert all(one.cancelled() for one in asked[2:])
    assert len(made) == 2 and all(miner.is_closed for miner in made)
