"""Which Beam runner runs a release, and what must not run one."""

from __future__ import annotations

import argparse
import ctypes
import difflib
import importlib
import logging
import shutil
from collections.abc import Iterable, Sequence
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

from tracecloak.schemas.errors import UsageError

_LOG = logging.getLogger("tracecloak")
IN_MEMORY = "InMemory"


def pipeline_options(
    runner: str, arguments: Sequence[str], must_end: bool = True
) -> PipelineOptions:
    """Returns Beam's options for a runner.

    Args:
        runner: Name of the runner.
        arguments: Beam's flags.
        must_end: Whether the run must be over when Beam returns, as that of a release must: what it
            left is looked at then.

    Raises:
        UsageError: They ask for what loses data, or for no run to its end where there must be one.
    """
    if runner == "DirectRunner":
        # Plain, it would first try to download another runner.
        _LOG.info("runner DirectRunner: using FnApiRunner")
        runner = "FnApiRunner"
    options = PipelineOptions([*arguments, f"--runner={runner}"])
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

    To be called before anything is reserved: when a run elsewhere fails to start, it cannot be told
    from one that goes on. Whether a service would accept the job is not asked.

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
            raise UsageError(
                f"runner {name} needs Google Cloud's libraries, and {error.name} is not installed: "
                "pip install tracecloak[gcp]"
            ) from None
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
        # Beam would download it after the release has been paid for, and may fail then.
        raise UsageError(
            "runner FlinkRunner needs Beam's job server: give its address with job_endpoint, or "
            "its jar with flink_job_server_jar, which this gets: mvn dependency:copy "
            f"-Dartifact=org.apache.beam:beam-runners-flink-{flink.flink_version}-job-server:"
            f"{version()} -DoutputDirectory=."
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


def keep_freed_memory() -> None:
    """Lets this process reuse large freed blocks instead of giving them back to the system.

    A local runner copies a shuffle many times in blocks of its whole size. Each would be fetched
    anew, page by page, which is a third of the time of counting 30 million events. Peak memory is
    the same. Only where the C library is glibc; elsewhere nothing happens.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "gnu_get_libc_version"):
        for parameter in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD):
            library.mallopt(parameter, _NEVER_BYTES)


# From glibc's malloc.h; above these sizes it would map blocks of their own, and trim the heap.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_NEVER_BYTES = 2**31 - 1


def is_durable(runner: str) -> bool:
    """Returns whether a runner keeps the barrier before the noise across retries."""
    return runner == "DataflowRunner"


_LOCAL = (IN_MEMORY, "FnApiRunner", "DirectRunner", "BundleBasedDirectRunner")


def is_local(runner: str) -> bool:
    """Returns whether a run has ended with this process: nothing goes on elsewhere."""
    return runner in _LOCAL


def version() -> str:
    """Returns Beam's version."""
    return str(beam.__version__)


# Beam's Python learns these from the job server, when it runs (Beam's documentation, "Pipeline
# options for the Flink runner").
_OF_JOB_SERVER = (
    "allow_non_restored_state",
    "auto_balance_write_files_sharding_enabled",
    "auto_watermark_interval",
    "checkpoint_timeout_millis",
    "checkpointing_interval",
    "checkpointing_mode",
    "disable_metrics",
    "execution_mode_for_batch",
    "execution_retry_delay",
    "externalized_checkpoints_enabled",
    "fail_on_checkpointing_errors",
    "faster_copy",
    "finish_bundle_before_checkpointing",
    "flink_conf_dir",
    "latency_tracking_interval",
    "max_bundle_size",
    "max_bundle_time_mills",
    "min_pause_between_checkpoints",
    "num_concurrent_checkpoints",
    "number_of_execution_retries",
    "object_reuse",
    "operator_chaining",
    "re_iterable_group_by_key_result",
    "report_checkpoint_duration",
    "retain_externalized_checkpoints_on_cancellation",
    "savepoint_path",
    "shutdown_sources_after_idle_ms",
    "state_backend",
    "state_backend_factory",
    "state_backend_storage_path",
)


def beam_flags() -> set[str]:
    """Returns the flags of all of Beam's option classes, and those of its job server for Flink."""
    parser = argparse.ArgumentParser(add_help=False, conflict_handler="resolve")
    for options in PipelineOptions.__subclasses__():
        options._add_argparse_args(parser)  # Beam lists its flags nowhere else
    known = {flag for action in parser._actions for flag in action.option_strings}
    return known | {f"--{name}" for name in _OF_JOB_SERVER}


def refuse_unknown(arguments: Sequence[str], ours: Iterable[str]) -> None:
    """Makes sure that what our own command line did not know is known to Beam.

    Args:
        arguments: The left arguments.
        ours: Our own flags, to suggest one of.

    Raises:
        UsageError: A flag is nobody's.
    """
    known = beam_flags()
    takes_value = False
    for argument in arguments:
        flag = argument.split("=", 1)[0]
        if not flag.startswith("-"):
            if not takes_value:
                raise UsageError(f"unknown argument {argument!r}; a configuration file comes first")
            takes_value = False
            continue
        takes_value = "=" not in argument
        if flag not in known:
            close = difflib.get_close_matches(flag, [*ours, *known], 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise UsageError(f"unknown flag {flag}{hint}")
