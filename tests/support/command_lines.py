"""What the parsers of all commands take: what each acts on, and its flags."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from tracecloak.pipelines.commands.flags import add_flags_of
from tracecloak.pipelines.commands.table import COMMANDS


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Returns the parser of every command, or of each of its actions, by its words."""
    return dict(_parsers())


def _parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for name, line in COMMANDS.builtins.items():
        parser = argparse.ArgumentParser()
        # What follows an action that may stand before the flags, as in `stream positions`.
        own_action = [] if line.has_actions else list(line.config_actions)
        add_flags_of(name, parser, own_action, None)
        if not line.has_actions:
            yield name, parser
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from ((f"{name} {word}", own) for word, own in action.choices.items())


def acts_on(words: str, parser: argparse.ArgumentParser) -> list[str]:
    """Returns the words without dashes that a command takes, as its help writes them."""
    name, _, action = words.partition(" ")
    line = COMMANDS[name]
    config = ["CONFIG"] if line.takes_config or action in line.config_actions else []
    found = [a for a in parser._actions if not a.option_strings and a.dest != "action"]
    return [*config, *(str(a.metavar or a.dest).upper() for a in found)]


def flags_of(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """Returns its flags but for that of the help, by name."""
    return {
        flag: action
        for action in parser._actions
        for flag in action.option_strings
        if not isinstance(action, argparse._HelpAction)
    }
