"""Beam's options for a runner, and what must be there before one starts."""

from __future__ import annotations

import importlib
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlparse

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    DirectOptions,
    FlinkRunnerOptions,
    GoogleCloudOptions,
    JobServerOptions,
    PipelineOptions,
    PortableOptions,
    SetupOptions,
    StandardOptions,
    TestOptions,
    WorkerOptions,
)
from apache_beam.options.pipeline_options_validator import PipelineOptionsValidator
from apache_beam.runners import create_runner

from tracecloak.pipelines.runners.names import FN_API
from tracecloak.schemas.errors import UsageError, missing_extra

_LOG = logging.getLogger("tracecloak")

# How long Flink keeps workers between two stages that need them, where nobody says it.
WORKERS_KEPT_MILLIS = 60_000


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
    portable = options.view_as(PortableOptions)
    if must_end and runner == "FlinkRunner" and not portable.environment_cache_millis:
        # Without it workers end and start again, with all their imports, at every stage. A stream
        # has its stages all at once, and would be given the workers of a pool that died.
        portable.environment_cache_millis = WORKERS_KEPT_MILLIS
    if options.view_as(DirectOptions).direct_running_mode == "multi_threading":
        raise UsageError(
            "direct_running_mode multi_threading silently loses data in Beam 2.77; "
            "use in_memory or multi_processing"
        )
    for name, view in _NOT_RUN.items():
        if must_end and getattr(options.view_as(view), name):
            raise UsageError(f"with {name} nothing has run when the command ends; leave it out")
    return options


# Beam's flags after which a pipeline is only built, or only handed over.
_NOT_RUN = {
    "template_location": GoogleCloudOptions,
    "dry_run": TestOptions,
    "no_wait_until_finish": StandardOptions,
}


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
    given = str(options.view_as(StandardOptions).runner)
    try:
        runner = create_runner(given)
    except (ValueError, ImportError):
        raise UsageError(f"runner {given!r} is none of Beam's {version()}") from None
    name = type(runner).__name__
    if name == "DataflowRunner":
        try:
            importlib.import_module("apache_beam.runners.dataflow.internal.apiclient")
        except ImportError as error:
            raise missing_extra(f"runner {name}", str(error.name), "gcp") from None
    if name == "FlinkRunner":
        _check_job_server(options)
    errors = PipelineOptionsValidator(options, runner).validate()
    if errors:
        raise UsageError(f"runner {name}: {'; '.join(errors)}")
    if name == "DataflowRunner" or (name == "FlinkRunner" and _in_containers(options)):
        _check_workers(name, options)


def _check_job_server(options: PipelineOptions) -> None:
    if options.view_as(PortableOptions).job_endpoint:
        return
    flink = options.view_as(FlinkRunnerOptions)
    jar = flink.flink_job_server_jar
    if not jar:
        # Beam would download a jar after the release has been paid for, and may find none.
        raise UsageError(
            "runner FlinkRunner needs Beam's job server for Flink: start one and give its address "
            "with job_endpoint, such as localhost:8099. docs/how-to/runners.md says how to bring "
            "one up with Maven, for Flink 1.19 in one process or for a cluster; a job server of "
            f"Beam {version()} in one jar is not needed, and one that is there is named with "
            "flink_job_server_jar"
        )
    if not urlparse(jar).scheme and not Path(jar).exists():
        raise UsageError(f"flink_job_server_jar {jar!r} is not there")
    launcher = options.view_as(JobServerOptions).job_server_java_launcher
    if shutil.which(launcher) is None:
        raise UsageError(
            f"runner FlinkRunner needs Java, and there is no {launcher!r}: install it, name it "
            "with job_server_java_launcher, or give the address of a job server with job_endpoint"
        )


def _in_containers(options: PipelineOptions) -> bool:
    """Whether Beam's FlinkRunner will have its workers run in containers."""
    kind = options.view_as(PortableOptions).environment_type
    if kind is None:
        return options.view_as(FlinkRunnerOptions).flink_master not in ("[local]", "[auto]")
    return str(kind).upper() == "DOCKER"


def _check_workers(name: str, options: PipelineOptions) -> None:
    setup = options.view_as(SetupOptions)
    image = (
        options.view_as(WorkerOptions).sdk_container_image
        or options.view_as(PortableOptions).environment_config
        or options.view_as(PortableOptions).environment_options
    )
    if not (image or setup.setup_file or setup.extra_packages or setup.requirements_file):
        raise UsageError(
            f"runner {name} would start workers without tracecloak: build an image from "
            "deploy/Dockerfile and name it with sdk_container_image, or give setup_file"
        )


def version() -> str:
    """Returns Beam's version."""
    return str(beam.__version__)
