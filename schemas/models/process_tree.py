"""Process trees: block-structured models of what may follow what, each activity in its place.

A tree is an activity, a silent step, or one of four operators over smaller trees (Leemans, Fahland
and van der Aalst, "Discovering Block-Structured Process Models from Event Logs", 2013): a sequence,
an exclusive choice, a parallel execution (any interleaving), or a loop (its body, then any number
of times the way back and the body again). It knows nothing of counts or times.

The text form is the usual one: `->( 'A', X( tau, 'B' ), *( 'C', tau ) )`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from tracecloak.schemas.errors import UsageError

Operator = Literal["sequence", "exclusive", "parallel", "loop"]

SIGNS: dict[Operator, str] = {"sequence": "->", "exclusive": "X", "parallel": "+", "loop": "*"}
# Beyond so many operators within one another a tree is not read: recursion has its limits.
MAX_DEPTH = 200
# Characters of a quoted activity that stand for themselves, without a backslash before them.
_PLAIN = re.compile(r"[^'\\]++")


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
    def is_silent(self) -> bool:
        """Whether it is the silent step."""
        return self.operator is None and self.label is None

    @cached_property
    def is_nullable(self) -> bool:
        """Whether it can be gone through without any activity."""
        if self.operator is None:
            return self.label is None
        if self.operator == "exclusive":
            return any(child.is_nullable for child in self.children)
        if self.operator == "loop":
            return self.children[0].is_nullable
        return all(child.is_nullable for child in self.children)

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


def optional(tree: ProcessTree) -> ProcessTree:
    """Returns the choice of a tree or nothing; a tree that can be nothing stays as it is."""
    return tree if tree.is_nullable else exclusive(SILENT, tree)


def flower(labels: Iterable[str]) -> ProcessTree:
    """Returns the tree of any number of activities in any order, each of these labels."""
    leaves = [leaf(label) for label in labels]
    return loop(SILENT, _combined("exclusive", leaves)) if leaves else SILENT


def normalise(tree: ProcessTree) -> ProcessTree:
    """Returns a tree of the same language in a simpler form, the same for trees alike in this way.

    Operators of one child and an operator right below the same operator disappear, silent steps in
    sequences and parallels too; a choice has equal children once, and the silent step only if no
    other child can be nothing; choices and parallels are in the order of their text, the silent
    step first. A loop that only repeats a loop that repeats itself is that loop. Not all trees of
    one language become equal.
    """
    if tree.operator is None:
        return tree
    children = [normalise(child) for child in tree.children]
    if tree.operator == "loop":
        return _normalised_loop(*children)
    flat = [
        part
        for child in children
        for part in (child.children if child.operator == tree.operator else (child,))
    ]
    if tree.operator == "exclusive":
        is_covered = any(part.is_nullable and not part.is_silent for part in flat)
        flat = [part for part in dict.fromkeys(flat) if not (is_covered and part.is_silent)]
    else:
        flat = [part for part in flat if not part.is_silent]
    if tree.operator != "sequence":
        flat.sort(key=lambda part: (not part.is_silent, str(part)))
    return _combined(tree.operator, flat)


def _normalised_loop(body: ProcessTree, back: ProcessTree) -> ProcessTree:
    if body.is_silent and back.is_silent:
        return SILENT
    if body.operator == "loop" and back.is_silent and _repeats_freely(body):
        return body
    if body.is_silent and back.operator == "exclusive":
        # Going back with nothing to do is nothing as well.
        parts = [part for part in back.children if not part.is_silent]
        back = _combined("exclusive", parts)
    return loop(body, back)


def _repeats_freely(tree: ProcessTree) -> bool:
    """Whether a loop followed by itself is within the loop: it goes back without an activity."""
    body, back = tree.children
    return back.is_nullable or body.is_silent


def _combined(operator: Operator, children: list[ProcessTree]) -> ProcessTree:
    if not children:
        return SILENT
    return children[0] if len(children) == 1 else ProcessTree(operator, None, tuple(children))


# --- Text -------------------------------------------------------------------------------------


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
        parts: list[str] = []
        while self.place < len(self.text):
            plain = _PLAIN.match(self.text, self.place)
            if plain is not None:
                parts.append(plain[0])
                self.place = plain.end()
                continue
            character = self.text[self.place]
            self.place += 1
            if character == "'":
                return "".join(parts)
            escaped = self.text[self.place : self.place + 1]  # after a backslash
            if escaped not in ("'", "\\"):
                raise self.error("a quote or a backslash after a backslash")
            parts.append(escaped)
            self.place += 1
        raise self.error("a quote that ends the activity")
