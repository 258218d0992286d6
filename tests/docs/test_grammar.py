"""One grammar: the table of verbs and flags is what the parsers take."""

from __future__ import annotations

import argparse
import functools
import re
from collections.abc import Iterator

import pytest

from tests.support.command_lines import acts_on, flags_of, parsers
from tests.support.documents import ROOT
from tests.support.releasing import tracecloak
from tracecloak.pipelines.commands.main import REMOVED

PARSERS = parsers()


@functools.cache
def tables() -> tuple[dict[str, str], dict[str, set[str]]]:
    """(what each command acts on, commands of each flag), as CONTRIBUTING.md has them."""
    part = (ROOT / "CONTRIBUTING.md").read_text().split("<!-- grammar -->")[1]
    verbs, flags = part.split("<!-- /grammar -->")[0].strip().split("\n\n")
    groups: dict[str, set[str]] = {"all": set(PARSERS)}
    objects = {}
    for names, on in _rows(verbs):
        found = set(re.findall(r"`([^`]+)`", names))
        if (group := re.match(r"([A-Z]+): ", names)) is not None:
            groups[group[1]] = found
        objects |= dict.fromkeys(found, on)
    commands_by_flag: dict[str, set[str]] = {}
    for names, where, meaning in _rows(flags):
        commands = set(re.findall(r"`([^`]+)`", where))
        for word in re.findall(r"[A-Z]+|\ball\b", re.sub("`[^`]+`", "", where)):
            commands |= groups[word]
        for flag in re.findall(r"`(--\w+)`", names):
            assert flag not in commands_by_flag, f"{flag} has two rows, and means one thing"
            assert len(meaning) > 8, flag
            commands_by_flag[flag] = commands
    return objects, commands_by_flag


def _rows(table: str) -> Iterator[list[str]]:
    for line in table.splitlines()[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_has_what_every_command_acts_on_and_every_flag_with_its_commands() -> None:
    objects, commands_by_flag = tables()
    assert objects == {name: " ".join(acts_on(name, parser)) for name, parser in PARSERS.items()}
    taken: dict[str, set[str]] = {}
    for name, parser in PARSERS.items():
        for flag in flags_of(parser):
            taken.setdefault(flag, set()).add(name)
    assert commands_by_flag == taken


def test_lists_are_separated_by_commas() -> None:
    """No flag takes several words; filters and formats may be repeated, as they have commas."""
    for name, parser in PARSERS.items():
        for action in parser._actions:
            assert action.nargs in (None, 0, "?"), (name, action.dest)
            is_repeated = isinstance(action, argparse._AppendAction)
            assert is_repeated == (action.dest in ("where", "timestamp_format")), (name, action)


@pytest.mark.parametrize("word", REMOVED)
def test_a_removed_word_is_an_error_that_says_what_to_do(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not any(word in {name, *flags_of(parser)} for name, parser in PARSERS.items())
    typed = f"release {word}=x" if word.startswith("--") else f"{word} x"
    assert tracecloak(*typed.split()) == 2
    assert f"{word} is gone: {REMOVED[word]}" in capsys.readouterr().err
