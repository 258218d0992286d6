"""The commands: a line each, and a file of the same name with its flags and its run.

Nothing is loaded for a command that is not asked for. So a line has only what `tracecloak --help`
and the reading of the command line need, and names the module with the rest. Commands that examine
or show something are named here by their modules alone, as are those of other distributions.
"""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Protocol, cast

from tracecloak.pipelines.screen.results import Form
from tracecloak.schemas.plugins import Plugins


@dataclass(frozen=True)
class CommandEntry:
    """What is known of a command before its file is loaded.

    Attributes:
        module: The module that is a `Command`.
        help: What it does, in a line.
        takes_config: Whether a configuration file may come first.
        takes_beam_flags: Whether flags that it does not know are Beam's.
        has_actions: Whether a word after its name says what it does, with flags of its own.
        config_actions: The actions after which a configuration file may come first.
        flags: Sections of `flags.json` beside the module that list its flags, in their order, and
            groups that several commands have, see `flags.add_flags_of`; none: its module adds them.
        helps: Texts of flags of a release that mean something else here, by name.
    """

    module: str
    help: str
    takes_config: bool = False
    takes_beam_flags: bool = False
    has_actions: bool = False
    config_actions: Sequence[str] = ()
    flags: Sequence[str] = ()
    helps: Mapping[str, str] = field(default_factory=dict)


_ROWS = json.loads((resources.files(__package__) / "commands.json").read_text("utf-8"))
_OURS = {
    name: CommandEntry(f"tracecloak.{row.pop('layer')}.commands.{name}", **row)
    for name, row in _ROWS.items()
}
COMMANDS: Plugins[CommandEntry] = Plugins(
    "command", "tracecloak.commands", _OURS, removed={"mine": ""}, kind=CommandEntry
)


@dataclass(frozen=True)
class Given:
    """What somebody typed after a command's name.

    Attributes:
        config: The configuration file, or None.
        flags: The command's own flags that were given, by name.
        of_beam: Flags of Beam, as typed.
        wants_traceback: Whether errors of the runner may be shown, which can hold data.
        form: How to show the result.
    """

    config: str | None
    flags: dict[str, Any]
    of_beam: Sequence[str]
    wants_traceback: bool
    form: Form = "table"


class Command(Protocol):
    """What the module of a command has.

    It may have `words`, a function that returns what can come first after the command's name, for
    shells that complete what somebody types.
    """

    def add_flags(
        self, parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None
    ) -> None:
        """Adds the flags, where its line lists none.

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
    """Loads the module of a command of the table."""
    return cast(Command, importlib.import_module(COMMANDS[name].module))
