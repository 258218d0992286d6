"""The command `tracecloak`: reads the command line, dispatches, makes exit codes of errors."""

from __future__ import annotations

import argparse
import difflib
import logging
import os
import re
import sys
import traceback
from collections.abc import Iterable, Sequence
from typing import Any

from tracecloak.pipelines.commands.flags import StoredFlag, add_flags_of, form_of
from tracecloak.pipelines.commands.table import COMMANDS, Given, command_named
from tracecloak.pipelines.runners.memory import without_collections
from tracecloak.pipelines.screen import results
from tracecloak.schemas.errors import ForeignError, TracecloakError, UsageError
from tracecloak.schemas.published.manifest import TOOL_VERSION
from tracecloak.schemas.texts import SECRET_REFUSED, has_secret, without_secrets

_OF_THE_IMPORT = ("apitools not found", "Failed to import GCSFileSystem")
_TRACEBACK = "; --traceback shows where, in an output that can hold private data"
REMOVED = {
    "mine": "pm4py.discover_process_tree_inductive mines a released log or graph",
    "attack checks": "ways round a budget are tried by the tests of each version; `tracecloak "
    "attack config` tests the promise of a configuration",
    "--otlp_endpoint": "a collector of OpenTelemetry scrapes operator_port, or the node exporter "
    "that reads the file of metrics, with its receiver `prometheus`",
    "--fitness_power": "process-tree has the power 8 for every log; leave it out",
}
"""Commands, actions and flags that were removed after version 0.1.0, with what to do instead."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code.

    0 ok; 2 usage or configuration; 3 source; 4 budget exhausted; 5 guarantee cannot be met;
    6 failed and nothing was released; 7 released but a later step failed; 9 not usable by public
    numbers; 10 a stream is stuck, and may be started again; 11 it stays stuck; 75 try again later.
    The documentation says what each means for a scheduler.
    """
    if "_ARGCOMPLETE" in os.environ:
        from tracecloak.pipelines.commands.completion import answer

        answer(*_parser(COMMANDS))
    argv = list(sys.argv[1:] if arguments is None else arguments)
    # Without what Beam logs when it is imported without all libraries of Google Cloud, and what is
    # for the operator alone, unless the operator looks at a terminal.
    handler = logging.StreamHandler()
    handler.setFormatter(results.EscapingFormatter())
    handler.addFilter(lambda record: not record.getMessage().startswith(_OF_THE_IMPORT))
    if not results.is_of_operator("json" if "--json" in argv else "table"):
        handler.addFilter(results.OperatorLinesFilter())
    handler.name = "tracecloak"
    root = logging.getLogger()
    # That of an earlier command in this process would write each record once more.
    root.handlers = [*(one for one in root.handlers if one.name != handler.name), handler]
    wants_traceback = "--traceback" in argv
    argv = [argument for argument in argv if argument != "--traceback"]
    try:
        return _run(argv, wants_traceback)
    except BrokenPipeError:  # whoever reads what is printed, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still buffered
        return 0
    except Exception as error:
        from tracecloak.pipelines.runners.failures import reason_of, section_of

        if wants_traceback:
            results.tell(traceback.format_exc())
        ours: TracecloakError = ForeignError(f"failed with {reason_of(error)}")
        if isinstance(error, TracecloakError):  # the text of another could quote data
            ours = error
        where = _TRACEBACK if isinstance(ours, ForeignError) else ""
        ended = f"[exit code {ours.exit_code}: {section_of(error)}]"
        results.tell(f"tracecloak: {without_secrets(str(ours))}{where} {ended}")
        return ours.exit_code
    except KeyboardInterrupt:
        results.tell("tracecloak: interrupted; nothing was released")
        return TracecloakError.exit_code


def _run(argv: list[str], wants_traceback: bool) -> int:
    _refuse_secrets(argv)
    asked = argv[0] if argv else None
    is_known = asked is not None and asked in COMMANDS
    parser, parsers = _parser(argv[:1] if is_known else COMMANDS)
    if asked is not None and asked not in COMMANDS and not asked.startswith("-"):
        _refuse_removed(argv)
        close = difflib.get_close_matches(asked, COMMANDS)
        meant = f"; did you mean {' or '.join(close)}?" if close else ";"
        raise UsageError(f"unknown command {asked!r}{meant} {parser.prog} --help lists all")
    if asked is None or asked not in COMMANDS:
        known, rest = parser.parse_known_args(argv)  # help, version, or an error
        raise UsageError(f"unknown flag {[*rest, *vars(known)][0]}; see {parser.prog} --help")
    line = COMMANDS[asked]
    typed, config = list(argv), None
    first = 2 if argv[1:2] and argv[1] in line.config_actions else 1 if line.takes_config else None
    if first is not None and len(argv) > first and not argv[first].startswith("-"):
        config = argv.pop(first)
    with without_collections():
        command = command_named(asked)
        add_flags_of(asked, parsers[asked], argv[1:], config)
    try:
        known, rest = parser.parse_known_args(argv)
    except UsageError:
        _refuse_removed(typed)
        raise
    if rest:
        _refuse_removed(typed)
    values = {name: value for name, value in vars(known).items() if name != "command"}
    hint = ""
    if rest and first is not None and "method" in values:
        from tracecloak.pipelines.commands.flags import refuse_parameters_of_others

        refuse_parameters_of_others(rest, values["method"], config)
        if values["method"] is None and config is None:
            hint = "; a flag of a method's needs --method"
    if rest and not line.takes_beam_flags:
        raise UsageError(f"unknown flag {rest[0]}{hint}")
    if rest:
        from tracecloak.pipelines.runners.flags import refuse_unknown

        refuse_unknown(rest, [f"--{name}" for name in values], hint)
        for flag in (argument.partition("=")[0] for argument in rest if argument[:2] == "--"):
            if has_secret(f"{flag.lstrip('-')}=x"):
                raise UsageError(
                    f"{flag} would put a secret into lists of processes and the history of a "
                    "shell; put it into the environment, as AWS_SECRET_ACCESS_KEY or "
                    "AZURE_STORAGE_CONNECTION_STRING, or into a file of the cloud's own tool"
                )
    flags = {name: value for name, value in values.items() if value is not None}
    form = form_of(flags)
    return command.run(Given(config, flags, rest, wants_traceback, form))


def _refuse_secrets(argv: Sequence[str]) -> None:
    """Raises UsageError if any flag has a password, before its value can be shown.

    Filters and queries are not looked at: they have values of the log.
    """
    flag = argument = "an argument"
    for given in argv:
        named = re.match(r"--\w[\w-]*", given)
        flag = named[0] if named else flag
        value = given.removeprefix(flag).removeprefix("=")
        if flag not in ("--where", "--query") and has_secret(value):
            raise UsageError(
                f"{flag} {SECRET_REFUSED}, which --ledger and --database take; give other flags "
                "without it, or as keys of the configuration file"
            )
        flag = flag if named and given == flag else argument


def _refuse_removed(typed: Sequence[str]) -> None:
    """Raises UsageError with what to do instead if a refused command line has a removed word."""
    flags = (word.partition("=")[0] for word in typed if word.startswith("--"))
    for word in (typed[0], " ".join(typed[:2]), *flags):
        if word in REMOVED:
            raise UsageError(f"{word} is gone: {REMOVED[word]}")


class _Help(argparse.HelpFormatter):
    """Says what is required."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text = action.help or ""
        return f"{text} (required)" if action.required and "(required)" not in text else text


class _Parser(argparse.ArgumentParser):
    """Reports a wrong command line the way every other error is reported."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.register("action", None, StoredFlag)

    def error(self, message: str) -> Any:
        raise UsageError(f"{message}; see {self.prog} --help")


def _parser(
    names: Iterable[str],
) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Returns the parser, and those of some commands by name, without their flags."""
    parser = _Parser(
        prog="tracecloak",
        description="Anonymises process-mining event logs.",
        epilog="--traceback shows where an error arose; that output can hold private data.",
        allow_abbrev=False,
    )
    version = f"%(prog)s {TOOL_VERSION}"
    parser.add_argument(
        "--version", action="version", version=version, help="show the version and exit"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    return parser, {
        name: commands.add_parser(
            name,
            help=COMMANDS[name].help,
            description=COMMANDS[name].help,
            allow_abbrev=False,
            formatter_class=_Help,
        )
        for name in names
    }


if __name__ == "__main__":
    sys.exit(main())
