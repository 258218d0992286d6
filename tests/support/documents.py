"""What the documents show in blocks: commands, configurations and code, in their order."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "METHODS.md", "CONTRIBUTING.md")
_NAMED = re.compile(r"`([\w.]+\.yaml)`")


@dataclass(frozen=True)
class Block:
    """A block of a document, indented by four blanks or fenced.

    Attributes:
        document: The file.
        line: Where the block begins, from 1.
        kind: The language of a fenced block; empty for an indented one.
        text: What stands in it.
        before: The last line of text before it.
    """

    document: str
    line: int
    kind: str
    text: str
    before: str

    @property
    def lines(self) -> list[str]:
        """The lines, those that go on in the next one joined with it."""
        return [" ".join(line.split()) for line in self.text.replace("\\\n", " ").splitlines()]

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command line of ours, without its first one."""
        words = [shlex.split(line) for line in self.lines if line.startswith("tracecloak ")]
        return [line[1:] for line in words]

    @property
    def file(self) -> str | None:
        """The name that the text gives to a configuration."""
        named = _NAMED.findall(self.before)
        return named[0] if self.kind == "yaml" and named else None


def blocks(document: str) -> Iterator[Block]:
    """Yields the blocks of a document."""
    lines = (ROOT / document).read_text(encoding="utf-8").splitlines()
    before, at = "", 0
    while at < len(lines):
        first = at
        if lines[at].startswith("```"):
            kind = lines[at].removeprefix("```")
            at = lines.index("```", at + 1) + 1
            text = lines[first + 1 : at - 1]
        elif lines[at].startswith("    ") and (at == 0 or not lines[at - 1]):
            kind = ""
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at]):
                at += 1
            text = [line.removeprefix("    ") for line in lines[first:at]]
        else:
            before, at = lines[at] or before, at + 1
            continue
        yield Block(document, first + 1, kind, "\n".join(text).strip("\n"), before)
