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
    """

    text: str

    def __post_init__(self) -> None:
        scheme, _, rest = self.text.partition(":")
        if scheme not in ("file", "env") or not rest:
            raise UsageError(f"a key reference is file:PATH or env:NAME, got {self.text!r}")

    def resolve(self) -> ReleaseKey:
        """Returns the key.

        Raises:
            UsageError: There is none, or it is not 64 hex digits; the text found is not shown.
        """
        scheme, _, rest = self.text.partition(":")
        try:
            if scheme == "env":
                found = os.environ[rest]
            else:
                with open_raw(rest) as stream:
                    found = stream.read().decode("ascii")
            return ReleaseKey(bytes.fromhex(found.strip()))
        except (KeyError, OSError, ValueError) as error:
            raise UsageError(
                f"no release key of 64 hex digits at {self.text!r} ({type(error).__name__})"
            ) from None
