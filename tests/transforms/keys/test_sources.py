"""Where keys come from: each source finds the key, and what it finds is in no message."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from tracecloak.schemas.errors import RetryLater, TracecloakError, UsageError
from tracecloak.transforms.keys import sources
from tracecloak.transforms.keys.sources import KEY_SOURCES
from tracecloak.transforms.keys.wrapping import KeyReference

KEY = "0123456789abcdef" * 4


def program(folder: Path, *lines: str) -> Path:
    """A program of these lines of a shell."""
    path = folder / "service"
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o700)
    return path


def refused(reference: str, kind: type[TracecloakError] = UsageError) -> str:
    with pytest.raises(kind) as raised:
        KeyReference(reference).resolve()
    return str(raised.value)


def test_a_file_a_variable_and_a_command_give_the_same_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    monkeypatch.setenv("TEST_KEY", KEY)
    service = program(tmp_path, f'test "$1 $2" = "get a key" && echo && echo " {KEY} "')
    references = [f"file:{tmp_path}/key", "env:TEST_KEY", f"command:{service} get 'a key'"]
    assert {KeyReference(text).resolve().hex() for text in references} == {KEY}
    assert list(KEY_SOURCES.builtins) == ["file", "env", "command"]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["echo hunter2"], "no key of 64 hex digits at 'command:{} …' (ValueError)"),
        (["true"], "(0 bytes, not 32)"),
        ([f"echo {KEY}{KEY}"], "(64 bytes, not 32)"),
        (["printf 'hunter2\\377'"], "(UnicodeDecodeError)"),
        (["yes hunter2"], "(ValueError)"),  # for ever
        (["echo hunter2; echo hunter2 >&2; exit 3"], "key command '{}' ended with exit code 3"),
        (["kill -9 $$"], "exit code -9"),
    ],
)
def test_what_a_command_prints_that_is_no_key_is_not_shown(
    tmp_path: Path, lines: list[str], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    service = program(tmp_path, *lines)
    error = refused(f"command:{service} --token=secret1 unlock")
    assert told.format(service) in error
    assert "hunter2" not in error and "secret1" not in error
    assert capfd.readouterr() == ("", "")


def test_a_command_that_asks_for_another_try_gets_one(tmp_path: Path) -> None:
    service = program(tmp_path, "exit 75")
    assert "ended with exit code 75: run" in refused(f"command:{service}", RetryLater)


@pytest.mark.parametrize("of_child", ["", ">&-"])  # with and without the pipe of the key
def test_a_command_that_does_not_end_is_ended_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_child: str
) -> None:
    monkeypatch.setattr(sources, "PATIENCE_SECONDS", 1.0)
    os.mkfifo(tmp_path / "alive")
    with open(os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK), "rb") as alive:
        # As long as one of the two lives, the pipe `alive` has a writer.
        service = program(
            tmp_path, f"exec 3>{tmp_path}/alive", f"sleep 600 {of_child} &", "echo x >&3",
            f"echo {KEY}", f"exec {of_child}", "wait",
        )  # fmt: skip
        assert "did not end within 1 s" in refused(f"command:{service}", RetryLater)
        os.set_blocking(alive.fileno(), True)
        assert alive.read() == b"x\n"  # to the end, which comes with the last writer's


def test_a_command_is_no_line_of_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = program(tmp_path, 'echo "$@" > "$(dirname "$0")/given"', f"echo {KEY}")
    KeyReference(f"command:{service} $HOME; touch {tmp_path}/x '`id`' | cat").resolve()
    given = (tmp_path / "given").read_text()
    assert given == f"$HOME; touch {tmp_path}/x `id` | cat\n"
    assert not (tmp_path / "x").exists()
    error = refused("command:TOKEN=hunter2 vault read")
    assert "key command 'TOKEN' cannot be run" in error
    assert "cannot be read (No closing quotation)" in refused("command:vault 'x")
    assert "hunter2" not in error


def test_a_command_gets_no_input(tmp_path: Path) -> None:
    """Catches a service that waits for a password on the terminal of a scheduled job."""
    service = program(tmp_path, "if read line; then exit 1; fi", f"echo {KEY}")
    reader, writer = os.pipe()
    saved = os.dup(0)
    try:
        os.dup2(reader, 0)
        os.write(writer, b"yes\n")
        assert KeyReference(f"command:{service}").resolve().hex() == KEY
    finally:
        os.dup2(saved, 0)
        for descriptor in (reader, writer, saved):
            os.close(descriptor)


@pytest.mark.parametrize("text", [KEY, "file:", ":", "command: ", "env:"])
def test_what_is_no_reference_is_not_shown_as_it_may_be_the_key(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        KeyReference(text)
    assert "it may be the key itself" in str(raised.value)
    assert KEY not in str(raised.value)


def test_of_an_unknown_source_its_name_is_told() -> None:
    with pytest.raises(UsageError, match="key source must be one of command, env,"):
        KeyReference("ftp:x")
    with pytest.raises(UsageError, match="one of command, env, file"):
        KeyReference("env:X", wrapped_by="ftp:x")


def test_a_file_that_is_no_key_is_not_read_to_its_end(tmp_path: Path) -> None:
    with (tmp_path / "zeros").open("wb") as stream:
        stream.truncate(1 << 40)
    assert "(ValueError)" in refused(f"file:{tmp_path}/zeros")
    assert "(FileNotFoundError)" in refused(f"file:{tmp_path}/none")
    assert "(KeyError)" in refused("env:TRACECLOAK_NO_SUCH_VARIABLE")


def test_a_reference_travels_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", KEY)
    reference = KeyReference("env:TEST_KEY", wrapped_by="command:service")
    reference.resolve()
    assert KEY.encode() not in pickle.dumps(reference)
    with pytest.raises(UsageError, match="whose release was abandoned"):
        KeyReference("env:TEST_KEY", "1" * 64).resolve()
