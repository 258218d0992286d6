"""What a check found: it holds, it does not, that cannot be told here, or nothing is to check."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tracecloak.schemas.errors import InputSchemaError, RetryLater
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


class Wrong(InputSchemaError):  # noqa: N818 - `verify` makes a finding of it
    """Something does not hold; the sentence says what, and the text names the command, too."""

    def __init__(self, sentence: str) -> None:
        """Takes what a finding says."""
        super().__init__(f"{sentence} `tracecloak verify` lists all that is wrong with a release")
        self.sentence = sentence


class Unsure(InputSchemaError):  # noqa: N818 - likewise
    """This installation cannot tell whether something holds; the text says why."""


def is_of_machine(error: BaseException) -> bool:
    """Returns whether an error says something of this machine or a server, and not of a file.

    An OSError of the operating system has a number, and one of a library about bytes has none.
    """
    is_numbered = isinstance(error, OSError) and error.errno is not None
    return is_numbered or isinstance(error, (MemoryError, TimeoutError, RetryLater))


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
