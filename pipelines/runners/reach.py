"""Whether there are workers elsewhere, and whether they can write where a release is built.

A small job asks one of them before anything is drawn, so a mistake that it shows costs nothing.
"""

from __future__ import annotations

import getpass
import logging
import platform
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.runner import PipelineState

import tracecloak
from tracecloak.pipelines.runners.failures import own_error
from tracecloak.pipelines.runners.names import is_local
from tracecloak.schemas.errors import RetryLater, UsageError

# How long a worker may take to do the small job, with its start. Dataflow first starts machines.
PATIENCE_SECONDS = 120.0
PATIENCE_OF_DATAFLOW_SECONDS = 900.0

_NAME = ".worker-can-write"
_TEXT = b"written by a worker\n"
_MAX_SAID = 600


def check_workers_answer(options: PipelineOptions, patience_seconds: float | None = None) -> None:
    """Makes sure that a runner has a worker that does something; runs a small job.

    A job server waits for a worker that never connects as long as it takes, and says nothing.

    Args:
        options: How the release is going to run.
        patience_seconds: How long to wait; None: PATIENCE_SECONDS, or that of Dataflow.

    Raises:
        RetryLater: No worker did it in time, or the job failed. The error quotes what the runner
            said last.
        UsageError: A worker has another version of tracecloak, Beam or Python.
    """
    _ask_a_worker("", options, patience_seconds)


def check_workers_write(
    workplace: str, options: PipelineOptions, patience_seconds: float | None = None
) -> None:
    """Makes sure that a worker can write into a folder of this machine's disk; runs a small job.

    Only one user may read the folder in which a release is built, so workers that share its disk
    must run as that user. Only a worker can show whether they do, and it must show before noise is
    drawn and paid for.

    Args:
        workplace: The folder, which is there.
        options: How the release is going to run.
        patience_seconds: See `check_workers_answer`.

    Raises:
        UsageError: No worker can, as they run as another user or do not see this disk.
        RetryLater: No worker did anything; see `check_workers_answer`.
    """
    path = Path(workplace) / _NAME
    path.unlink(missing_ok=True)
    _ask_a_worker(str(path), options, patience_seconds)
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


def _ask_a_worker(path: str, options: PipelineOptions, patience_seconds: float | None) -> None:
    """Has a worker write a file, or do nothing if there is no path."""
    runner = str(options.view_as(StandardOptions).runner)
    if patience_seconds is None:
        is_dataflow = runner == "DataflowRunner"
        patience_seconds = PATIENCE_OF_DATAFLOW_SECONDS if is_dataflow else PATIENCE_SECONDS
    pipeline = beam.Pipeline(options=options)
    ours = pipeline | "Workplace" >> beam.Create([path])
    _ = ours | "SameVersions" >> beam.Map(_compare, _versions()) | "CanWrite" >> beam.Map(_write)
    if is_local(runner):
        pipeline.run().wait_until_finish()
        return
    # The job reads no data, so its messages may be shown.
    said = _Said()
    root = logging.getLogger()
    root.addHandler(said)
    try:
        result = pipeline.run()
        state = result.wait_until_finish(duration=int(patience_seconds * 1000))
        if not PipelineState.is_terminal(state or result.state):
            result.cancel()
            raise _silent(
                runner, f"did nothing within {patience_seconds:.0f} s", said.last or "nothing"
            )
    except RetryLater:
        raise
    except Exception as error:
        if (ours := own_error(error)) is not None:
            raise ours from error
        raise _silent(runner, "failed at a small job", str(error) or said.last) from error
    finally:
        root.removeHandler(said)


def _silent(runner: str, what: str, said: str) -> RetryLater:
    last = " ".join(said.split())[:_MAX_SAID]
    return RetryLater(
        f"the workers of runner {runner} {what}; nothing was drawn or paid. See that the address "
        "in environment_config is that of a worker pool that runs, that its workers have "
        f"tracecloak, and what their log says. The runner said last: {last}"
    )


class _Said(logging.Handler):
    """Keeps the last warning that a runner gave on."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps a record's text."""
        self.last = record.getMessage()


def _versions() -> str:
    python = ".".join(platform.python_version_tuple()[:2])
    return f"tracecloak {tracecloak.__version__}, Beam {beam.__version__}, Python {python}"


def _compare(path: str, of_launcher: str) -> str:
    """Passes a path on if this worker is of the versions of who launched it.

    Raises:
        UsageError: It is not.
    """
    if (ours := _versions()) != of_launcher:
        raise UsageError(
            f"a worker has {ours}, and who launched it has {of_launcher}: it could draw other "
            "noise under the same key. Give the workers the versions of who launches them"
        )
    return path


def _write(path: str) -> None:
    """Writes a file if its folder is there; the launcher sees afterwards whether it is."""
    if not path:
        return
    try:
        with open(path, "xb") as stream:
            stream.write(_TEXT)
    except OSError:
        return
