"""Completion, as argcomplete asks for it, and as a shell does."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.releasing import ROOT
from tracecloak.anonymizers.registry import METHODS
from tracecloak.examination.commands import attack
from tracecloak.pipelines.commands import completion, ledger
from tracecloak.pipelines.commands.table import COMMANDS

COMMAND = [sys.executable, "-m", "tracecloak"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "hospital.csv").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


ASKED = [
    (["re"], {"release", "report"}),
    ([""], {*COMMANDS}),
    (["catalogue", "private"], {"private-dfg", "private-indicators", "private-log"}),
    (["release", "--method", "private"], {"private-dfg", "private-indicators", "private-log"}),
    (["plan", "--method", ""], set(METHODS)),
    (["ledger", ""], {*ledger.ACTIONS}),
    (["ledger", "declare", "default", "--un"], {"--unit"}),
    (["ledger", "declare", "default", "--unit", ""], {"case", "individual", "event"}),
    (["ledger", "show", "--q"], {"--quiet"}),
    (["release", "--method", "private-dfg", "--l2"], {"--l2_clip"}),
    (["release", "--method", "sacofa", "--l2"], set()),
    (["release", "--l2"], set()),
    (["release", "--method", "variant-histogram", "--noise", ""], {"laplace", "truncated"}),
    (["attack", ""], {*attack.ACTIONS}),
    (["attack", "linkage", "--samp"], {"--samples"}),
    (["attack", "config", "--samp"], set()),
    (["attack", "config", "--method", "private-dfg", "--l2"], {"--l2_clip"}),
    (["release", "hosp"], {"hospital.csv"}),
    (["release", "--log", "hosp"], {"hospital.csv"}),
    (["release", "--json", "hosp"], {"hospital.csv"}),
    (["completion", ""], {*completion.SHELLS}),
    (["nothing", "--q"], set()),
    (["--ver"], {"--version"}),
]


@pytest.mark.parametrize(("words", "offered"), ASKED, ids=[" ".join(words) for words, _ in ASKED])
def test_what_is_offered(words: list[str], offered: set[str], folder: Path) -> None:
    line = shlex.join(["tracecloak", *words[:-1]]) + f" {words[-1]}"
    asked = {
        "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "|", "_ARGCOMPLETE_STDOUT_FILENAME": str(folder / "offered"),
    }  # fmt: skip
    subprocess.run(COMMAND, env={**ENVIRONMENT, **asked}, check=True, timeout=60)
    found = (folder / "offered").read_text().split("|")
    assert {word.strip() for word in found} - {""} == offered


_BASH = """
source script.bash
COMP_LINE={line}; COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=({line}); COMP_TYPE=9
_python_argcomplete tracecloak
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def test_a_shell_asks_the_command(folder: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    place = folder / "bin"
    place.mkdir()
    (place / "tracecloak").write_text(
        f'#!/bin/sh\nexec {sys.executable} -m tracecloak "$@"\n', encoding="utf-8"
    )
    (place / "tracecloak").chmod(0o755)
    script = subprocess.run(
        [*COMMAND, "completion", "bash"], env=ENVIRONMENT, capture_output=True, check=True
    )
    (folder / "script.bash").write_bytes(script.stdout)
    text = _BASH.format(line=shlex.quote("tracecloak release --method=private"))
    path = f"{place}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", text], env={**ENVIRONMENT, "PATH": path}, capture_output=True,
        text=True, check=False, timeout=60,
    )  # fmt: skip
    assert {*done.stdout.split()} == {"private-dfg", "private-indicators", "private-log"}
