"""Where a worker finds the release key; the key itself is never part of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass

from tracecloak.anonymizers.noise.release_key import ReleaseKey
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.keys.sources import check_reference, shown, text_at
from tracecloak.transforms.keys.wrapping import KeyEncryptionKey, opened, wrapped_by


@dataclass(frozen=True)
class KeyReference:
    """`file:PATH` (any Beam file system), `env:NAME` or `command:WORDS`, holding 64 hex digits.

    Other sources come from other distributions, see `sources.KEY_SOURCES`.

    Attributes:
        text: The reference as written.
        fingerprint: Of the key that is meant; empty: whichever is there. A release that was given
            up and begun again has another key in the same place, which a run that still goes on
            must not use.
        wrapped_by: Reference to the key-encryption key that wraps what is found, in the same form;
            empty: it is in clear. It is looked for where the reference is resolved, too.
    """

    text: str
    fingerprint: str = ""
    wrapped_by: str = ""

    def __post_init__(self) -> None:
        check_reference(self.text)
        if self.wrapped_by:
            check_reference(self.wrapped_by)

    def resolve(self) -> ReleaseKey:
        """Returns the key.

        Raises:
            UsageError: There is none, or another, or it is not 64 hex digits, or wrapped by a key
                that is not there; the text found is not shown.
            RetryLater: The source does not answer now.
        """
        text = text_at(self.text)
        needs_other = self.wrapped_by and wrapped_by(text) is not None
        other = KeyEncryptionKey.at(self.wrapped_by) if needs_other else None
        key = ReleaseKey(opened(text, self.text, other))
        if self.fingerprint and key.fingerprint != self.fingerprint:
            raise UsageError(
                f"the release key at {shown(self.text)} is another than that of this run, whose "
                "release was given up meanwhile; nothing more is drawn or released by it"
            )
        return key
