"""A release on a runner of Beam: options, requirements, a check of its workers, pipeline."""

from __future__ import annotations

import contextlib
import getpass
import importlib
import logging
import platform
import shutil
from collections.abc import Sequence
from logging.handlers import BufferingHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlparse

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, PortableOptions
from apache_beam.options.pipeline_options_validator import PipelineOptionsValidator
from apache_beam.runners import create_runner
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.runners.runner import PipelineState

import tracecloak
from tracecloak.anonymizers.contract.case_digests import CountedUnits
from tracecloak.pipelines.runners.failures import own_error
from tracecloak.pipelines.runners.flags import FN_API, is_local
from tracecloak.schemas.errors import RetryLater, UsageError, missing_extra
from tracecloak.transforms.batch.anonymize import write_release
from tracecloak.transforms.batch.job import Job
from tracecloak.transforms.batch.read import EVENTS, ReadFiles, check_rejects
from tracecloak.transforms.batch.traces import (
    SHARED,
    DropDuplicates,
    GroupIntoTraces,
    keep_counted,
)
from tracecloak.transforms.files import is_on_this_machine, remove_folder

# --- Beam's options for a runner, and what must be there before one starts. -----------------------


_LOG = logging.getLogger("tracecloak")

# How long Flink keeps workers between two stages that need them, where nobody says it.
WORKERS_KEPT_MILLIS = 60_000


def given_options(options: PipelineOptions) -> Any:
    """Returns what options of Beam say, each as an attribute: all that Beam knows, and others."""
    return SimpleNamespace(**options.get_all_options(retain_unknown_options=True))


def pipeline_options(
    runner: str, arguments: Sequence[str], must_end: bool = True
) -> PipelineOptions:
    """Returns Beam's options for a runner.

    Args:
        runner: Name of the runner.
        arguments: Beam's flags.
        must_end: Whether the run must be over when Beam returns, as that of a release must, whose
            files are looked at then.

    Raises:
        UsageError: They ask for what loses data, or for no run to its end where there must be one.
    """
    if runner == "DirectRunner":
        # Plain, it would first try to download another runner.
        _LOG.info("runner DirectRunner: using %s", FN_API)
        runner = FN_API
    options = PipelineOptions([*arguments, f"--runner={runner}"])
    given = given_options(options)
    if must_end and runner == "FlinkRunner" and not given.environment_cache_millis:
        # Without it workers end and start again, with all their imports, at every stage. A stream
        # has its stages all at once, and would be given the workers of a pool that died.
        options.view_as(PortableOptions).environment_cache_millis = WORKERS_KEPT_MILLIS
    refuse_losses(options)
    for name in _NOT_RUN:
        if must_end and getattr(given, name):
            raise UsageError(f"with {name} nothing has run when the command ends; leave it out")
    return options


# Beam's flags after which a pipeline is only built, or only handed over.
_NOT_RUN = ("template_location", "dry_run", "no_wait_until_finish")


def refuse_losses(options: PipelineOptions) -> None:
    """Makes sure that a runner loses no data; options of other programs are not parsed here.

    Raises:
        UsageError: It does.
    """
    if options.view_as(DirectOptions).direct_running_mode == "multi_threading":
        raise UsageError(
            "direct_running_mode multi_threading silently loses data in Beam 2.77; use in_memory "
            "or multi_processing"
        )


def check_ready(options: PipelineOptions) -> None:
    """Makes sure that a runner can be started, as far as this machine can tell.

    It is called before anything is reserved, as a run elsewhere that failed to start looks like one
    that goes on. It does not ask whether a service would accept the job.

    Args:
        options: Of `pipeline_options`.

    Raises:
        UsageError: The runner is none of Beam's, its options are wrong, or what it needs is not
            installed or not given.
    """
    given = given_options(options)
    try:
        runner = create_runner(str(given.runner))
    except (ValueError, ImportError):
        raise UsageError(f"runner {given.runner!r} is none of Beam's {version()}") from None
    name = type(runner).__name__
    if name == "DataflowRunner":
        try:
            importlib.import_module("apache_beam.runners.dataflow.internal.apiclient")
        except ImportError as error:
            raise missing_extra(f"runner {name}", str(error.name), "gcp") from None
    if name == "FlinkRunner":
        _check_job_server(given)
    errors = PipelineOptionsValidator(options, runner).validate()
    if errors:
        raise UsageError(f"runner {name}: {'; '.join(errors)}")
    is_in_containers = str(given.environment_type).upper() == "DOCKER"
    if given.environment_type is None:
        is_in_containers = given.flink_master not in ("[local]", "[auto]")
    if name == "DataflowRunner" or (name == "FlinkRunner" and is_in_containers):
        image = given.sdk_container_image or given.environment_config or given.environment_options
        if not (image or given.setup_file or given.extra_packages or given.requirements_file):
            raise UsageError(
                f"runner {name} would start workers without tracecloak: build an image from "
                "deploy/Dockerfile and name it with sdk_container_image, or give setup_file"
            )


def _check_job_server(given: Any) -> None:
    if given.job_endpoint:
        return
    if not (jar := given.flink_job_server_jar):
        # Beam would download a jar after the release has been paid for, and may find none.
        raise UsageError(
            "runner FlinkRunner needs Beam's job server for Flink: start one, as "
            "docs/how-to/runners.md says, and give its address with job_endpoint, such as "
            "localhost:8099; or name its jar with flink_job_server_jar"
        )
    if not urlparse(jar).scheme and not Path(jar).exists():
        raise UsageError(f"flink_job_server_jar {jar!r} is not there")
    launcher = given.job_server_java_launcher
    if shutil.which(launcher) is None:
        raise UsageError(
            f"runner FlinkRunner needs Java, and there is no {launcher!r}: install it, name it "
            "with job_server_java_launcher, or give the address of a job server with job_endpoint"
        )


def version() -> str:
    """Returns Beam's version."""
    return str(beam.__version__)


# --- Whether there are workers elsewhere, and whether they can write where a release is built. ----
# A small job asks one of them before anything is drawn, so a mistake that it shows costs nothing.


# How long a worker may take to do the small job, with its start. Dataflow first starts machines.
PATIENCE_SECONDS = 120.0
PATIENCE_OF_DATAFLOW_SECONDS = 900.0

_NAME = ".worker-can-write"
_TEXT = b"written by a worker\n"
_MAX_SAID, _MOST_WARNINGS = 600, 1_000


def check_workers(options: PipelineOptions, workplace: str | None = None) -> None:
    """Makes sure that a runner has a worker that does something, and that it can write in a folder.

    A job server waits for a worker that never connects as long as it takes, and says nothing. Only
    one user may read the folder in which a release is built, so workers that share this machine's
    disk must run as that user. Only a worker can show whether they do, and it must show before
    noise is drawn and paid for.

    Args:
        options: How the release is going to run.
        workplace: The folder, which is there; None: nothing is written.

    Raises:
        RetryLater: No worker did it in time, or the job failed. The error quotes what the runner
            said last.
        UsageError: A worker has another version of tracecloak, Beam or Python; or none can write,
            as they run as another user or do not see this disk.
    """
    runner = str(given_options(options).runner)
    path = None if workplace is None else Path(workplace) / _NAME
    if path is not None:
        path.unlink(missing_ok=True)
    pipeline = beam.Pipeline(options=options)
    asked = pipeline | "Workplace" >> beam.Create([str(path or "")])
    _ = asked | "Try" >> beam.Map(_try, _versions())
    if is_local(runner):
        pipeline.run().wait_until_finish()
    else:
        _wait_for_a_worker(pipeline, runner)
    if path is None:
        return
    written = b""
    with contextlib.suppress(OSError):
        written = path.read_bytes()
        path.unlink()
    if written != _TEXT:
        raise UsageError(
            f"workers of runner {runner} cannot write into {workplace}, where the release would be "
            f"built: nothing was drawn or paid. Have them run as user {getpass.getuser()!r} and "
            "share this disk, or name an output that they reach, such as gs://BUCKET/releases"
        )


def _wait_for_a_worker(pipeline: beam.Pipeline, runner: str) -> None:
    """Runs the small job, which reads no data, so that its messages may be shown."""
    is_dataflow = runner == "DataflowRunner"
    patience_seconds = PATIENCE_OF_DATAFLOW_SECONDS if is_dataflow else PATIENCE_SECONDS
    said, root = BufferingHandler(_MOST_WARNINGS), logging.getLogger()
    said.setLevel(logging.WARNING)
    root.addHandler(said)
    try:
        result = pipeline.run()
        state = result.wait_until_finish(duration=int(patience_seconds * 1000))
        if not PipelineState.is_terminal(state or result.state):
            result.cancel()
            raise _silent(runner, f"did nothing within {patience_seconds:.0f} s", said)
    except RetryLater:
        raise
    except Exception as error:
        if (ours := own_error(error)) is not None:
            raise ours from error
        raise _silent(runner, "failed at a small job", said, str(error)) from error
    finally:
        root.removeHandler(said)


def _silent(runner: str, what: str, said: BufferingHandler, text: str = "") -> RetryLater:
    for record in said.buffer[-1:]:
        text = text or record.getMessage()
    last = " ".join(text.split())[:_MAX_SAID] or "nothing"
    return RetryLater(
        f"the workers of runner {runner} {what}; nothing was drawn or paid. See that the address "
        "in environment_config is that of a worker pool that runs, that its workers have "
        f"tracecloak, and what their log says. The runner said last: {last}"
    )


def _versions() -> str:
    python = ".".join(platform.python_version_tuple()[:2])
    return f"tracecloak {tracecloak.__version__}, Beam {beam.__version__}, Python {python}"


def _try(path: str, launcher_text: str) -> None:
    """Writes a file if its folder is there; the launcher sees afterwards whether it is.

    Raises:
        UsageError: This worker has other versions than who launched it.
    """
    if (ours := _versions()) != launcher_text:
        raise UsageError(
            f"a worker has {ours}, and who launched it has {launcher_text}: it could draw other "
            "noise under the same key. Give the workers the versions of who launches them"
        )
    if path:
        with contextlib.suppress(OSError), open(path, "xb") as stream:
            stream.write(_TEXT)


# --- A release on a runner of Beam: its pipeline, from its files to its commit. -------------------


class BeamDriver:
    """The driver of one of Beam's runners.

    Attributes:
        is_local: Whether a run has ended with this process: nothing goes on elsewhere.
        beam_version: Version of Apache Beam; None, of the other driver: it runs without it.
    """

    def __init__(self, runner: str, options: PipelineOptions) -> None:
        """Keeps Beam's options, which from now on also say how to reach inputs elsewhere.

        Raises:
            UsageError: See `check_ready`.
        """
        self.runner = runner
        self.is_local = is_local(runner)
        self.beam_version = version()
        self._options = options
        FileSystems.set_options(self._options)
        check_ready(self._options)

    def check_workplace(self, workplace: str) -> None:
        """Makes sure, before anything is drawn, that workers elsewhere answer, and can write."""
        if is_on_this_machine(workplace):
            check_workers(self._options, workplace)
        elif self.runner != "DataflowRunner":
            check_workers(self._options)  # Dataflow starts its workers itself

    def units(self, job: Job) -> CountedUnits:
        """Reads the log once and returns the units of the cases of the job's window."""
        assert job.part is not None  # which alone asks for this
        with beam.Pipeline(options=self._options) as pipeline:
            build_units(pipeline, job)
        units = job.part.found_units()
        remove_folder(job.part.found)
        return units

    def run(self, job: Job) -> None:
        """Makes a release, from its files to its commit."""
        if self.is_local:
            # A local runner holds less then, and takes its stages as long. Arrow's own allocator
            # keeps what it frees for itself, and so does this process by
            # `runners.memory.keep_freed_memory`: each stage would take the most that it needs from
            # both. And side inputs would be cached, which are in this process's memory anyway.
            pa.set_memory_pool(pa.system_memory_pool())
            worker_handlers.STATE_CACHE_SIZE_MB = 0
        how = given_options(self._options)
        is_one = how.direct_running_mode == "in_memory" and how.direct_num_workers == 1
        is_here = how.runner == FN_API and is_one
        release_id = job.target.run.release_id
        if is_here:
            SHARED[release_id] = {}
        try:
            with beam.Pipeline(options=self._options) as pipeline:
                build_release(pipeline, job)
        finally:
            SHARED.pop(release_id, None)


def build_release(pipeline: beam.Pipeline, job: Job) -> None:
    """Adds all of a release to a pipeline: read, check, group, anonymise, write, commit."""
    checked, traces = _grouped(pipeline, job)
    if job.source.drops_duplicates:
        traces = traces | "DropDuplicates" >> DropDuplicates(
            job.dead_letter.folder, job.dead_letter.note_duplicates
        )
    if job.part is not None:
        traces = keep_counted(traces, job.part)
    write_release(traces, job.target, job.n_shards, checked)


def build_units(pipeline: beam.Pipeline, job: Job) -> None:
    """Adds the steps before the release of a window: read, check, group, write down its units."""
    assert job.part is not None  # it is of a window
    _, traces = _grouped(pipeline, job)
    _ = traces | "WriteUnits" >> beam.Map(job.part.write_units)


def _grouped(pipeline: beam.Pipeline, job: Job) -> tuple[Any, Any]:
    """What comes once the rejects are checked, and the cases."""
    read = pipeline | "ReadEventLog" >> ReadFiles(job.source, job.dead_letter.folder)
    checked = check_rejects(read, job.dead_letter)
    traces = read[EVENTS] | "GroupIntoTraces" >> GroupIntoTraces(
        job.n_shards, wait_on=checked, by_individual=job.target.run.by_individual
    )
    return checked, traces
