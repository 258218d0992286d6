"""`tracecloak completion`: prints what has a shell complete commands, flags, names and files.

The shell then asks tracecloak at each press of the key, by argcomplete, so it knows the methods and
the parameters that are installed then. It knows nothing of configuration files, and leaves out the
flags of Beam.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from tracecloak.pipelines.commands.flags import FieldFlag, add_flags_of
from tracecloak.pipelines.commands.table import COMMANDS, Given, command_named
from tracecloak.pipelines.screen.results import Result, show

SHELLS = ("bash", "zsh", "fish")


def words() -> Sequence[str]:
    """Returns the shells."""
    return SHELLS


def run(given: Given) -> int:
    """Prints the script."""
    from argcomplete.shell_integration import shellcode

    text = shellcode(["tracecloak"], shell=given.flags["shell"])
    show(Result((), {"shell": given.flags["shell"], "script": text}, text.splitlines()), given.form)
    return 0


def answer(parser: argparse.ArgumentParser, parsers: Mapping[str, argparse.ArgumentParser]) -> None:
    """Offers what a shell asks for in its environment, and ends the process.

    Args:
        parser: Of all commands.
        parsers: Those of the commands by name, without their flags.
    """
    import argcomplete
    from argcomplete.completers import ChoicesCompleter
    from argcomplete.lexers import split_line

    *_, typed, _ = split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))
    for name in {*typed[1:2]} & {*COMMANDS}:
        own: Any = parsers[name]
        # A flag at the end awaits the value that is asked for.
        is_open = typed[-1].startswith("--")
        add_flags_of(name, own, typed[2 : len(typed) - is_open], None)
        if COMMANDS[name].takes_config:
            own.add_argument("config", nargs="?")
        listed: Sequence[str] = getattr(command_named(name), "words", tuple)()
        actions = [a for a in own._actions if a.choices and isinstance(a.choices, dict)]
        parts = (own, *itertools.chain(*(a.choices.values() for a in actions)))
        for action in itertools.chain(*(part._actions for part in parts)):
            offered = words_of(action.kind) if isinstance(action, FieldFlag) else ()
            if offered := offered or (() if action.option_strings else tuple(listed)):
                action.completer = ChoicesCompleter(dict.fromkeys(offered, ""))
    argcomplete.autocomplete(parser, always_complete_options=False, exclude=["-h"])


def words_of(annotation: Any) -> tuple[str, ...]:
    """Returns the values of a key or a parameter, if its type lists them as words."""
    if get_origin(annotation) is Literal:
        return tuple(map(str, get_args(annotation)))
    return tuple(itertools.chain.from_iterable(map(words_of, get_args(annotation))))
