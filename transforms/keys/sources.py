"""Where keys come from: a table of sources by the scheme of a reference, `SCHEME:REST`.

A source is a function from what stands behind the scheme to the text that it finds there. What it
finds is a secret: neither a source nor who calls it may show, log or keep it.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.schemas.plugins import Plugins
from tracecloak.transforms.files import open_raw

KeySource = Callable[[str], str]
"""Takes what stands behind the scheme, and returns the text that is found there.

Its own errors are a UsageError that says the mend, or a RetryLater where waiting is one. Of any
other error no more than the class is told, as its text may quote the secret.
"""

_USUAL = "key of 64 hex digits"

MOST_BYTES = 4096
"""No key is longer: what is, is something else, and is not read to its end."""


def of_file(path: str) -> str:
    """Returns the text of a file, on this machine or any Beam file system."""
    with open_raw(path) as stream:
        return as_text(stream.read(MOST_BYTES + 1))


def of_environment(name: str) -> str:
    """Returns the value of an environment variable."""
    return os.environ[name]


KEY_SOURCES: Plugins[KeySource] = Plugins(
    "key source",
    "tracecloak.key_sources",
    {
        "file": of_file,
        "env": of_environment,
        "command": "tracecloak.transforms.keys.command:of_command",
    },
)


def as_text(content: bytes) -> str:
    """Returns what a source found as text.

    Raises:
        ValueError: It is longer than any key, or no ASCII.
    """
    if len(content) > MOST_BYTES:
        raise ValueError("too long")
    return content.decode("ascii")


def check_reference(reference: str, name: str = "a key reference") -> None:
    """Makes sure that a text is a reference to a key; looks for no key.

    Args:
        reference: The text.
        name: What it was given as, for the error.

    Raises:
        UsageError: It is none. It is not shown then, as it may be the key itself.
    """
    scheme, separator, rest = reference.partition(":")
    if not separator or not rest.strip():
        raise UsageError(
            f"{name} is file:PATH, env:NAME or command:WORDS; what was given is none of these, and "
            "is not shown, as it may be the key itself"
        )
    KEY_SOURCES.named(scheme)


def shown(reference: str) -> str:
    """Returns how messages name a reference.

    Arguments of a command, and what others' sources are told, can hold a password.
    """
    scheme, _, rest = reference.partition(":")
    if scheme in ("file", "env"):
        return repr(reference)
    if scheme == "command":
        return repr(f"command:{first_word(rest)} …")
    return repr(f"{scheme}:…")


def first_word(command: str) -> str:
    """Returns the program of a command line, or of `NAME=VALUE` in its place the name alone."""
    return command.split(maxsplit=1)[0].partition("=")[0]


def text_at(reference: str, what: str = _USUAL) -> str:
    """Returns what a reference leads to.

    Args:
        reference: Where to look.
        what: What should be there, for errors.

    Raises:
        UsageError: There is nothing, or its source failed.
        RetryLater: Its source does not answer now.
    """
    scheme, _, rest = reference.partition(":")
    try:
        return KEY_SOURCES.named(scheme)(rest)
    except TracecloakError:
        raise
    except Exception as error:  # each file system and each service has its own
        raise no_key(reference, type(error).__name__, what) from None


def no_key(reference: str, reason: str, what: str = _USUAL) -> UsageError:
    """Returns the error that a reference leads to no key."""
    return UsageError(f"no {what} at {shown(reference)} ({reason})")
