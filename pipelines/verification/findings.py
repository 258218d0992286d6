"""What a check found: it holds, it does not, that cannot be told here, or nothing is to check."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tracecloak.schemas.texts.escapes import escaped

State = Literal["ok", "failed", "unsure", "not applicable"]

_SHOWN_NAMES = 3
_SHOWN_CHARACTERS = 80


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        check: Its name.
        state: How it ended.
        sentence: What was found; it names files, and never quotes what is in them.
    """

    check: str
    state: State
    sentence: str


class Wrong(Exception):  # noqa: N818 - becomes a finding, and is no fault of the program
    """Something does not hold; the text says what."""


class Unsure(Exception):  # noqa: N818 - likewise
    """This installation cannot tell whether something holds; the text says why."""


class NotApplicable(Exception):  # noqa: N818 - likewise
    """There is nothing to check; the text says why."""


def shown(names: Iterable[str]) -> str:
    """Returns names for a sentence: the first few, without characters that steer a terminal."""
    listed = list(names)
    text = ", ".join(_printable(name) for name in listed[:_SHOWN_NAMES])
    n_more = len(listed) - _SHOWN_NAMES
    return f"{text} and {n_more:,} more" if n_more > 0 else text


def _printable(name: str) -> str:
    plain = escaped(name)
    return plain if len(plain) <= _SHOWN_CHARACTERS else f"{plain[:_SHOWN_CHARACTERS]}…"
