"""Flags in texts exist, and below the command line a text names keys, which all front ends have."""

from __future__ import annotations

import argparse
import ast
import functools
import re
from collections.abc import Iterator

import pytest

from tests.support.releasing import ROOT
from tracecloak.anonymizers.registry import METHODS
from tracecloak.pipelines.commands.flags import add_flags_of
from tracecloak.pipelines.commands.table import COMMANDS
from tracecloak.pipelines.runners.flags import beam_flags

TOPS = ("schemas", "anonymizers", "transforms", "pipelines", "examination")
# Of Python's and other programs' command lines, as some texts show them.
OTHERS = {"--help", "--version", "--traceback"}
# Of `kafka-transactions.sh`, up to a hyphen.
OTHERS |= {"--bootstrap", "--topic", "--partition", "--start"}


@functools.cache
def texts() -> tuple[tuple[str, str], ...]:
    """(file, text) of all string constants that are no docstrings, read once for all tests."""
    return tuple(_texts())


def _texts() -> Iterator[tuple[str, str]]:
    for top in TOPS:
        for path in sorted((ROOT / top).rglob("*.py")):
            tree = ast.parse(path.read_text())
            nodes = list(ast.walk(tree))
            bare = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
            for node in nodes:
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    if id(node) not in bare:
                        yield str(path.relative_to(ROOT)), node.value


def flags_of(command: str, *argv: str) -> set[str]:
    parser = argparse.ArgumentParser(conflict_handler="resolve")
    add_flags_of(command, parser, list(argv), None)
    nested = [
        choice
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for choice in action.choices.values()
    ]
    return {
        flag
        for one in (parser, *nested)
        for action in one._actions
        for flag in action.option_strings
    }


@pytest.fixture(scope="module")
def flags() -> set[str]:
    found = {flag for command in COMMANDS for flag in flags_of(command)}
    return found.union(*(flags_of("release", "--method", method) for method in METHODS))


def test_every_flag_in_a_text_exists(flags: set[str]) -> None:
    """Catches a remedy that leads to the next error, such as a flag of a class that has none."""
    n_found = 0
    for path, text in texts():
        if " " not in text:
            continue
        for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9_]*", text):
            n_found += 1
            is_of_commands = "/commands/" in path or path == "pipelines/configuration/flags.py"
            known = flags if is_of_commands else set()
            assert flag in known | beam_flags() | OTHERS, (path, flag, text)
    assert n_found > 20
