"""The commands: a line each, and a file of the same name in this room with its flags and its run.

Nothing is loaded for a command that is not asked for, so a line has what `tracecloak --help` and
the reading of the command line need.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from tracecloak.pipelines.screen.results import Form


@dataclass(frozen=True)
class Line:
    """What is known of a command before its file is loaded.

    Attributes:
        help: What it does, in a line.
        takes_config: Whether a configuration file may come first.
        takes_beam_flags: Whether what it does not know is Beam's.
        has_actions: Whether a word after its name says what it does, with flags of its own.
    """

    help: str
    takes_config: bool = False
    takes_beam_flags: bool = False
    has_actions: bool = False


COMMANDS: dict[str, Line] = {
    "release": Line("make one release of a log", True, True),
    "plan": Line("show what a release would read, do, spend and write", True, True),
    "windows": Line("show the calendar of a schedule: released, due, late, and what it cost", True),
    "vocabulary": Line("list the activities of a log, to read and to declare (for the operator)"),
    "attack": Line("audit a release's configuration by attacks (for the operator only)", True),
    "stream": Line("publish what closes in a stream of events, step by step", True, True),
    "verify": Line("check a release that you received: files, promise, data, signature"),
    "report": Line("show a release beside its log on a page (for the operator only)"),
    "evaluate": Line("compare a release with its original (for the operator only)"),
    "mine": Line("mine a process tree of a release, at no cost to privacy"),
    "compare": Line("compare methods at the same true epsilon on logs (for the operator only)"),
    "experiment": Line("run a paper's evaluation on logs (for the operator only)"),
    "sample": Line("write a synthetic hospital log of any size"),
    "key": Line(
        "make keys: for pipelines of your own, or to sign; or encrypt kept keys anew",
        has_actions=True,
    ),
    "ledger": Line(
        "read the ledger of privacy budgets, declare caps, withdraw releases", has_actions=True
    ),
    "completion": Line("print a script by which bash, zsh or fish completes what you type"),
    "catalogue": Line("list the methods and what they promise, or show one in full"),
}


@dataclass(frozen=True)
class Given:
    """What somebody typed after a command's name.

    Attributes:
        config: The configuration file, or None.
        flags: The command's own flags that were given, by name.
        of_beam: Flags of Beam, as typed.
        wants_traceback: Whether errors of the runner may be shown, which can hold data.
        form: How to show what came of it.
    """

    config: str | None
    flags: dict[str, Any]
    of_beam: Sequence[str]
    wants_traceback: bool
    form: Form = "table"


class Command(Protocol):
    """What the file of a command has."""

    def add_flags(
        self, parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None
    ) -> None:
        """Adds the flags.

        Args:
            parser: Of this command alone.
            argv: What was typed after its name, as which flags there are can depend on it.
            config: The configuration file, which is not in `argv` any more, or None.

        Raises:
            UsageError: The configuration file cannot be read.
        """
        ...

    def run(self, given: Given) -> int:
        """Does what is asked, prints what came of it, and returns the exit code.

        Raises:
            TracecloakError: It cannot be done; its class has the exit code.
        """
        ...


def command_named(name: str) -> Command:
    """Loads the file of a command of the table."""
    return cast(Command, importlib.import_module(f"{__package__}.{name}"))
