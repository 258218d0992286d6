"""What the documents show in blocks: commands, configurations, code and output, in their order.

A block is run and compared unless a comment right before it says why not:

* `<!-- not run: it never ends -->` before commands or code: they are read by the parsers only.
* `<!-- not compared: chosen by chance -->` before output: nothing is expected of it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")),
)
# The languages of a fenced block, by what a test does with it.
SHELL, PYTHON, YAML, JSON, OUTPUT = "bash", "python", "yaml", "json", "text"
KINDS = (SHELL, PYTHON, YAML, JSON, OUTPUT)

_FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>\w*)(?P<rest>.*)$")
_TITLE = re.compile(r'title="([^"]+)"')
_NAMED = re.compile(r"`([\w.]+\.yaml)`")
_REMARK = re.compile(r"^<!-- (not run|not compared): (.*\S) -->$")
_WRITTEN = re.compile(r"^cat > (\S+) <<'(\w+)'\n(.*?)^\2$\n?", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block of a document: fenced, or in a document at the root indented by four blanks.

    Attributes:
        document: The file.
        line: Where the block begins, from 1.
        kind: One of `KINDS`; of an indented one it is told by what stands in it.
        text: What stands in it.
        before: The last line of text before it.
        title: The file that it is, if it says so.
        not_run: Why its commands or its code are not run; empty if they are.
        not_compared: Why its output is not compared; empty if it is.
    """

    document: str
    line: int
    kind: str
    text: str
    before: str
    title: str = ""
    not_run: str = ""
    not_compared: str = ""

    @property
    def place(self) -> str:
        """Where it stands, for messages."""
        return f"{self.document}:{self.line}"

    @property
    def lines(self) -> list[str]:
        """The lines without files that are written, those that go on in the next joined with it."""
        text = _WRITTEN.sub("", self.text)
        return [" ".join(line.split()) for line in text.replace("\\\n", " ").splitlines()]

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command line of ours, without its first one."""
        return list(_commands(self)) if self.kind == SHELL else []

    @property
    def files(self) -> dict[str, str]:
        """The files that it is or writes: their text by their name."""
        if self.kind == SHELL:
            return {name: text for name, _, text in _WRITTEN.findall(self.text)}
        named = [self.title] if self.title else _NAMED.findall(self.before)[:1]
        return dict.fromkeys(named if self.title or self.kind == YAML else [], self.text + "\n")


def blocks(document: str) -> Iterator[Block]:
    """Yields the blocks of a document."""
    lines = (ROOT / document).read_text(encoding="utf-8").splitlines()
    before, remark, at = "", {"not run": "", "not compared": ""}, 0
    while at < len(lines):
        first, title = at, ""
        if (fence := _FENCE.match(lines[at])) is not None:
            n, end = len(fence["indent"]), f"{fence['indent']}```"
            at = lines.index(end, at + 1) + 1
            text = [line[n:] for line in lines[first + 1 : at - 1]]
            kind = fence["kind"] or "none"
            title = "".join(_TITLE.findall(fence["rest"]))
        elif lines[at].startswith("    ") and "/" not in document and not (at and lines[at - 1]):
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at]):
                at += 1
            text = [line.removeprefix("    ") for line in lines[first:at]]
            kind = SHELL if text[0].startswith(("tracecloak ", "make ")) else OUTPUT
        else:
            if (found := _REMARK.match(lines[at].strip())) is not None:
                remark[found[1]] = found[2]
            elif lines[at]:
                before, remark = lines[at], dict.fromkeys(remark, "")
            at += 1
            continue
        body = "\n".join(text).strip("\n")
        yield Block(
            document,
            first + 1,
            kind,
            body,
            before,
            title,
            remark["not run"],
            remark["not compared"],
        )
        remark = dict.fromkeys(remark, "")


def _commands(block: Block) -> Iterator[list[str]]:
    for line in block.lines:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if not set(word) <= set(";|&<>()"):
                words.append(word)
                continue
            while words and re.match(r"^[A-Z_]+=", words[0]):
                words.pop(0)
            if words[:1] == ["tracecloak"]:
                yield words[1:]
            words = []
