"""The key source `command`: what a program of a key management service prints.

The program runs without a shell, without input, in the environment and with the rights of who runs
tracecloak. Its error output goes nowhere, as some programs write there what they were asked for.
"""

from __future__ import annotations

import os
import selectors
import shlex
import signal
import subprocess
import time

from tracecloak.schemas.errors import RetryLater, UsageError
from tracecloak.transforms.keys.sources import MOST_BYTES, as_text, first_word

PATIENCE_SECONDS = 30.0
"""How long a program may take."""

_TEMPORARY = 75  # EX_TEMPFAIL of BSD's sysexits.h


def of_command(command: str) -> str:
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
            f"key command {name!r} cannot be run ({error.strerror}); it is run without a shell, "
            "so give the path of a program that this user may run, and its arguments"
        ) from None
    with process:
        try:
            printed, code = _printed_by(process)
        except TimeoutError:
            raise RetryLater(
                f"key command {name!r} did not end within {PATIENCE_SECONDS:g} s; see that "
                "its service answers and that it asks for nothing, then run this again"
            ) from None
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
    if code == _TEMPORARY:
        raise RetryLater(
            f"key command {name!r} ended with exit code {code}, which asks for another try; run "
            "this again later"
        )
    if code != 0:
        raise UsageError(
            f"key command {name!r} ended with exit code {code}; what it printed is not shown, so "
            "run it by hand, as the user and on the machine that this runs on, and mend what it "
            "says"
        )
    return as_text(printed).strip()


def _printed_by(process: subprocess.Popen[bytes]) -> tuple[bytes, int]:
    """Returns what a program prints, and its exit code.

    Raises:
        TimeoutError: It does not end.
        ValueError: It prints more than a key.
    """
    assert process.stdout is not None
    deadline = time.monotonic() + PATIENCE_SECONDS
    printed = b""
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not waiting.select(max(0.0, deadline - time.monotonic())):
                raise TimeoutError
            more = os.read(process.stdout.fileno(), MOST_BYTES)
            if not more:
                break
            printed += more
            as_text(printed)  # what goes on and on is not read to its end
    try:
        return printed, process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
