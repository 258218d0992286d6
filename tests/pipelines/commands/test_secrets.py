"""No flag of any command takes a password, which lists of processes would show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_lines import flags_of, parsers
from tests.support.releasing import tracecloak
from tracecloak.anonymizers.registry import METHODS
from tracecloak.pipelines.commands.table import COMMANDS

URLS = (
    "postgresql+psycopg://u:hunter2@h/d",
    "https://h/x?token=hunter2",
    "host=h password=hunter2",
)
FILTERS = {"--where", "--query"}  # they have values of the log


def command_lines() -> dict[str, set[str]]:
    """The flags of every command and action, of every method, and some of Beam."""
    lines = {words: set(flags_of(parser)) for words, parser in parsers().items()}
    for name, method in METHODS.builtins.items():
        lines[f"release --method {name}"] = {f"--{key}" for key in method.Params.model_fields}
    return {**lines, "release": {*lines["release"], "--flink_master", "--environment_config"}}


@pytest.mark.parametrize("url", URLS)
def test_no_flag_takes_a_password(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A flag that is added is looked at as well."""
    lines = command_lines()
    assert {words.split()[0] for words in lines} == set(COMMANDS.builtins)
    for words, flags in lines.items():
        for flag in flags - FILTERS:
            for given in ([f"{flag}={url}"], [flag, url]):
                assert tracecloak(*words.split(), *given) == 2, (words, given)
                told = capsys.readouterr()
                assert told.err.startswith(f"tracecloak: {flag} has a password in it"), told.err
                assert "say env:NAME, or into a file" in told.err and "say file:PATH" in told.err
                assert "hunter2" not in told.out + told.err


def test_no_flag_of_beam_takes_a_password(capsys: pytest.CaptureFixture[str]) -> None:
    flag = "--s3_secret_access_key"
    for given in ([f"{flag}=hunter2"], [flag, "hunter2"]):
        assert tracecloak("release", "--method", "amun", *given) == 2
        told = capsys.readouterr().err
        assert f"{flag} would put a secret into lists" in told and "hunter2" not in told


def test_no_word_of_a_command_line_shows_a_password(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither as a command, nor as what a command acts on, nor as a flag that there is not."""
    for url in URLS:
        for words in ([url], ["verify", url], ["release", url], ["release", f"--{url}"]):
            assert tracecloak(*words) == 2
            assert tracecloak(*words, "--traceback", "--json") == 2
            told = capsys.readouterr()
            assert "has a password in it" in told.err and "hunter2" not in told.out + told.err


def test_the_ledger_is_found_where_no_flag_shows_its_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The remedy works; and the environment may have a password."""
    url, keys = f"sqlite:///{tmp_path}/ledger.sqlite", ("--key_store", tmp_path / "keys")
    monkeypatch.setenv("LEDGER", f"{url}\n")
    (tmp_path / "url").write_text(url)
    assert tracecloak("ledger", "begin", "--ledger", "env:LEDGER", *keys) == 0
    assert tracecloak("ledger", "show", "--ledger", f"file:{tmp_path}/url", *keys) == 0
    assert str(tmp_path / "ledger.sqlite") in capsys.readouterr().out
    assert tracecloak("ledger", "show", "--ledger", "env:NO_SUCH_VARIABLE", *keys) == 2
    assert "no URL of a ledger at 'env:NO_SUCH_VARIABLE'" in capsys.readouterr().err
    pytest.importorskip("psycopg")
    monkeypatch.setenv("LEDGER", "postgresql+psycopg://u:hunter2@127.0.0.1:1/d")
    assert tracecloak("ledger", "show", "--ledger", "env:LEDGER", *keys) == 75
    assert "hunter2" not in capsys.readouterr().err
