"""What `tracecloak doctor` says, and streams that it looks at, for tests."""

from __future__ import annotations

import pytest

from tracecloak.examination.doctor.run import Line
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.run import run_stream
from tracecloak.schemas.errors import TracecloakError
from tracecloak.transforms.stream.local_stream import LocalStream


def faults(lines: list[Line]) -> dict[str, Line]:
    """The last line that is no ok of each check, but for the clock of the machine of the tests."""
    return {
        line.check: line
        for line in lines
        if line.status != "ok" and "time service" not in line.text
    }


def cut_off(config: StreamConfig) -> None:
    """Runs a stream that is cut off behind its first messages."""

    def end(self: LocalStream, *_: object) -> None:
        raise TracecloakError("cut off")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalStream, "_end_steps", end)
        with pytest.raises(TracecloakError, match="cut off"):
            run_stream(config)
