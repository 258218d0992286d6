"""Words of the command line and of configurations that are no longer used, and their new words.

The module is loaded only once a command line or a configuration is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

ACTIONS = {
    ("attack", "--linkage"): "attack linkage",
    ("key", "new"): "key make",
    ("key", "sign-pair"): "key make-pair",
    ("ledger", "account"): "ledger declare",
    ("ledger", "cases"): "ledger list-cases",
    ("ledger", "dataset"): "ledger bind",
    ("ledger", "new"): "ledger begin",
    ("ledger", "resume"): "ledger list-unfinished",
}
"""Commands with the word that said what they do, and what they are called now."""

_READERS = ("release", "plan", "windows", "attack", "vocabulary", "compare")
_RELEASE_FIRST = "RELEASE, which stands first and without a flag"
FLAGS = {
    "--input": ((*_READERS, "report", "evaluate"), "--log"),
    "--original": (("report", "evaluate", "attack"), "--log"),
    "--released": (("evaluate", "attack"), _RELEASE_FIRST),
    "--epsilon": (("compare",), "--epsilons"),
    "--cases": (("plan",), "--expected_cases"),
}
"""Flags with the commands that had them, and what they are called now."""

GONE_COMMANDS = {
    "mine": "pm4py.discover_process_tree_inductive mines a released log or graph",
}
"""Commands for which there is none now, with what there is to say."""

GONE = {
    "checks": (
        ("attack",),
        "ways round a budget are tried by the tests of each version; `tracecloak attack config` "
        "tests the promise of a configuration",
    ),
    "migrate": (
        ("ledger",),
        "a ledger from before version 0.1.0 is not taken over; make a new one with "
        "`tracecloak ledger begin`",
    ),
    "--otlp_endpoint": (
        ("release", "stream"),
        "a collector of OpenTelemetry scrapes operator_port, or the node exporter that reads the "
        "file of metrics, with its receiver `prometheus`",
    ),
    "--fitness_power": (
        ("release", "plan", "windows", "attack"),
        "process-tree has the power 8 for every log; leave it out",
    ),
}
"""Words of commands for which there is none now, with what there is to say."""

KEYS = {"input": "log"}
"""Keys of the configuration of a release, and their names now."""


def told_of_line(argv: Sequence[str]) -> str | None:
    """Returns what to type in place of an old word of a line that was refused; None: it has none.

    Args:
        argv: What was typed, the command first.
    """
    command, rest = argv[0], argv[1:]
    if command in GONE_COMMANDS:
        return f"{command} is gone: {GONE_COMMANDS[command]}"
    for (of, word), new in ACTIONS.items():
        if of == command and (word in rest if word.startswith("--") else rest[:1] == [word]):
            return f"{of} {word} is tracecloak {new} now"
    if command == "attack" and rest and rest[0] not in ("config", "linkage", "checks"):
        return "attack [CONFIG] is tracecloak attack config [CONFIG] now"
    for place, word in enumerate(rest):
        flag = word.split("=", 1)[0]
        commands, reason = GONE.get(flag, ((), ""))
        if command in commands and (place == 0 or flag.startswith("--")):
            return f"{flag} is gone: {reason}"
        commands, new = FLAGS.get(flag, ((), ""))
        if command in commands:
            return f"{flag} is {new} now"
    if command == "experiment" and len(rest) > 1 and not rest[1].startswith("-"):
        return "logs of an experiment are given with --log now, separated by commas"
    return None
