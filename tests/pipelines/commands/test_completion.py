"""Completion, asked of the shells themselves; those that are not installed are skipped."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tracecloak.anonymizers.registry import METHODS
from tracecloak.examination.commands import attack
from tracecloak.pipelines.commands import completion, ledger
from tracecloak.pipelines.commands.table import COMMANDS

_BASH = """
source {script}
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_tracecloak
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
_ZSH = """
autoload -Uz compinit; compinit -u -D
source {script}
compadd() {{
    shift
    for word in "$@"; do [[ $word == ${{words[CURRENT]}}* ]] && print -r -- $word; done
}}
_files() {{ print -l -- ${{words[CURRENT]}}*(N) }}
words=({words}); CURRENT=$#words
_tracecloak
true
"""
_FISH = "source {script}; complete -C {line}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    (folder / "hospital.csv").touch()
    for shell in completion.SHELLS:
        (folder / f"script.{shell}").write_text(completion.script(shell), encoding="utf-8")
    return folder


def asked(shell: str, folder: Path, *words: str) -> set[str]:
    """What a shell offers for the last word; each a candidate that begins as it does."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = folder / f"script.{shell}"
    if shell == "fish":
        line = shlex.quote(" ".join(["tracecloak", *words]))
        text = _FISH.format(script=script, line=line)
    else:
        quoted = " ".join(map(shlex.quote, ["tracecloak", *words]))
        text = {"bash": _BASH, "zsh": _ZSH}[shell].format(script=script, words=quoted)
    command = [shell, *(["-f"] if shell == "zsh" else []), "-c", text]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TERM": "dumb"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, cwd=folder, env=environment
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    offered = {line.split("\t")[0] for line in done.stdout.splitlines() if line}
    # Fish offers what has the letters somewhere, too.
    return {word for word in offered if shell != "fish" or word.startswith(words[-1])}


ASKED = [
    (["re"], {"release", "report"}),
    ([""], set(COMMANDS)),
    (["catalogue", "private"], {"private-dfg", "private-indicators", "private-log"}),
    (["release", "--method", "private"], {"private-dfg", "private-indicators", "private-log"}),
    (["plan", "--method", ""], set(METHODS)),
    (["ledger", ""], set(ledger.ACTIONS)),
    (["ledger", "declare", "default", "--un"], {"--unit"}),
    (["ledger", "declare", "default", "--unit", ""], {"case", "individual", "event"}),
    (["ledger", "show", "--q"], {"--quiet"}),
    (["release", "--method", "private-dfg", "--l2"], {"--l2_clip"}),
    (["release", "--method", "sacofa", "--l2"], set()),
    (["release", "--l2"], set()),
    (["release", "--method", "variant-histogram", "--noise", ""], {"laplace", "truncated"}),
    (["attack", ""], set(attack.ACTIONS)),
    (["attack", "linkage", "--samp"], {"--samples"}),
    (["attack", "config", "--samp"], set()),
    (["attack", "config", "--method", "private-dfg", "--l2"], {"--l2_clip"}),
    (["release", "hosp"], {"hospital.csv"}),
    (["release", "--log", "hosp"], {"hospital.csv"}),
    (["release", "--json", "hosp"], {"hospital.csv"}),
    (["completion", ""], set(completion.SHELLS)),
    (["--ver"], {"--version"}),
]


# Each line in one shell by day, since the shells share what they ask, and in all of them at night.
@pytest.mark.parametrize(
    ("shell", "words", "offered"),
    [
        pytest.param(
            shell,
            words,
            offered,
            id=f"{shell}-{' '.join(words)}",
            marks=[] if i % len(completion.SHELLS) == j else [pytest.mark.slow],
        )
        for i, (words, offered) in enumerate(ASKED)
        for j, shell in enumerate(completion.SHELLS)
    ],
)
def test_what_a_shell_offers(shell: str, words: list[str], offered: set[str], folder: Path) -> None:
    assert asked(shell, folder, *words) == offered


def test_bash_takes_a_flag_with_an_equals_sign(folder: Path) -> None:
    # Bash makes words of the flag, the sign and what follows.
    offered = asked("bash", folder, "release", "--method", "=", "private")
    assert offered == {"private-dfg", "private-indicators", "private-log"}


def test_no_word_can_be_more_than_a_word() -> None:
    for text in ("", "a b", "$(date)", "`x`", "a;b", "'"):
        with pytest.raises(ValueError, match="is no word"):
            completion._word(text)
