"""Which Beam runner runs a release, and what must not run one."""

from __future__ import annotations

import argparse
import ctypes
import difflib
import logging
from collections.abc import Iterable, Sequence

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions

from schemas.errors import UsageError

_LOG = logging.getLogger("tracecloak")
IN_MEMORY = "InMemory"


def pipeline_options(runner: str, arguments: Sequence[str]) -> PipelineOptions:
    """Returns Beam's options for a runner.

    Args:
        runner: Name of the runner.
        arguments: Beam's flags.

    Raises:
        UsageError: They ask for what loses data.
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
    return options


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


def beam_flags() -> set[str]:
    """Returns the flags of all of Beam's option classes."""
    parser = argparse.ArgumentParser(add_help=False, conflict_handler="resolve")
    for options in PipelineOptions.__subclasses__():
        options._add_argparse_args(parser)  # Beam lists its flags nowhere else
    return {flag for action in parser._actions for flag in action.option_strings}


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
