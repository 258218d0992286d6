"""`tracecloak attack`: audits a configuration by attacks, or links finished releases.

For the operator only: what it prints and writes was computed on raw data. An action is one file
next to this one and one entry of `ACTIONS`.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Mapping, Sequence
from typing import cast

from tracecloak.pipelines.commands.flags import add_actions
from tracecloak.pipelines.commands.table import Command, Given

# By action the module that is its `Command`, loaded where it is asked for, and what it does.
ACTIONS: Mapping[str, tuple[str, str]] = {
    "config": ("attack_config", "audit what a configuration promises, by many releases of it"),
    "linkage": ("attack_linkage", "attack finished releases by what somebody may know of a case"),
}


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds the actions; each has flags of its own, which only the one that is asked for loads."""
    asked = argv[0] if argv and argv[0] in ACTIONS else None
    for name, action_parser in add_actions(parser, {n: text for n, (_, text) in ACTIONS.items()}):
        if asked in (None, name):
            _command(name).add_flags(action_parser, argv[1:], config)


def run(given: Given) -> int:
    """Attacks, and writes the report.

    Raises:
        GuaranteeError: The claim of the configuration is refuted.
    """
    return _command(given.flags["action"]).run(given)


def _command(action: str) -> Command:
    return cast(Command, importlib.import_module(f"{__package__}.{ACTIONS[action][0]}"))
