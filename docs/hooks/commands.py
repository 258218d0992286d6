"""The page of the commands: every flag of each, from the parsers that read the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from docs.hooks.tables import code, large, plain, table
from tracecloak.pipelines.commands.flags import add_flags_of
from tracecloak.pipelines.commands.table import COMMANDS

_HEAD = """# Commands

This page is made from the parsers of the commands themselves, so it has every flag that they take.
`tracecloak COMMAND --help` shows the same on the screen.

A flag that is neither ours nor one of Beam's is refused, so a misspelt flag never goes
unnoticed. `release`, `plan`, `windows`, `stream` and `attack config` take a
configuration file as their first argument: its keys are the same names as the flags, and a flag
counts more than the key. `verify`, `report`, `evaluate` and `attack linkage` take a release
there; a log is always `--log`. A flag that takes a list has it separated by commas. The
parameters of a method are flags too: [Methods](methods/index.md) has them. `release`, `plan`
and `stream` also take the flags of Beam and of its runners. Two flags work everywhere:
`--help`, and `--traceback`, which shows where an error arose. What a traceback shows can hold
private data.

[Exit codes](exit-codes.md) says what the number means with which each command ends."""


def page() -> str:
    """Returns the page."""
    lines = [_HEAD]
    rows = (
        [f"[{code(name)}](#{name})", plain(large(line.help))] for name, line in COMMANDS.items()
    )
    lines += table(("Command", "What it does"), rows)
    for name in COMMANDS:
        lines += _command(name)
    return "\n".join(lines) + "\n"


def parser_of(name: str) -> argparse.ArgumentParser:
    """Returns the parser of a command."""
    line = COMMANDS[name]
    parser = argparse.ArgumentParser(f"tracecloak {name}", description=line.help)
    add_flags_of(name, parser, [], None)
    return parser


def _command(name: str) -> Iterator[str]:
    line = COMMANDS[name]
    yield f"## `{name}` {{ #{name} }}"
    yield ""
    yield f"Usage: `{_usage(parser_of(name))}`"
    yield ""
    yield plain(large(line.help))
    yield from _flags(name, parser_of(name))


def _flags(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    actions = [a for a in parser._actions if not isinstance(a, argparse._HelpAction)]
    below = [a for a in actions if isinstance(a, argparse._SubParsersAction)]
    rows = [[_written(a), _help(a)] for a in actions if a not in below]
    if rows:
        yield from table(("Flag", "What it says"), rows)
    for group in below:
        helps = {choice.dest: choice.help or "" for choice in group._choices_actions}
        for action, own in group.choices.items():
            yield f"### `{name} {action}` {{ #{name}-{action} }}"
            yield ""
            yield f"Usage: `{_usage(own)}`"
            yield ""
            yield plain(large(helps[action]))
            yield from _flags(f"{name} {action}", own)


def _usage(parser: argparse.ArgumentParser) -> str:
    if parser.usage is not None:
        return parser.usage
    words = [parser.prog]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            words.append("ACTION")
        elif not action.option_strings:
            words.append(str(action.metavar or action.dest))
        elif action.required:
            words.append(f"{action.option_strings[0]} {(action.metavar or action.dest).upper()}")
    return " ".join([*words, "[FLAG ...]"])


def _written(action: argparse.Action) -> str:
    if not action.option_strings:
        return code(action.metavar or action.dest)
    return code(", ".join(action.option_strings))


def _help(action: argparse.Action) -> str:
    text = (action.help or "").replace("%%", "%")
    if action.required and action.option_strings and "(required)" not in text:
        text += " (required)"
    choices = action.choices
    if choices is not None and len(list(choices)) <= 12:
        text += f" (one of {', '.join(map(str, choices))})"
    return plain(large(text))
