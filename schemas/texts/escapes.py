r"""Characters that steer what shows them, written as escapes: no name changes the text around it.

An escape sequence, an override of direction or a character of no width in a name of an activity can
hide what stands beside it on a terminal. So such a character is written by its number, as in
`\x1b`, `\u202e` or `\U000e0001`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable

STEERING = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")
"""Categories of characters that steer instead of being seen, such as overrides of direction."""

_ESCAPE = re.compile(r"\\(?:\\|x([0-9a-f]{2})|u([0-9a-f]{4})|U(00[0-9a-f]{6}))?")


def by_number(character: str) -> str:
    r"""Returns how a character is written by its number, such as `\x1b`."""
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def in_json(character: str) -> str:
    r"""Returns how texts of JSON write a character in ASCII, such as `\u001b`."""
    return json.dumps(character)[1:-1]


def escaped(text: str, kept: str = "", escape: Callable[[str], str] = by_number) -> str:
    """Returns a text for people to read; a backslash stays one, so escapes can be ambiguous.

    Args:
        text: Any, also with lone surrogates.
        kept: Characters that stay as they are, such as line ends.
        escape: How one that steers is written.
    """
    if text.isprintable():
        return text
    return "".join(escape(c) if _steers(c) and c not in kept else c for c in text)


def escaped_exactly(text: str) -> str:
    """Returns the text with doubled backslashes, of which `unescaped` makes the same text again."""
    return escaped(text.replace("\\", "\\\\"))


def unescaped(text: str) -> str:
    r"""Returns the text that `escaped_exactly` was given.

    Raises:
        ValueError: A backslash begins none of `\\`, `\x1b`, `\u202e` and `\U000e0001`, or that of
            no character.
    """
    return _ESCAPE.sub(_character, text)


def _steers(character: str) -> bool:
    return unicodedata.category(character) in STEERING


def _character(match: re.Match[str]) -> str:
    if match[0] == "\\\\":
        return "\\"
    digits = match[match.lastindex or 0]
    if digits == "\\":
        raise ValueError("a backslash begins no escape")
    if unicodedata.category(chr(int(digits, 16))) == "Cs":
        raise ValueError("a lone surrogate is no character")
    return chr(int(digits, 16))
