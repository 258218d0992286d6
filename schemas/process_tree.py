"""Process trees: block-structured models of what may follow what, each activity in its place.

A tree is an activity, a silent step, or one of four operators over smaller trees (Leemans, Fahland
and van der Aalst, "Discovering Block-Structured Process Models from Event Logs", 2013): a sequence,
an exclusive choice, a parallel execution (any interleaving), or a loop (its body, then any number
of times the way back and the body again). It knows nothing of counts or times.

The text form is the usual one: `->( 'A', X( tau, 'B' ), *( 'C', tau ) )`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from schemas.errors import UsageError

Operator = Literal["sequence", "exclusive", "parallel", "loop"]

SIGNS: dict[Operator, str] = {"sequence": "->", "exclusive": "X", "parallel": "+", "loop": "*"}
# Beyond so many operators within one another a tree is not read: recursion has its limits.
MAX_DEPTH = 200


@dataclass(frozen=True)
class ProcessTree:
    """A node and all that is below it; equal if they look alike, whatever their languages.

    Attributes:
        operator: How the children are put together; None for a leaf.
        label: The activity of a leaf; None for an operator and for the silent step.
        children: Of an operator, at least one; of a loop two, the body and the way back.

    Raises:
        UsageError: It is neither a leaf nor an operator with as many children as it needs.
    """

    operator: Operator | None = None
    label: str | None = None
    children: tuple[ProcessTree, ...] = ()

    def __post_init__(self) -> None:
        if self.operator is None:
            if self.children:
                raise UsageError("a leaf of a process tree has no children")
        elif self.label is not None:
            raise UsageError(f"an operator of a process tree has no label: {self.operator}")
        elif not self.children:
            raise UsageError(f"an operator of a process tree needs children: {self.operator}")
        elif self.operator == "loop" and len(self.children) != 2:
            raise UsageError(
                "a loop of a process tree has two children, its body and the way back; got "
                f"{len(self.children)}"
            )

    @property
    def labels(self) -> tuple[str, ...]:
        """The activities of the leaves from left to right; silent steps are left out."""
        return tuple(node.label for node in self.nodes() if node.label is not None)

    def nodes(self) -> Iterator[ProcessTree]:
        """Yields every node, parents before their children."""
        yield self
        for child in self.children:
            yield from child.nodes()

    def __str__(self) -> str:
        """The text form; `parse_tree` reads it."""
        if self.operator is None:
            return "tau" if self.label is None else _quoted(self.label)
        return f"{SIGNS[self.operator]}( {', '.join(map(str, self.children))} )"


SILENT = ProcessTree()


def leaf(label: str) -> ProcessTree:
    """Returns an activity."""
    return ProcessTree(label=label)


def sequence(*children: ProcessTree) -> ProcessTree:
    """Returns the children one after the other."""
    return ProcessTree("sequence", None, children)


def exclusive(*children: ProcessTree) -> ProcessTree:
    """Returns the choice of one child."""
    return ProcessTree("exclusive", None, children)


def parallel(*children: ProcessTree) -> ProcessTree:
    """Returns the children in any interleaving."""
    return ProcessTree("parallel", None, children)


def loop(body: ProcessTree, back: ProcessTree) -> ProcessTree:
    """Returns the body, then any number of times the way back and the body again."""
    return ProcessTree("loop", None, (body, back))


def _quoted(label: str) -> str:
    escaped = label.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def parse_tree(text: str) -> ProcessTree:
    """Reads the text form; spaces between its parts are free.

    In a quoted activity a backslash stands before a quote or a backslash that is part of it.

    Raises:
        UsageError: It is not the text form of a tree, or more than 200 operators deep.
    """
    reader = _Reader(text)
    tree = reader.tree(0)
    reader.skip_spaces()
    if reader.place != len(text):
        raise reader.error("the end")
    return tree


class _Reader:
    """Reads a text from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0

    def skip_spaces(self) -> None:
        while self.place < len(self.text) and self.text[self.place].isspace():
            self.place += 1

    def take(self, token: str) -> bool:
        self.skip_spaces()
        if not self.text.startswith(token, self.place):
            return False
        self.place += len(token)
        return True

    def error(self, wanted: str) -> UsageError:
        return UsageError(f"process tree: expected {wanted} at character {self.place + 1}")

    def tree(self, depth: int) -> ProcessTree:
        if depth > MAX_DEPTH:
            raise UsageError(f"process tree: more than {MAX_DEPTH} operators within one another")
        if self.take("tau"):
            return SILENT
        if self.take("'"):
            return leaf(self.quoted())
        for operator, sign in SIGNS.items():
            if self.take(sign):
                return ProcessTree(operator, None, tuple(self.children(depth)))
        raise self.error("tau, a quoted activity or one of ->, X, + and *")

    def children(self, depth: int) -> Iterator[ProcessTree]:
        if not self.take("("):
            raise self.error("(")
        yield self.tree(depth + 1)
        while self.take(","):
            yield self.tree(depth + 1)
        if not self.take(")"):
            raise self.error(", or )")

    def quoted(self) -> str:
        characters: list[str] = []
        while self.place < len(self.text):
            character = self.text[self.place]
            self.place += 1
            if character == "'":
                return "".join(characters)
            if character == "\\":
                if self.text[self.place : self.place + 1] not in ("'", "\\"):
                    raise self.error("a quote or a backslash after a backslash")
                character = self.text[self.place]
                self.place += 1
            characters.append(character)
        raise self.error("a quote that ends the activity")
