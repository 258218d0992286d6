"""`tracecloak completion`: prints a script by which a shell completes commands, flags and names.

The script is made from the parsers once, when it is printed, and holds all that it needs, as a
shell asks it at every press of a key and cannot wait for Python. So after `--method NAME` it knows
the flags of each method that is installed then, also of methods of other distributions. It knows
nothing of configuration files, and leaves out the flags of Beam.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from tracecloak.pipelines.commands.table import COMMANDS, Given, command_named
from tracecloak.pipelines.screen.results import Result, show

SHELLS = ("bash", "zsh", "fish")
# Commands whose flags depend on a method.
_BY_METHOD = ("release", "plan", "windows", "attack config")


def words() -> Sequence[str]:
    """Returns the shells."""
    return SHELLS


def run(given: Given) -> int:
    """Prints the script."""
    text = script(given.flags["shell"])
    show(Result((), {"shell": given.flags["shell"], "script": text}, text.splitlines()), given.form)
    return 0


def script(shell: str) -> str:
    """Returns the script for a shell of `SHELLS`."""
    from tracecloak.anonymizers.registry import METHODS
    from tracecloak.transforms.pages.page import from_template

    contexts = list(_contexts())
    actions = {
        name: [
            c["context"].partition(" ")[2] for c in contexts if c["context"].startswith(f"{name} ")
        ]
        for name, line in COMMANDS.items()
        if line.has_actions
    }
    # The words that may follow a command's name, of commands that list them.
    first = {"": list(COMMANDS), **actions}
    for name in COMMANDS:
        listed: Sequence[str] = getattr(command_named(name), "words", tuple)()
        if listed:
            first[name] = list(map(_word, listed))
    lines = from_template(
        "tracecloak.pipelines.screen",
        # Every word is of our own parsers, and `_word` looks at it.
        f"templates/completion.{'fish' if shell == 'fish' else 'sh'}.j2",
        shell=shell,
        contexts=contexts,
        methods=[_method_flags(name) for name in METHODS],
        by_method=_BY_METHOD,
        first=first,
        actions=tuple(actions),
    )
    return "\n".join([*lines, ""])


def _context(
    context: str, names: Iterable[str], bare: Iterable[str], choices: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Returns the flags of one context: a command, one of its actions, or one method's own.

    Args:
        context: Words that lead to it, such as `ledger show` or `attack linkage`.
        names: With their dashes.
        bare: Those of them that need no value.
        choices: What a flag's value can be, where that is a list of words; else it may be a file.
    """
    return {"context": context, "names": sorted(names), "bare": sorted(bare), "choices": choices}


def _contexts() -> Iterator[dict[str, Any]]:
    from tracecloak.pipelines.commands.flags import add_flags_of

    yield _context("", ("--help", "--version"), ("--help", "--version"), {})
    for name in COMMANDS:
        parser = argparse.ArgumentParser(allow_abbrev=False)
        add_flags_of(name, parser, [], None)
        yield _flags(name, parser)
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for named, action_parser in action.choices.items():
                    yield _flags(f"{name} {named}", action_parser)


def _flags(context: str, parser: argparse.ArgumentParser) -> dict[str, Any]:
    by_name = {
        _word(name): action
        for action in parser._actions
        for name in action.option_strings
        if name.startswith("--")
    }
    bare = [name for name, action in by_name.items() if action.nargs in (0, "?")]
    values = {
        name: [_word(str(choice)) for choice in by_name[name].choices or ()]
        for name in sorted(by_name)
        if by_name[name].choices
    }
    return _context(context, by_name, bare, values)


def _method_flags(name: str) -> dict[str, Any]:
    """Returns the flags of a method's parameters."""
    from tracecloak.anonymizers.registry import method_named

    fields = method_named(name).Params.model_fields
    names = {_word(f"--{field}"): info.annotation for field, info in fields.items()}
    bare = [flag for flag, kind in names.items() if kind is bool]
    values = {flag: words for flag, kind in names.items() if (words := _words_of(kind))}
    return _context(name, names, bare, values)


def _words_of(annotation: Any) -> tuple[str, ...]:
    """Returns the values of a parameter, if its type lists them as words."""
    if get_origin(annotation) is Literal:
        return tuple(_word(str(value)) for value in get_args(annotation))
    part_words = (_words_of(part) for part in get_args(annotation))
    return tuple(itertools.chain.from_iterable(part_words))


def _word(text: str) -> str:
    """Returns a word, which must be one that no shell expands."""
    if not text or not all(c.isalnum() or c in "-_./:+" for c in text):
        raise ValueError(f"{text!r} is no word that a shell can complete")
    return text
