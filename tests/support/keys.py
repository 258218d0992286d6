"""Release keys for tests: fixed by day, so that a failure repeats, and others at night.

Who draws the others is `tests.support.fresh_keys`.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

import pytest

from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey

T = TypeVar("T")


class Draw:
    """What the keys of all tests follow from.

    Attributes:
        number: 0 are the fixed keys of the day; below 2^31.
        n_keys: How many keys were made so far.
    """

    number = 0
    n_keys = 0


def release_key(number: int = 0) -> ReleaseKey:
    """Returns one of as many keys as there are numbers, which are below 2^32."""
    Draw.n_keys += 1
    number += Draw.number << 32
    return ReleaseKey(b"a secret of tests only: " + number.to_bytes(8, "big"))


def randomness(
    number: int = 0,
    release_id: str = "release",
    input_digest: str = "input",
    config_digest: str = "configuration",
) -> Randomness:
    """Returns the randomness of a release under the key of that number."""
    return Randomness(release_key(number), release_id, input_digest, config_digest)


def key_in_environment(
    monkeypatch: pytest.MonkeyPatch, number: int = 0, name: str = "TRACECLOAK_TEST_KEY"
) -> str:
    """Puts a key where a worker finds it; returns the text of the reference to it (`env:NAME`)."""
    monkeypatch.setenv(name, release_key(number).hex())
    return f"env:{name}"


class Repeatable:
    """What `secrets` offers, the same in every run of a test: what fails once fails again."""

    def __init__(self) -> None:
        self._random = Random()

    def begin(self, name: str) -> None:
        """Begins with what a test or a fixture has of its own.

        Args:
            name: Of the test or fixture.
        """
        self._random = Random(f"{name} {Draw.number}" if Draw.number else name)

    def token_bytes(self, n_bytes: int) -> bytes:
        """As of `secrets`."""
        Draw.n_keys += 1
        return self._random.randbytes(n_bytes)

    def token_hex(self, n_bytes: int) -> str:
        """As of `secrets`."""
        return self.token_bytes(n_bytes).hex()

    def randbelow(self, limit: int) -> int:
        """As of `secrets`."""
        Draw.n_keys += 1
        return self._random.randrange(limit)

    def choice(self, items: Sequence[T]) -> T:
        """As of `secrets`."""
        Draw.n_keys += 1
        return self._random.choice(items)
