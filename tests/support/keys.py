"""Release keys for tests: fixed, so that a failure repeats; nothing outside tests can make one."""

from __future__ import annotations

import pytest

from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.release_key import ReleaseKey


def release_key(number: int = 0) -> ReleaseKey:
    """Returns one of as many keys as there are numbers."""
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
