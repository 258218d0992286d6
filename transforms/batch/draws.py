"""Decisions that are kept, so that a run that goes on after one was cut off draws nothing anew."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

import tracecloak.transforms.columnar_names  # noqa: F401  # names what is encoded
from tracecloak.anonymizers.contract.method import Decision
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.release_key import ReleaseKey
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.keys.wrapping import KeyReference
from tracecloak.transforms.sealed import read_sealed, write_sealed

_MEND = "the release cannot be finished; give it up with `tracecloak ledger forfeit`"


class Gate(Protocol):
    """A gate that a release passes before it draws noise, and asks before it appears."""

    def __call__(self) -> None:
        """Notes that noise is drawn from now on; raises if none may be drawn."""
        ...

    def check_open(self) -> None:
        """Raises if the release was given up meanwhile."""
        ...


@dataclass(frozen=True)
class KeptDraws:
    """Decisions in the files of a folder that only the operator reads; it pickles.

    The files hold noisy values, and exact ones for published methods. Each file is authenticated
    with the release's key, so that no other bytes are taken for a decision.

    Attributes:
        folder: On any Beam file system.
        key: Where the release's key is. If the release was given up, its key is gone and nothing
            is drawn.
        before: Called before anything is drawn; raises if nothing may be drawn.
    """

    folder: str
    key: KeyReference
    before: Gate | None = None

    def once(
        self, round_name: str, randomness: Randomness, decide: Callable[[], Decision]
    ) -> Decision:
        """Returns what a round decided; see `contract.draws.Draws`.

        Raises:
            UsageError: The key is gone, or the round was decided on another input.
            TracecloakError: A kept decision was changed.
        """
        key = self.key.resolve()
        path = f"{self.folder.rstrip('/')}/{_short(round_name)}.decision"
        about = hashlib.sha256(
            "\n".join((round_name, randomness.input_digest, randomness.decided)).encode()
        ).digest()
        decision = self._read(path, key, round_name, about)
        if decision is not None:
            return decision
        if self.before is not None:
            self.before()
        write_sealed(path, key, round_name, about + encode(decide()))
        # The decision that is kept counts, as another worker may have been first.
        return cast(Decision, self._read(path, key, round_name, about))

    def _read(self, path: str, key: ReleaseKey, round_name: str, about: bytes) -> Decision | None:
        message = read_sealed(path, key, round_name, _MEND)
        if message is None:
            return None
        if not hmac.compare_digest(message[: len(about)], about):
            raise UsageError(
                f"the round {round_name!r} was decided on another input, and noise is drawn on one "
                "input only; restore it and run again, or give the release up with `tracecloak "
                "ledger forfeit`"
            )
        return cast(Decision, decode(message[len(about) :]))


def _short(round_name: str) -> str:
    """Returns a name for the round's file that every file system takes."""
    return hashlib.sha256(round_name.encode()).hexdigest()[:16]
