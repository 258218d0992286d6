"""The help of every command: what is required says so, and what is not says what holds without."""

from __future__ import annotations

import re

import pytest

from tests.support.releasing import tracecloak
from tracecloak.anonymizers.registry import METHODS
from tracecloak.examination.commands import attack
from tracecloak.examination.experiments.run import PAPERS
from tracecloak.pipelines.commands import key, ledger
from tracecloak.pipelines.commands.table import COMMANDS

OF_A_RELEASE = (["release"], ["plan"], ["attack", "config"])
LINES = [
    *([name] for name in COMMANDS),
    *([*names, "--method", "private-log"] for names in OF_A_RELEASE),
    *(["attack", name] for name in attack.ACTIONS),
    *(["experiment", name] for name in PAPERS),
    *(["key", name] for name in key.ACTIONS),
    *(["ledger", name] for name in ledger.ACTIONS),
]
# What says that a flag has no default, and what is so if it is not given.
_WITHOUT = re.compile(r"\(default\b|\bby default\b|\bwithout it\b|\bnot looked at\b", re.IGNORECASE)


def flags_of(text: str) -> dict[str, str]:
    """The help of each flag that takes a value, from what `--help` prints."""
    lines = text[text.index("options:") :]
    found = re.split(r"^  (?=-)", lines, flags=re.MULTILINE)[1:]
    parts = (re.match(r"--(\w+) (\S+)(.*)", part.split("\n\n")[0], re.DOTALL) for part in found)
    return {part[1]: " ".join(part[3].split()) for part in parts if part is not None}


def checked_flags(line: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """The flags of a command, each of which is required or says what holds without it."""
    with pytest.raises(SystemExit) as ended:
        tracecloak(*line, "--help")
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "None" not in text
    for name, said in flags_of(text).items():
        assert ("(required)" in said) != bool(_WITHOUT.search(said)), f"{name}: {said}"
    return flags_of(text)


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_every_flag_says_that_it_is_required_or_what_holds_without_it(
    line: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert checked_flags(line, capsys) or line[0] not in ("release", "plan", "stream")


def test_the_help_of_a_method_calls_required_what_its_parameters_need(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for method in METHODS:
        said = checked_flags(["release", "--method", method], capsys)
        for name, field in METHODS[method].Params.model_fields.items():
            if name in said:  # those of yes and no may come without a value
                assert ("(required)" in said[name]) == field.is_required()
