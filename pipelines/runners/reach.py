"""Whether workers elsewhere can write where a release is built, asked of one before anything is."""

from __future__ import annotations

import getpass
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from tracecloak.schemas.errors import UsageError

_NAME = ".worker-can-write"
_TEXT = b"written by a worker\n"


def check_workers_write(workplace: str, options: PipelineOptions) -> None:
    """Makes sure that a worker can write into a folder of this machine's disk; runs a small job.

    What a release is built in is readable by one user alone, and on a disk that workers share it
    must be theirs, too. That shows nowhere but on a worker, and later is after the noise was drawn
    and paid for.

    Args:
        workplace: The folder, which is there.
        options: How the release is going to run.

    Raises:
        UsageError: None can: they run as another user, or do not see this disk.
    """
    path = Path(workplace) / _NAME
    path.unlink(missing_ok=True)
    with beam.Pipeline(options=options) as pipeline:
        _ = pipeline | "Workplace" >> beam.Create([str(path)]) | "CanWrite" >> beam.Map(_write)
    try:
        written = path.read_bytes()
        path.unlink()
    except OSError:
        written = b""
    if written != _TEXT:
        runner = options.view_as(StandardOptions).runner
        raise UsageError(
            f"workers of runner {runner} cannot write into {workplace}, where the release would be "
            f"built and which only user {getpass.getuser()!r} may read: nothing was drawn or paid. "
            "Have them run as this user and share this disk, or name an output on a file system "
            "that they reach by its scheme, such as gs://BUCKET/releases"
        )


def _write(path: str) -> None:
    """Writes a file where its folder is there; that it is not, the launcher finds out."""
    try:
        with open(path, "xb") as stream:
            stream.write(_TEXT)
    except OSError:
        return
