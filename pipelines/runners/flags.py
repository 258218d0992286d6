"""Runners by their names, and the flags of Beam."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Sequence
from pathlib import Path

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


# A slip of the fingers leaves more than this in common; --epsilon and --version have less.
_ALIKE = 0.8


@functools.cache
def beam_flags() -> frozenset[str]:
    """Returns the flags of Beam, from a list next to this file: Beam takes a second to load."""
    lines = Path(__file__).with_name("beam_flags.txt").read_text().splitlines()
    return frozenset(f"--{name}" for name in lines if not name.startswith("#"))


def refuse_unknown(arguments: Sequence[str], ours: Iterable[str], hint: str = "") -> None:
    """Makes sure that Beam knows the flags that our own command line does not know.

    Args:
        arguments: The arguments that our command line did not take.
        ours: Our own flags, of which a similar one is suggested.
        hint: Another remedy for an unknown flag, for where no flag is similar.

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
            remedy = f"; did you mean {close[0]}?" if close else hint
            raise UsageError(f"unknown flag {flag}{remedy}")
