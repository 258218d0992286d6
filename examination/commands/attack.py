"""`tracecloak attack`: audits a configuration by attacks, or links finished releases.

For the operator only: what it prints and writes was computed on raw data. An action is one file
next to this one and one entry of `ACTIONS`.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from tracecloak.pipelines.commands.flags import add_actions
from tracecloak.pipelines.commands.table import Command, Given


@dataclass(frozen=True)
class Action:
    """One kind of attack.

    Attributes:
        module: The module that is its `Command`, loaded where it is asked for.
        help: What it does, in a line.
    """

    module: str
    help: str


_HERE = "tracecloak.examination.commands"
ACTIONS: Mapping[str, Action] = {
    "config": Action(
        f"{_HERE}.attack_config", "audit what a configuration promises, by many releases of it"
    ),
    "linkage": Action(
        f"{_HERE}.attack_linkage", "attack finished releases by what somebody may know of a case"
    ),
}


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds the actions; each has flags of its own, which only the one that is asked for loads."""
    asked = argv[0] if argv and argv[0] in ACTIONS else None
    for name, action_parser in add_actions(parser, {n: a.help for n, a in ACTIONS.items()}):
        if asked in (None, name):
            _command(ACTIONS[name]).add_flags(action_parser, argv[1:], config)


def run(given: Given) -> int:
    """Attacks, and writes the report.

    Raises:
        GuaranteeError: The claim of the configuration is refuted.
    """
    return _command(ACTIONS[given.flags["action"]]).run(given)


def _command(action: Action) -> Command:
    return cast(Command, importlib.import_module(action.module))
