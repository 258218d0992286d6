"""State and timers of a Beam stage, for tests that call its functions without a runner."""

from __future__ import annotations

from typing import Any


class Cell:
    """A value of state, or a timer, that keeps what it is given last."""

    def __init__(self) -> None:
        self.value: Any = None

    def read(self) -> Any:
        return self.value

    def clear(self) -> None:
        self.value = None

    def write(self, value: Any) -> None:
        self.value = value

    set = write


class Bag:
    """A bag of state, in another order than it was filled in."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def read(self) -> list[Any]:
        return self.values[::-1]

    def add(self, value: Any) -> None:
        self.values.append(value)

    def clear(self) -> None:
        self.values = []
