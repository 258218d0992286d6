"""What a program shows on a terminal."""

import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from typing import Literal

import pytest
from _pytest.capture import CaptureIO


def watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes what `capsys` captures a terminal that draws nothing."""
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(CaptureIO, "isatty", lambda self: True)


def shown_on_a_terminal(
    code: str, stream: Literal["stdout", "stderr"], environment: Mapping[str, str]
) -> str:
    """Runs Python with one of its streams on a terminal, and returns what came there."""
    own, other = pty.openpty()
    subprocess.run(
        [sys.executable, "-c", code], env=environment, timeout=60, check=True, **{stream: other}
    )
    os.close(other)
    shown = b""
    while True:
        try:
            part = os.read(own, 4096)
        except OSError:  # Linux tells the end so
            break
        if not part:
            break
        shown += part
    os.close(own)
    return shown.decode()
