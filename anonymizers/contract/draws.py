"""Every round is decided once: what it decided is kept, and what follows depends on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from tracecloak.anonymizers.contract.method import Decision
from tracecloak.anonymizers.noise.randomness import Randomness, text_digest
from tracecloak.schemas.arrays.columnar import digest


def decided(decisions: Mapping[str, Decision]) -> str:
    """Returns the digest of the rounds so far, for `Randomness`; empty before the first.

    Args:
        decisions: What was decided, by the name of the round, in their order.
    """
    if not decisions:
        return ""
    return text_digest(
        *(part for name, decision in decisions.items() for part in (name, digest(decision)))
    )


class Draws(Protocol):
    """Where a release's decisions are made, and kept for whoever asks again."""

    def once(
        self, round_name: str, randomness: Randomness, decide: Callable[[], Decision]
    ) -> Decision:
        """Returns what a round decided: what is kept of it, or what is decided and kept now.

        Args:
            round_name: The round.
            randomness: Its randomness, which knows the input and the rounds before.
            decide: Draws the noise. It is not called where something is kept.
        """
        ...


class Unkept:
    """Keeps nothing: for decisions that one process makes in one go and nobody pays for."""

    def once(
        self, round_name: str, randomness: Randomness, decide: Callable[[], Decision]
    ) -> Decision:
        """Returns what is decided now."""
        return decide()
