"""What the files of several commands share: flags of a release and of reading, texts of flags."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tracecloak.pipelines.commands.table import COMMANDS, command_named
from tracecloak.pipelines.screen.results import Form
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.formats.registry import FILE_KEYS

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_READING = ("input_format", *FILE_KEYS, "rename", "drop_duplicates")


class StoredFlag(argparse.Action):
    """Stores a value, of several the last one, or all where its help says that it may be repeated.

    Of two lists, the first would be lost silently.
    """

    def __call__(self, _: Any, known: Any, value: Any, flag: str | None = None) -> None:
        """Stores it.

        Raises:
            UsageError: It is the second list.
        """
        before = getattr(known, self.dest)
        if before != self.default and "may be repeated" in (self.help or ""):
            value = [*(before if isinstance(before, list) else [before]), value]
        elif before != self.default and "eparated by commas" in (self.help or ""):
            raise UsageError(f"{flag} is given twice: give it once, separated by commas")
        setattr(known, self.dest, value)


class FieldFlag(StoredFlag):
    """Stores the text of a key or a parameter, whose help is written where it is read.

    Attributes:
        kind: The type of the key or the parameter.
    """

    def __init__(self, *given: Any, write: Callable[[], str], kind: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._write, self.kind = write, kind
        del self.help

    @cached_property
    def help(self) -> str:  # type: ignore[override]  # argparse only reads it
        """What it is for."""
        return self._write().replace("%", "%%")


def add_release_flags(
    parser: argparse.ArgumentParser,
    argv: Sequence[str],
    config: str | None,
    helps: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Adds the flags of a release; which there are depends on the method that is asked for.

    Args:
        parser: Of the command.
        argv: What was typed after its name.
        config: The configuration file, or None.
        helps: Help of flags that mean something else to this command, by name.
    """
    from tracecloak.pipelines.runners.memory import keep_freed_memory, keep_pandas_out

    keep_freed_memory()  # before Arrow is loaded, by what follows or by a method
    from tracecloak.anonymizers.registry import METHODS, method_named
    from tracecloak.pipelines.configuration.config import (
        SECTIONS,
        About,
        ReleaseConfig,
        read_yaml,
    )
    from tracecloak.pipelines.configuration.flags import key_help

    # The method decides which further flags there are, so it is looked for first.
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--method")
    known, _ = first.parse_known_args(list(argv))
    method = known.method
    if method is None and config is not None:
        method = read_yaml(config).get("method")
    if method in METHODS:
        keep_pandas_out()  # with Arrow, which the method loads
    parameters = {} if method is None else method_named(method).Params.model_fields
    add_reading_flags(parser)
    # A schedule is in files only, and so is a key that is called like a parameter of the method.
    left_out = {*SECTIONS, "schedule", "where", "params", *_READING, *parameters}
    for name, field in ReleaseConfig.model_fields.items():
        if name not in left_out:
            choices = sorted(METHODS) if name == "method" else None
            write = partial(str, helps[name]) if name in helps else None
            add_field(parser, name, field, write, choices)
    group = parser.add_argument_group("what the release says of itself to its readers")
    for name, field in About.model_fields.items():
        add_field(group, name, field)
    if method is not None:
        method_flags = parser.add_argument_group(f"parameters of {method}")
        for name, field in parameters.items():
            add_field(method_flags, name, field, partial(key_help, field, name))


def _lineage(to: str) -> str:
    from tracecloak.pipelines.outcomes.lineage import check_lineage

    check_lineage(to)
    return to


def add_field(
    parser: argparse._ActionsContainer,
    name: str,
    field: FieldInfo,
    write: Callable[[], str] | None = None,
    choices: Sequence[str] | None = None,
) -> None:
    """Adds the flag of a key or a parameter; one that is on or off may stand without a value.

    Args:
        parser: Of the command, or a group of it.
        name: Without the dashes.
        field: The key or the parameter.
        write: Writes its help; None: that is the help of a key.
        choices: What its value can be; None: anything.
    """
    from tracecloak.pipelines.configuration.flags import key_help

    write = write or partial(key_help, field)
    switch: dict[str, Any] = {}
    if field.annotation is bool:
        switch = {"nargs": "?", "const": "true"}
    further = {"kind": field.annotation, "choices": choices, **switch}
    parser.add_argument(f"--{name}", action=FieldFlag, write=write, **further)


_KINDS: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "lineage": _lineage}
_HERE = "tracecloak.pipelines.commands"


@cache
def table_of(package: str) -> dict[str, Any]:
    """Returns what `flags.json` of a package of commands says of their flags, by section."""
    text = (resources.files(package) / "flags.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table


def add_table_flags(
    parser: argparse._ActionsContainer, package: str, *sections: str, **words: Any
) -> None:
    """Adds the flags that `flags.json` of a package of commands lists, section by section.

    Args:
        parser: Of a command or an action, or a group of it.
        package: The package.
        sections: Names of sections, in the order of the help.
        words: What stands in braces in the texts.
    """
    table = table_of(package)
    for name, given in (row for section in sections for row in table[section].items()):
        _add_row(parser, name, {**given, "help": given["help"].format(**words)})


def _add_row(parser: argparse._ActionsContainer, name: str, more: dict[str, Any]) -> None:
    """Adds a flag of a table; a name in capitals is no flag but what follows the command."""
    if "type" in more:
        more["type"] = _KINDS[more["type"]]
    if more.pop("is_switch", False):
        more |= {"action": "store_true", "default": None}
    if name.isupper():
        parser.add_argument(name.lower(), metavar=name, **more)
    else:
        parser.add_argument(f"--{name}", **more)


def refuse_parameters_of_others(
    rest: Sequence[str], method: str | None, config: str | None
) -> None:
    """Makes sure that no unknown flag is a parameter of another method.

    Args:
        rest: The arguments that were not known.
        method: The method that was asked for, if a flag named it.
        config: The configuration file that may name it instead.

    Raises:
        UsageError: A flag is a parameter of other methods, which the error names.
    """
    from tracecloak.anonymizers.registry import METHODS, method_named
    from tracecloak.pipelines.configuration.config import read_yaml

    if method is None and config is not None:
        method = read_yaml(config).get("method")
    if method is None:
        return
    known = ", ".join(f"--{name}" for name in method_named(method).Params.model_fields)
    for flag in (argument.split("=", 1)[0] for argument in rest if argument.startswith("--")):
        name = flag.removeprefix("--")
        owners = [n for n, kind in METHODS.builtins.items() if name in kind.Params.model_fields]
        if owners:
            raise UsageError(
                f"method {method} has no parameter {flag}; its parameters are {known}. Methods "
                f"that have it are {', '.join(owners)}"
            )


def add_reading_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that say how a log is read."""
    from tracecloak.pipelines.configuration.config import Columns, ReleaseConfig

    for name in _READING:
        add_field(parser, name, ReleaseConfig.model_fields[name])
    for name, field in Columns.model_fields.items():
        add_field(parser, name, field)
    add_table_flags(parser, _HERE, "where")


def add_flags_of(
    name: str, parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None
) -> None:
    """Adds the flags of a command, which its line lists or its module adds; see `Command`.

    Those that say how a result is shown are of all commands, or of their actions.
    """
    line = COMMANDS[name]
    if line.takes_config:
        of_beam = " [FLAG OF BEAM ...]" * line.takes_beam_flags
        parser.usage = f"tracecloak {name} [CONFIG] [FLAG ...]{of_beam}"
    package = line.module.rpartition(".")[0]
    for part in line.flags:
        if part == "+actions":
            _add_actions_of(name, package, parser, argv, config)
        else:
            _add_part(part, package, parser, argv, config, line.helps)
    if not line.flags:
        command_named(name).add_flags(parser, argv, config)
    if not line.has_actions:
        add_table_flags(parser, _HERE, "form")


def _add_part(
    part: str,
    package: str,
    parser: argparse.ArgumentParser,
    argv: Sequence[str],
    config: str | None,
    helps: Mapping[str, str],
) -> None:
    """Adds the flags of a section of a table, or of a group that several commands have."""
    match part:
        case "+release":
            add_release_flags(parser, argv, config, helps)
        case "+original":
            add_table_flags(parser, _HERE, "log")
            add_reading_flags(parser)
        case "+reading":
            add_reading_flags(parser)
        case _:
            add_table_flags(parser, package, part)


def _add_actions_of(
    command: str,
    package: str,
    parser: argparse.ArgumentParser,
    argv: Sequence[str],
    config: str | None,
) -> None:
    """Adds the actions of a command that `flags.json` lists, and the flags of those asked for.

    Flags of several actions are described once; an action has what differs in it.
    """
    table = table_of(package)[command]
    actions: dict[str, Any] = table["actions"]
    asked = argv[0] if argv and argv[0] in actions else None
    parsers = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, action in actions.items():
        text = action["help"]
        own = parsers.add_parser(
            name,
            help=text,
            description=text,
            allow_abbrev=False,
            formatter_class=parser.formatter_class,
        )
        flags = action["flags"] | {flag: {} for flag in table["of_all"]}
        for flag, changes in flags.items():
            _add_row(own, flag, {**table["flags"].get(flag, {}), **changes})
        if name in COMMANDS[command].config_actions:
            own.usage = f"tracecloak {command} {name} [CONFIG] [FLAG ...]"
        for part in action.get("groups", ()) if asked in (None, name) else ():
            _add_part(part, package, own, argv[1:], config, action.get("helps", {}))
        add_table_flags(own, _HERE, "form")


def form_of(flags: dict[str, Any]) -> Form:
    """Removes the flags of the form from all flags, and returns the form that they ask for.

    Raises:
        UsageError: Both were given.
    """
    quiet, as_json = flags.pop("quiet", None), flags.pop("json", None)
    if quiet and as_json:
        raise UsageError("--quiet and --json exclude each other; give one of them")
    return "quiet" if quiet else "json" if as_json else "table"


def file_to_write(name: str, path: str) -> Path:
    """Makes the folder of a report before the work begins, so that no report is lost at its end."""
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{name} {path!r} cannot be written: {error.strerror}") from None
    return Path(path)


def listed(text: str) -> list[str]:
    """Returns the parts of a text that is separated by commas."""
    return [part.strip() for part in text.split(",") if part.strip()]
