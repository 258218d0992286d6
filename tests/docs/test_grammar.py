"""One grammar: the table of verbs and flags is what the parsers take, and no old word is left."""

from __future__ import annotations

import argparse
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_lines import acts_on, flags_of, parsers
from tests.support.documents import ROOT
from tests.support.releasing import tracecloak
from tests.test_remedies import texts
from tracecloak.pipelines.configuration.config import load
from tracecloak.pipelines.configuration.old_words import (
    ACTIONS,
    FLAGS,
    GONE,
    GONE_COMMANDS,
    KEYS,
    told_of_line,
)
from tracecloak.schemas.errors import UsageError

PARSERS = parsers()
# What people copy from; the changelog says what was.
_COPIED = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile", ".ci/run")
_FOLDERS = ("docs", "deploy", ".github")
_KINDS = (".md", ".yaml", ".yml", ".ipynb", ".sql", ".py", ".service", ".timer", ".txt")


@functools.cache
def tables() -> tuple[dict[str, str], dict[str, tuple[set[str], str]]]:
    """(what each command acts on, (commands, meaning) of each flag), as they are written."""
    part = (ROOT / "CONTRIBUTING.md").read_text().split("<!-- grammar -->")[1]
    verbs, flags = part.split("<!-- /grammar -->")[0].strip().split("\n\n")
    groups: dict[str, set[str]] = {"all": set(PARSERS)}
    objects = {}
    for names, on in _rows(verbs, 2):
        found = set(re.findall(r"`([^`]+)`", names))
        if (group := re.match(r"([A-Z]+): ", names)) is not None:
            groups[group[1]] = found
        objects |= dict.fromkeys(found, on)
    meanings: dict[str, tuple[set[str], str]] = {}
    for names, where, meaning in _rows(flags, 3):
        commands = set(re.findall(r"`([^`]+)`", where))
        for word in re.findall(r"[A-Z]+|\ball\b", re.sub("`[^`]+`", "", where)):
            commands |= groups[word]
        for flag in re.findall(r"`(--\w+)`", names):
            assert flag not in meanings, f"{flag} has two rows, and means one thing"
            meanings[flag] = (commands, meaning)
    return objects, meanings


def _rows(table: str, n_columns: int) -> Iterator[list[str]]:
    for line in table.splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert len(cells) == n_columns, line
        yield cells


def test_the_table_has_what_every_command_acts_on() -> None:
    told, _ = tables()
    assert told == {name: " ".join(acts_on(name, parser)) for name, parser in PARSERS.items()}
    assert all(len(on.split()) <= 1 for on in told.values())
    on_releases = {name for name, on in told.items() if on == "RELEASE"}
    assert on_releases == {"append", "verify", "report", "evaluate", "attack linkage"}


def test_the_table_has_every_flag_with_its_commands_and_one_meaning() -> None:
    taken: dict[str, set[str]] = {}
    for name, parser in PARSERS.items():
        for flag in flags_of(parser):
            taken.setdefault(flag, set()).add(name)
    _, told = tables()
    assert told.keys() == taken.keys()
    for flag, commands in taken.items():
        assert told[flag][0] == commands, flag
        assert len(told[flag][1]) > 8, flag


def test_lists_are_separated_by_commas() -> None:
    """No flag takes several words; filters and formats may be repeated, as they have commas."""
    for name, parser in PARSERS.items():
        for action in parser._actions:
            assert action.nargs in (None, 0, "?"), (name, action.dest)
            is_repeated = isinstance(action, argparse._AppendAction)
            has_commas = action.dest in ("where", "timestamp_format")
            assert is_repeated == has_commas, (name, action.dest)


# --- old words ------------------------------------------------------------------------------------


def documents() -> Iterator[Path]:
    yield from (ROOT / name for name in _COPIED)
    for folder in _FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in _KINDS:
                yield path


def old_words(text: str) -> list[str]:
    """What of a text is said with an old word; commands are read over the ends of their lines."""
    whole = re.sub(r"\\\n\s*", " ", text)
    shell = r"(?:\btracecloak |`|--rm )"
    patterns = [
        *(rf"{flag}(?![\w-])" for flag, (commands, _) in FLAGS.items() if len(commands) > 1),
        *(
            rf"\btracecloak {command}\b[^\n`]*{flag}(?![\w-])"
            for flag, (commands, _) in FLAGS.items()
            for command in commands
        ),
        *(rf"{shell}{command} {word}(?![\w-])" for command, word in ACTIONS if word[0] != "-"),
        *(
            rf"{shell}{command} [^\n`]*{word}(?![\w-])"
            for command, word in ACTIONS
            if word[0] == "-"
        ),
        *(
            rf"{shell}{command} {word}(?![\w-])"
            if word[0] != "-"
            else rf"\btracecloak {command}\b[^\n`]*{word}(?![\w-])"
            for word, (commands, _) in GONE.items()
            for command in commands
        ),
        *(rf"{shell}{command}(?![\w-])" for command in GONE_COMMANDS),
        r"\btracecloak attack (?!config\b|linkage\b|checks\b)[\w.-]+ --",
        r"\btracecloak experiment [\w|-]+ (?!--)\S*(?:LOG|\.csv|\.xes)",
        *(rf"(?m)^ *{key}: (?=\S+$)" for key in KEYS),
        *(rf'\bload\([^()]*?\\?"{key}\\?":' for key in KEYS),  # in Python, and in a notebook
    ]
    return [found[0] for pattern in patterns for found in re.finditer(pattern, whole)]


def test_no_old_word_is_in_a_parser() -> None:
    for name, parser in PARSERS.items():
        command, _, action = name.partition(" ")
        assert command not in GONE_COMMANDS
        assert (command, action) not in ACTIONS
        assert command not in GONE.get(action, ((), ""))[0]
        for flag in flags_of(parser):
            assert command not in FLAGS.get(flag, GONE.get(flag, ((), "")))[0], (name, flag)
        assert not old_words(parser.format_help()), name


def test_no_old_word_is_in_what_people_copy() -> None:
    found = {str(path): old_words(path.read_text()) for path in documents() if path.exists()}
    assert len(found) > 60
    assert {path: words for path, words in found.items() if words} == {}


def test_no_old_word_is_in_what_an_error_or_a_help_tells() -> None:
    kept = "pipelines/configuration/old_words.py"
    found = [(path, words) for path, text in texts() if path != kept and (words := old_words(text))]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "tracecloak release --input a.csv",
        "tracecloak compare --log a \\\n  --epsilon 1",
        "run `tracecloak ledger new`",
        "docker compose run --rm ledger account x",
        "`key sign-pair` makes one",
        "tracecloak attack c.yaml --report r",
        "tracecloak attack c.yaml --checks",
        "tracecloak experiment amun LOG --output x",
        "method: amun\ninput: a.csv\n",
        "run `tracecloak ledger migrate`",
        "tracecloak plan --method process-tree \\\n  --fitness_power 3",
        "tracecloak report out --input a.csv",
        'config = load(None, {"input": "a.csv"})',
        r'"source": "config = load(\n    None,\n    {\n        \"input\": str(a)',
    ],
)
def test_an_old_word_is_seen(text: str) -> None:
    """What says above that there is none would see one."""
    assert old_words(text)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("release --input a.csv --output b --method amun", "--input is --log now"),
        ("release --input=a.csv", "--input is --log now"),
        ("vocabulary --input a.csv", "--input is --log now"),
        ("evaluate --original a.csv --released b --output c", "--original is --log now"),
        ("report b --original a.csv", "--original is --log now"),
        ("evaluate --released b --output c", "--released is RELEASE, which stands first"),
        ("mine b --output c", "mine is gone: pm4py.discover_process_tree_inductive mines"),
        ("compare --log a --epsilon 1 --output b.md", "--epsilon is --epsilons now"),
        ("attack c.yaml --report r.json", "attack [CONFIG] is tracecloak attack config [CONFIG]"),
        ("attack --report r.json", "attack [CONFIG] is tracecloak attack config [CONFIG]"),
        (
            "attack checks --report r.json",
            "checks is gone: ways round a budget are tried by the tests",
        ),
        ("attack --linkage --original a", "attack --linkage is tracecloak attack linkage now"),
        ("experiment amun a.csv --output b", "are given with --log now, separated by commas"),
        ("ledger new", "ledger new is tracecloak ledger begin now"),
        ("ledger account x --epsilon 1", "ledger account is tracecloak ledger declare now"),
        ("ledger dataset x", "ledger dataset is tracecloak ledger bind now"),
        ("ledger resume", "ledger resume is tracecloak ledger list-unfinished now"),
        ("ledger cases", "ledger cases is tracecloak ledger list-cases now"),
        ("key new --output k", "key new is tracecloak key make now"),
        ("report b --input a.csv", "--input is --log now"),
        ("evaluate b --input a.csv --output c", "--input is --log now"),
        ("ledger migrate", "migrate is gone: a ledger from before version 0.1.0 is not taken over"),
        ("plan --method process-tree --fitness_power 3", "--fitness_power is gone: process-tree"),
        ("attack config --fitness_power=3", "--fitness_power is gone: process-tree has"),
        ("key sign-pair --output k", "key sign-pair is tracecloak key make-pair now"),
    ],
)
def test_an_old_word_is_an_error_that_names_the_new_one(
    line: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tracecloak(*line.split()) == 2
    assert told in capsys.readouterr().err


def test_an_old_key_of_a_configuration_is_an_error_that_names_the_new_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "release.yaml"
    path.write_text("input: a.csv\noutput: b\nmethod: amun\n")
    for command in (["release", path], ["evaluate", "out", "--config", path, "--output", "e"]):
        assert tracecloak(*command) == 2
        assert "input is log now: rename this key of the configuration" in capsys.readouterr().err
    with pytest.raises(UsageError, match="input is log now"):
        load(None, {"input": "a.csv", "output": "b", "method": "amun"})


@pytest.mark.parametrize(("key", "section"), [("title", "about"), ("case_id", "columns")])
def test_a_flag_that_is_a_key_of_a_section_is_an_error_that_names_the_section(
    key: str, section: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "release.yaml"
    path.write_text(f"{key}: x\nlog: a.csv\noutput: b\nmethod: amun\n")
    assert tracecloak("release", path) == 2
    told = f"{key} is a key below {section}: write {section}: {{{key}: …}}"
    assert told in capsys.readouterr().err


def test_every_old_word_leads_to_one_that_there_is() -> None:
    assert {new for new in ACTIONS.values()} <= PARSERS.keys()
    for flag, (commands, new) in FLAGS.items():
        for command in commands:
            own = [p for name, p in PARSERS.items() if name.partition(" ")[0] == command]
            assert own, command
            told = told_of_line(
                [command, "config", flag] if command == "attack" else [command, flag]
            )
            assert told is not None and new in told
            if new.startswith("--"):
                assert any(new in flags_of(parser) for parser in own), (command, new)


def test_what_was_never_a_word_is_told_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    """Catches a table that speaks up where nothing of it was typed."""
    assert tracecloak("report", "out", "--inptu", "x", "--output", "y") == 2
    assert "unknown flag --inptu" in capsys.readouterr().err
    for name in ("new", "migrate"):
        assert tracecloak("ledger", "declare", name) == 2
        assert "required: --epsilon" in capsys.readouterr().err
