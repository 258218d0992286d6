r"""What must not be shown as it is: characters that steer a screen, and passwords.

An escape sequence, an override of direction or a character of no width in a name of an activity can
hide what stands beside it on a terminal. So such a character is written by its number, as in
`\x1b`, `\u202e` or `\U000e0001`. No name changes the text around it so.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from urllib.parse import unquote

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


# Each of these patterns reads a text once from beginning to end, however often it begins to match.
_PORT = re.compile(r"(?i)((?:https?|hdfs|kafka)://(?:\[[^/\s]*\]|[^:/\s]*)):\d+(?=/)")
# Before an @ behind which no other is: a user and its password, or of HTTP also a token alone.
_USER = re.compile(r"(?i)://(?:\[[0-9a-f:.]*\])?+[^:/\s]*:|https?://(?=[^/?#@\s]*@)")
_OPTION = re.compile(r"(?<![\w/])(\w++\s*+)=\s*+")
_OPTION_VALUE = re.compile(r"'[^']{0,500}'|[^&;\s]+")
# Words of SQL may be around an = as well, so most names must be next to it.
_SECRET_OPTION = re.compile(
    r"(?i)password|passwd|pwd|(?:secret|token|api_?key|access_?key|signature)\w*$|^sig$"
)
SECRET_REFUSED = (
    "has a password in it, or a parameter that could be a secret, which lists of processes, the "
    "history of a shell or the configuration would show; put the URI into an environment variable "
    "and say env:NAME, or into a file that only you can read and say file:PATH"
)
"""Of what is refused for it: the reason and the remedy."""


def without_secrets(text: str) -> str:
    """Returns a text with *** for passwords in URLs, and for values of options named like secrets.

    Options are parameters of a URL, words of a connection string as libpq reads it, or of ODBC. A
    folder such as /token=5/ of a partitioned log is none.
    """
    words = re.split(r"(\s+)", text)
    for i, word in enumerate(words):
        if "@" in word:
            before, at, after = word.rpartition("@")
            before = _PORT.sub(r"\1", before)  # and not the beginning of a password
            if (user := _USER.search(before + at)) is not None:
                words[i] = f"{before[: user.end()]}***@{after}"
    text, pieces, end = "".join(words), [], 0
    while (option := _OPTION.search(text, end)) is not None:
        pieces.append(text[end : option.end()])
        end = option.end()
        value = _OPTION_VALUE.match(text, end) if _SECRET_OPTION.search(option[1][-200:]) else None
        if value is not None:
            pieces.append("***")
            end = value.end()
    return "".join([*pieces, text[end:]])


def has_secret(text: str) -> bool:
    """Returns whether a text has a password, or what could be one, as it is or percent-encoded.

    Drivers decode an address after they have split it, and each splits in its own way, as at the
    slash or the space of a password that should be encoded. So whatever is like a secret counts.
    """
    forms = [text, unquote(text)]
    if re.match(r"\s*[\w+.-]+://", text):
        forms += ["".join(form.split()) for form in forms]
    return any(without_secrets(form) != form for form in forms)
