"""The help of every command: what is required says so, and what is not says what holds without."""

from __future__ import annotations

import argparse
import re

import pytest

from tests.support.command_lines import flags_of, parsers
from tests.support.releasing import tracecloak
from tracecloak.anonymizers.registry import METHODS
from tracecloak.examination.experiments.run import PAPERS
from tracecloak.pipelines.commands.flags import add_flags_of

# What says that a flag has no default, and what is so if it is not given.
_WITHOUT = re.compile(r"\(default\b|\bby default\b|\bwithout it\b|\bnot looked at\b", re.IGNORECASE)


def checked_flags(parser: argparse.ArgumentParser) -> dict[str, bool]:
    """The flags that take a value, each of which is required or says what holds without it."""
    found = {}
    for flag, action in flags_of(parser).items():
        if action.nargs != 0:
            said = action.help or ""
            found[flag] = action.required or "(required)" in said
            assert found[flag] != bool(_WITHOUT.search(said)), f"{flag}: {said}"
            assert "None" not in said
    return found


def parser_of(command: str, *line: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    add_flags_of(command, parser, list(line), None)
    return parser


def test_every_flag_says_that_it_is_required_or_what_holds_without_it() -> None:
    for words, parser in parsers().items():
        assert checked_flags(parser) or words not in ("release", "plan", "stream")
    for paper in PAPERS:
        checked_flags(parser_of("experiment", paper))


def test_the_help_of_a_method_calls_required_what_its_parameters_need() -> None:
    for method in METHODS:
        said = checked_flags(parser_of("release", "--method", method))
        for name, field in METHODS[method].Params.model_fields.items():
            if field.annotation is not bool:  # those may come without a value
                assert said[f"--{name}"] == field.is_required()


def test_what_is_required_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        tracecloak("key", "make", "--help")
    assert "(required)" in capsys.readouterr().out
