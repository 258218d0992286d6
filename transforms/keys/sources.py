"""Where keys come from: a table of sources by the scheme of a reference, `SCHEME:REST`.

A source is a function from what stands behind the scheme to the text that it finds there. What it
finds is a secret: neither a source nor who calls it may show, log or keep it.

The key source `command`: what a program of a key management service prints.

The program runs without a shell, without input, in the environment and with the rights of who runs
tracecloak. Its error output goes nowhere, as some programs write there what they were asked for.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tracecloak.schemas.errors import RetryLater, TracecloakError, UsageError
from tracecloak.schemas.plugins import Plugins
from tracecloak.transforms.files import open_raw

KeySource = Callable[[str], str]
"""Takes what stands behind the scheme, and returns the text that is found there.

Its own errors are a UsageError that says the remedy, or a RetryLater where waiting is one. Of any
other error no more than the class is told, as its text may quote the secret.
"""

_USUAL = "key of 64 hex digits"

MOST_BYTES = 4096
"""No key is longer: what is, is something else, and is not read to its end."""


def key_of_file(path: str) -> str:
    """Returns the text of a file, on this machine or any Beam file system."""
    with open_raw(path) as stream:
        return as_text(stream.read(MOST_BYTES + 1))


KEY_SOURCES: Plugins[KeySource] = Plugins(
    "key source",
    "tracecloak.key_sources",
    {
        "file": key_of_file,
        "env": os.environ.__getitem__,
        "command": "tracecloak.transforms.keys.sources:key_of_command",
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


def referred(named: str) -> str:
    """Returns a URL of a ledger, or what is at env:NAME, file:PATH or command:WORDS."""
    is_reference = named.partition(":")[0] in KEY_SOURCES
    return text_at(named, "URL of a ledger").strip() if is_reference else named


def no_key(reference: str, reason: str, what: str = _USUAL) -> UsageError:
    """Returns the error that a reference leads to no key."""
    return UsageError(f"no {what} at {shown(reference)} ({reason})")


PATIENCE_SECONDS = 30.0
"""How long a program may take."""

_TEMPORARY = 75  # EX_TEMPFAIL of BSD's sysexits.h


def key_of_command(command: str) -> str:
    """Returns what a command prints, without blanks around it.

    Args:
        command: Words as a shell takes them; nothing else of a shell holds.

    Raises:
        UsageError: It is no command, cannot be run, or fails.
        RetryLater: It does not end, or says itself that another try may succeed.
        ValueError: It prints more than a key, or no text.
    """
    name = first_word(command)
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"key command {name!r} cannot be read ({error}); correct it") from None
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that what it starts can be ended with it
        )
    except OSError as error:
        raise UsageError(
            f"key command {name!r} cannot be run ({error.strerror}); name a program"
        ) from None
    deadline = time.monotonic() + PATIENCE_SECONDS
    with process, ThreadPoolExecutor(1) as beside:
        assert process.stdout is not None
        try:
            # What goes on and on is not read to its end.
            reading = beside.submit(process.stdout.read, MOST_BYTES + 1)
            printed = as_text(reading.result(PATIENCE_SECONDS))
            code = process.wait(max(0.0, deadline - time.monotonic()))
        except (TimeoutError, subprocess.TimeoutExpired):
            raise RetryLater(
                f"key command {name!r} did not end within {PATIENCE_SECONDS:g} s; check its service"
            ) from None
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
    if code == _TEMPORARY:
        raise RetryLater(f"key command {name!r} ended with exit code {code}: run this again later")
    if code != 0:
        raise UsageError(
            f"key command {name!r} ended with exit code {code}; its output is not shown: run it by "
            "hand, as the same user on the same machine"
        )
    return printed.strip()
