"""No key of a configuration, parameter of a method or flag of a command that nothing reads."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pydantic
import pytest

from docs.hooks.commands import parser_of
from tracecloak.anonymizers.registry import METHODS
from tracecloak.anonymizers.streams.steps import STREAM_PRODUCTS
from tracecloak.pipelines.commands.table import COMMANDS
from tracecloak.pipelines.configuration.config import (
    About,
    Columns,
    ReleaseConfig,
    SourceConfig,
    Where,
)
from tracecloak.pipelines.configuration.shared_keys import ScheduleConfig
from tracecloak.pipelines.stream.config import StreamConfig

ROOT = Path(__file__).parents[1]
SECTIONS = (About, Columns, ReleaseConfig, ScheduleConfig, SourceConfig, StreamConfig, Where)


@cache
def read_somewhere() -> frozenset[str]:
    """Names that code reads: of attributes, of arguments that it passes on, and as texts.

    Templates read by texts, too.

    A declaration is none of these: a field is an annotated name, a flag a text with hyphens. Nor
    are the lists of what stays out of a digest, which would keep a key alive that is dead.
    """
    found = set()
    for top in ("tracecloak", "schemas", "anonymizers", "transforms", "pipelines", "examination"):
        for path in (ROOT / top).rglob("*.py"):
            tree = ast.parse(path.read_text())
            listed = {id(part) for part in ast.walk(tree) if _is_list_of_keys(part)
                      for part in ast.walk(part)}  # fmt: skip
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                    found.add(node.attr)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    if id(node) not in listed:
                        found.add(node.value)
        for path in (ROOT / top).rglob("*.j2"):
            found |= set(re.findall(r'"(\w+)"', path.read_text()))
    return frozenset(found)


def _is_list_of_keys(node: ast.AST) -> bool:
    """Whether it is an assignment to a constant of texts alone, such as `_AROUND`."""
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Tuple)
        and all(isinstance(one, ast.Constant) for one in node.value.elts)
    )


def keys() -> Iterator[tuple[str, str]]:
    """Every key, by where it can be given."""
    kinds: dict[str, type[pydantic.BaseModel]] = {kind.__name__: kind for kind in SECTIONS}
    kinds |= {name: method.Params for name, method in METHODS.items()}
    kinds |= {f"stream of {name}": product.Params for name, product in STREAM_PRODUCTS.items()}
    for where, kind in kinds.items():
        for name in kind.model_fields:
            yield where, name


def test_every_key_of_a_configuration_is_read() -> None:
    assert [key for key in keys() if key[1] not in read_somewhere()] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_flag_of_a_command_is_read(name: str) -> None:
    parsers = [parser_of(name)]
    for action in parsers[0]._actions:
        if isinstance(action, argparse._SubParsersAction):
            parsers += action.choices.values()
    flags = {
        action.dest
        for parser in parsers
        for action in parser._actions
        if not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
    }
    assert flags - read_somewhere() == set()
