"""Runners by their names, and the flags of Beam."""

from __future__ import annotations

import argparse
import difflib
import functools
from collections.abc import Iterable, Sequence

from tracecloak.schemas.errors import UsageError

# --- What is known of runners by their names, without Beam. ---------------------------------------


# Drivers of our own: of a release in memory, and of a stream with its state on this machine's disk.
IN_MEMORY = "InMemory"
LOCAL = "Local"
# Beam's runner of a release in this process.
FN_API = "FnApiRunner"
# Beam's runner for streams whose messages the caller gives.
FED = "BundleBasedDirectRunner"
FLINK = "FlinkRunner"


def is_durable(runner: str) -> bool:
    """Returns whether a runner keeps the barrier before the noise across retries."""
    return runner in ("DataflowRunner", LOCAL)


_LOCAL = (IN_MEMORY, LOCAL, FN_API, "DirectRunner", FED)


def is_local(runner: str) -> bool:
    """Returns whether a run has ended with this process: nothing goes on elsewhere."""
    return runner in _LOCAL


# --- Beam's flags by name, so that an unknown flag is refused before anything is done. ------------


# Those that Beam's Python learns from the job server for Flink, when it runs (Beam's documentation,
# "Pipeline options for the Flink runner").
_OF_JOB_SERVER = """
    allow_non_restored_state auto_balance_write_files_sharding_enabled auto_watermark_interval
    checkpoint_timeout_millis checkpointing_interval checkpointing_mode disable_metrics
    execution_mode_for_batch execution_retry_delay externalized_checkpoints_enabled
    fail_on_checkpointing_errors faster_copy finish_bundle_before_checkpointing flink_conf_dir
    latency_tracking_interval max_bundle_size max_bundle_time_mills
    min_pause_between_checkpoints num_concurrent_checkpoints number_of_execution_retries
    object_reuse operator_chaining re_iterable_group_by_key_result report_checkpoint_duration
    retain_externalized_checkpoints_on_cancellation savepoint_path
    shutdown_sources_after_idle_ms state_backend state_backend_factory
    state_backend_storage_path
"""
# A slip of the fingers leaves more than this in common; --epsilon and --version have less.
_ALIKE = 0.8


@functools.cache
def beam_flags() -> frozenset[str]:
    """Returns the flags of Beam's own option classes, and of its job server for Flink."""
    from apache_beam.options import pipeline_options  # loaded on use

    parser = argparse.ArgumentParser(add_help=False, conflict_handler="resolve")
    for options in pipeline_options.PipelineOptions.__subclasses__():
        if options.__module__ == pipeline_options.__name__:
            options._add_argparse_args(parser)  # Beam lists its flags nowhere else
    known = (flag for action in parser._actions for flag in action.option_strings)
    return frozenset((*known, *(f"--{name}" for name in _OF_JOB_SERVER.split())))


def refuse_unknown(arguments: Sequence[str], ours: Iterable[str], hint: str = "") -> None:
    """Makes sure that Beam knows the flags that our own command line does not know.

    Args:
        arguments: The arguments that our command line did not take.
        ours: Our own flags, of which a similar one is suggested.
        hint: What else may mend an unknown flag, for where no flag is similar.

    Raises:
        UsageError: Neither knows a flag.
    """
    takes_value = False
    for argument in arguments:
        flag = argument.split("=", 1)[0]
        if not flag.startswith("-"):
            if not takes_value:
                raise UsageError(f"unknown argument {argument!r}; a configuration file comes first")
            takes_value = False
            continue
        takes_value = "=" not in argument
        if flag not in beam_flags():
            close = difflib.get_close_matches(flag, [*ours, *sorted(beam_flags())], 1, _ALIKE)
            mend = f"; did you mean {close[0]}?" if close else hint
            raise UsageError(f"unknown flag {flag}{mend}")
