"""Passwords in URLs, connection strings and parameters, which no message and no file may show."""

from __future__ import annotations

import re
from urllib.parse import unquote

# Each of these patterns reads a text once from beginning to end, however often it begins to match.
_PORT = re.compile(r"(?i)((?:https?|hdfs|kafka)://(?:\[[^/\s]*\]|[^:/\s]*)):\d+(?=/)")
# Before an @ behind which no other is: a user and its password, or of HTTP also a token alone.
_USER = re.compile(r"(?i)://(?:\[[0-9a-f:.]*\])?+[^:/\s]*:|https?://(?=[^/?#@\s]*@)")
_OPTION = re.compile(r"(?<![\w/])(\w++\s*+)=\s*+")
_OPTION_VALUE = re.compile(r"'[^']{0,500}'|[^&;\s]+")
# Words of SQL may be around an = as well, so most names must be next to it.
_SECRET_OPTION = re.compile(
    r"(?i)password|passwd|pwd|(?:secret|token|(?:api|access|account|private)_?key|signature)\w*$"
    r"|^(?:sig|pass|passphrase)$"
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
    forms = [text, unquote(text.replace("\\/", "/"))]  # JSON may write a slash so
    if re.match(r"\s*[\w+.-]+://", text):
        forms += ["".join(form.split()) for form in forms]
    return any(without_secrets(form) != form for form in forms)
