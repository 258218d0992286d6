"""Every page is worked through as somebody would who reads it, in a folder of its own.

Commands run in a shell, in their order, and keep its variables and its place; code runs in one
namespace. What a page shows as output must have the words of what came out; numbers may differ, as
noise is drawn anew.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.support.documents import DOCUMENTS, OUTPUT, PYTHON, SHELL, YAML, Block, blocks

PAGES = [
    document
    for document in DOCUMENTS
    if any(block.kind in (SHELL, PYTHON) and not block.not_run for block in blocks(document))
]
# Commands that stand in pages and are not for a test to run.
LEFT_OUT = re.compile(r"^(make|pip|\.ci/run)\b")
_ENVIRONMENT = "export -p > {0}/environment\npwd > {0}/place\n"


class Reader:
    """Works through a page.

    Attributes:
        page: Its path.
        folder: Where it is worked through.
        outside: A folder for what must not be seen there.
        said: What the last block that was run printed, or None.
    """

    def __init__(self, page: str, folder: Path, outside: Path) -> None:
        self.page, self.folder, self.outside = page, folder, outside
        self.said: str | None = None
        self._names: dict[str, Any] = {"__name__": "__main__"}
        (outside / "place").write_text(str(folder))
        (outside / "environment").write_text("")

    def read(self) -> None:
        """Runs all blocks; a configuration may stand after the command that reads it."""
        found = list(blocks(self.page))
        for block in reversed(found):
            if block.kind == YAML:
                self._write(block)
        for block in found:
            if block.kind in (SHELL, PYTHON) and block.not_run:
                self.said = None
            elif block.kind == SHELL:
                self.said = self._shell(block)
            elif block.kind == PYTHON:
                self._write(block)
                self.said = self._python(block)
            elif block.kind == OUTPUT and self.said is not None and not block.not_compared:
                missing = words_of(block.text) - words_of(self.said)
                assert not missing, f"{block.place} shows {missing}, which did not come out"
            elif block.kind == YAML:
                self._write(block)

    def _write(self, block: Block) -> None:
        for name, text in block.files.items():
            (self.folder / name).write_text(text)

    def _shell(self, block: Block) -> str:
        lines = [line for line in block.text.splitlines() if not LEFT_OUT.match(line)]
        script = (
            f'set -e\n. {self.outside}/environment\ncd "$(cat {self.outside}/place)"\n'
            + "\n".join(lines)
            + "\n"
            + _ENVIRONMENT.format(self.outside)
        )
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env={**os.environ, "PATH": path, "HOME": str(self.outside)},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{block.place}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def _python(self, block: Block) -> str:
        printed = io.StringIO()
        place = (self.outside / "place").read_text().strip()
        # What it releases is not paid by whoever runs the tests.
        at_home = mock.patch.dict(os.environ, HOME=str(self.outside))
        with contextlib.chdir(place), contextlib.redirect_stdout(printed), at_home:
            exec(compile(block.text, block.place, "exec"), self._names)
        return printed.getvalue()


def words_of(text: str) -> set[str]:
    """Returns the words of an output that do not depend on noise, chance or place."""
    words = re.findall(r"\S+", text)
    plain = (word.strip(".,;:()[]{}\"'`|-") for word in words if not re.search(r"[\d/\\]", word))
    return {word for word in plain if len(word) > 1}


def claims(folder: Path) -> None:
    """What configurations of the documents read from `lake/claims`."""
    (folder / "lake" / "claims").mkdir(parents=True)
    rows = ["Claim;Step;At;lifecycle:transition"]
    for case in range(60):
        steps = ("A_open", "A_check", "B_call", "A_close")[: 3 + case % 2]
        for hour, step in enumerate(steps, 9):
            day = 1 + case % 28
            rows.append(f"c{case};{step};2026-01-{day:02d} {hour:02d}:00:00;complete")
            rows.append(f"c{case};{step};2026-01-{day:02d} {hour:02d}:00:00;start")
    with gzip.open(folder / "lake" / "claims" / "january.csv.gz", "wt") as stream:
        stream.write("\n".join(rows) + "\n")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_worked_through(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, outside = tmp_path / "place", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    claims(folder)
    for name in ("TRACECLOAK_KEY_STORE", "TRACECLOAK_LOGS", "PYTHONWARNINGS"):
        monkeypatch.delenv(name, raising=False)
    Reader(page, folder, outside).read()


def read(folder: Path, monkeypatch: pytest.MonkeyPatch, *texts: Block) -> None:
    """Works through a page of these blocks."""
    (folder / "place").mkdir()
    (folder / "outside").mkdir()
    monkeypatch.setattr(sys.modules[__name__], "blocks", lambda page: iter(texts))
    Reader("page.md", folder / "place", folder / "outside").read()


@pytest.mark.parametrize(
    "wrong",
    [
        [Block("page.md", 1, SHELL, "false\ntrue", "")],
        [Block("page.md", 1, SHELL, "echo one", ""), Block("page.md", 3, OUTPUT, "another", "")],
        [Block("page.md", 1, PYTHON, "assert False", "")],
    ],
)
def test_a_page_that_is_wrong_is_noticed(
    wrong: list[Block], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AssertionError):
        read(tmp_path, monkeypatch, *wrong)
