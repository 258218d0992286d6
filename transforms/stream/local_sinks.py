"""Where a stream on one machine notes its steps and writes their files; see also `topic_sinks`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracecloak.schemas.published.manifest import ReleaseManifest
from tracecloak.schemas.published.step import Step
from tracecloak.transforms.stream.step_files import write_step


class NoteSink:
    """Notes that a step is decided, before any sink that others can see."""

    def __init__(self, note: Callable[[Step], None]) -> None:
        """Keeps the function that notes a step; it may be called again for the same step."""
        self._note = note

    def send(self, released: Step) -> None:
        """See `local_stream.Sink`."""
        self._note(released)


class FileSink:
    """The files of every step; what is there already must have the same bytes."""

    def __init__(
        self, output: str, formats: Sequence[str], manifest: ReleaseManifest, workplace: str
    ) -> None:
        """Keeps where to write; see `step_files.write_step`."""
        self._output = output
        self._formats = formats
        self._manifest = manifest
        self._workplace = workplace

    def send(self, released: Step) -> None:
        """See `local_stream.Sink`."""
        write_step(released, self._output, self._formats, self._manifest, self._workplace)
