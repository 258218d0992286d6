"""Two releases that take the same decisions, so that whatever differs goes past the noise."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.releasing import fix_key
from tracecloak.anonymizers.contract.case_digests import InputDigest
from tracecloak.anonymizers.contract.method import Decision
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.transforms.batch.job import KeptDraws


class Decided:
    """Takes the decisions of the first release for those of all others."""

    def __init__(self) -> None:
        self.by_round: dict[str, Decision] = {}

    def once(
        self, _: KeptDraws, name: str, randomness: Randomness, decide: Callable[[], Decision]
    ) -> Decision:
        made = decide()  # also of the second log: it must not fail on it
        return self.by_round.setdefault(name, made)


def take_the_same_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes all releases from here on decide as the first one does, under one key."""
    fix_key(monkeypatch)
    decided = Decided()
    monkeypatch.setattr(KeptDraws, "once", lambda *given: decided.once(*given))
    monkeypatch.setattr(InputDigest, "hex", "0" * 64)  # of the log; all randomness depends on it
