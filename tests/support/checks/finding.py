"""What a check raises: it returns where the configuration withstood it."""

from __future__ import annotations


class NotHeld(Exception):  # noqa: N818 - a finding, not a fault
    """What a check tried went through; the text says what was seen."""


class NotApplicable(Exception):  # noqa: N818 - likewise
    """A check says nothing about the configuration; the text says why."""


def expect(is_so: bool, otherwise: str) -> None:
    """Makes sure that something is as it must be.

    Raises:
        NotHeld: It is not; with the text.
    """
    if not is_so:
        raise NotHeld(otherwise)
