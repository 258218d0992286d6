"""Where a worker finds the release key; the key itself is never part of a pipeline."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.files import open_raw


@dataclass(frozen=True)
class KeyReference:
    """`file:PATH` (any Beam file system) or `env:NAME`, holding 64 hex digits.

    Attributes:
        text: The reference as written.
        fingerprint: Of the key that is meant; empty: whichever is there. A release that was given
            up and begun again has another key in the same place, which a run that still goes on
            must not use.
    """

    text: str
    fingerprint: str = ""

    def __post_init__(self) -> None:
        scheme, _, rest = self.text.partition(":")
        if scheme not in ("file", "env") or not rest:
            raise UsageError(f"a key reference is file:PATH or env:NAME, got {self.text!r}")

    def resolve(self) -> ReleaseKey:
        """Returns the key.

        Raises:
            UsageError: There is none, or another, or it is not 64 hex digits; the text found is not
                shown.
        """
        scheme, _, rest = self.text.partition(":")
        try:
            if scheme == "env":
                found = os.environ[rest]
            else:
                with open_raw(rest) as stream:
                    found = stream.read().decode("ascii")
            key = ReleaseKey(bytes.fromhex(found.strip()))
        except (KeyError, OSError, ValueError) as error:
            raise UsageError(
                f"no release key of 64 hex digits at {self.text!r} ({type(error).__name__})"
            ) from None
        if self.fingerprint and key.fingerprint != self.fingerprint:
            raise UsageError(
                f"the release key at {self.text!r} is another than that of this run, whose release "
                "was given up meanwhile; nothing more is drawn or released by it"
            )
        return key
