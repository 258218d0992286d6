"""Process models as values: trees and Petri nets."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from tracecloak.schemas.errors import UsageError

# --- Process trees: block-structured models of what may follow what, each activity in its place. --
# A tree is an activity, a silent step, or one of four operators over smaller trees (Leemans,
# Fahland and van der Aalst, "Discovering Block-Structured Process Models from Event Logs", 2013):
# a sequence, an exclusive choice, a parallel execution (any interleaving), or a loop (its body,
# then any number of times the way back and the body again). It knows nothing of counts or times.
#
# The text form is the usual one: `->( 'A', X( tau, 'B' ), *( 'C', tau ) )`.


Operator = Literal["sequence", "exclusive", "parallel", "loop"]

SIGNS: dict[Operator, str] = {"sequence": "->", "exclusive": "X", "parallel": "+", "loop": "*"}
# Beyond so many operators within one another a tree is not read: recursion has its limits.
MAX_DEPTH = 200
_NODE = re.compile(
    r"\s*+(?:(?P<tau>tau)|'(?P<label>(?:[^'\\]++|\\['\\])*+)'|(?P<sign>->|[X+*])\s*+\()"
)
_MARK = re.compile(r"\s*+([,)])")


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
            raise UsageError(f"a loop of a process tree has two children, got {len(self.children)}")

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
    if body.operator == "loop" and back.is_silent:
        # Followed by itself it is within itself if it goes back without an activity.
        inner, way_back = body.children
        if way_back.is_nullable or inner.is_silent:
            return body
    if body.is_silent and back.operator == "exclusive":
        # Going back with nothing to do is nothing as well.
        parts = [part for part in back.children if not part.is_silent]
        back = _combined("exclusive", parts)
    return loop(body, back)


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
    tree, place = _parsed(text, 0, 0)
    if text[place:].strip():
        raise _expected("the end", place)
    return tree


def _parsed(text: str, place: int, depth: int) -> tuple[ProcessTree, int]:
    """Returns the node that begins at a place, and where it ends."""
    if depth > MAX_DEPTH:
        raise UsageError(f"process tree: more than {MAX_DEPTH} operators within one another")
    node = _NODE.match(text, place)
    if node is None:
        raise _expected("tau, a quoted activity or an operator and a bracket", place)
    place = node.end()
    if node["tau"]:
        return SILENT, place
    if node["sign"] is None:
        return leaf(re.sub(r"\\(.)", r"\1", node["label"])), place
    operator = next(name for name, sign in SIGNS.items() if sign == node["sign"])
    children, mark = [], ","
    while mark == ",":
        child, place = _parsed(text, place, depth + 1)
        children.append(child)
        found = _MARK.match(text, place)
        if found is None:
            raise _expected(", or )", place)
        mark, place = found[1], found.end()
    return ProcessTree(operator, None, tuple(children)), place


def _expected(what: str, place: int) -> UsageError:
    return UsageError(f"process tree: expected {what} after character {place}")


# --- Petri nets: what a process model of places and transitions lets happen, state by state. ------
# The common form of models from elsewhere: process trees, BPMN and PNML all become one. A
# transition takes tokens from places and gives tokens to places; it is an activity or silent.
# What the net allows are the sequences of activities from its initial to its final marking (van
# der Aalst, "The Application of Petri Nets to Workflow Management", 1998). It knows nothing of
# counts or times.


# A model of more states is not explored; ten activities in parallel have 2,000.
MAX_STATES = 50_000

# Place to tokens, or to the tokens that an arc moves; all positive.
Tokens = Mapping[str, int]


@dataclass(frozen=True)
class Transition:
    """What may happen where the tokens are there.

    Attributes:
        label: The activity, or None: silent.
        takes: Tokens that it takes.
        gives: Tokens that it gives.
    """

    label: str | None
    takes: Tokens
    gives: Tokens


@dataclass(frozen=True)
class PetriNet:
    """A net with its initial and its final marking; places are known by their names alone."""

    transitions: tuple[Transition, ...]
    initial: Tokens
    final: Tokens


@dataclass(frozen=True, eq=False)
class ModelStates:
    """The states of a model on the ways from its start to its end, and the steps between them.

    Attributes:
        labels: The activities on these ways, sorted.
        sources: int64[n_steps], state that a step starts from.
        targets: int64[n_steps], state that it leads to.
        codes: int64[n_steps], place of its activity in `labels`; -1 for a silent step.
        is_final: bool[n_states], whether a case may end there; the start is state 0.
    """

    labels: tuple[str, ...]
    sources: np.ndarray
    targets: np.ndarray
    codes: np.ndarray
    is_final: np.ndarray

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.is_final)

    def after(self, starts: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Returns bool[n_states], the states that one comes to by some of the steps, or is in.

        Args:
            starts: bool[n_states].
            steps: bool[n_steps], which may be taken.
        """
        return _closure(starts, self.sources[steps], self.targets[steps])

    def before(self, ends: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Returns bool[n_states], the states from which one comes to others by some of the steps.

        Args:
            ends: bool[n_states].
            steps: bool[n_steps], which may be taken.
        """
        return _closure(ends, self.targets[steps], self.sources[steps])


def _closure(reached: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    reached = reached.copy()
    while True:
        following = targets[reached[sources]]
        following = following[~reached[following]]
        if not len(following):
            return reached
        reached[following] = True


def states_of(net: PetriNet) -> ModelStates:
    """Explores a net.

    Raises:
        UsageError: It has more than MAX_STATES states, or no way to its end.
    """
    first, last = (frozenset(tokens.items()) for tokens in (net.initial, net.final))
    number, waiting = {first: 0}, [first]
    steps: list[tuple[int, int, str | None]] = []
    for source, marking in enumerate(waiting):
        tokens = dict(marking)
        for t in net.transitions:
            if any(tokens.get(place, 0) < n for place, n in t.takes.items()):
                continue
            after = tokens.copy()
            for place, n in t.takes.items():
                after[place] -= n
            for place, n in t.gives.items():
                after[place] = after.get(place, 0) + n
            following = frozenset(one for one in after.items() if one[1])
            if following not in number:
                if len(number) == MAX_STATES:
                    raise UsageError(
                        f"the process model has more than {MAX_STATES:,} states: simplify it, such "
                        "as by fewer parallel activities, or state its rules by name"
                    )
                number[following] = len(number)
                waiting.append(following)
            steps.append((source, number[following], t.label))
    if last not in number:
        raise UsageError("the process model has no way from its start to its end")
    return _trimmed(len(number), number[last], steps)


def _trimmed(n_states: int, last: int, steps: list[tuple[int, int, str | None]]) -> ModelStates:
    """Leaves out the states from which the end is out of reach."""
    sources, targets = (np.array([step[end] for step in steps], np.int64) for end in (0, 1))
    is_final = np.zeros(n_states, bool)
    is_final[last] = True
    lives = _closure(is_final, targets, sources)
    living = np.flatnonzero(lives[sources] & lives[targets])
    named = [steps[i][2] for i in living.tolist()]
    labels = tuple(sorted({label for label in named if label is not None}))
    code: dict[str | None, int] = {label: i for i, label in enumerate(labels)} | {None: -1}
    renumbered = np.cumsum(lives) - 1
    return ModelStates(
        labels,
        renumbered[sources[living]],
        renumbered[targets[living]],
        np.array([code[label] for label in named], np.int64),
        is_final[lives],
    )


def net_of_tree(tree: ProcessTree) -> PetriNet:
    """Returns the net that allows what a process tree allows; places are named by numbers."""
    transitions: list[Transition] = []
    names = map(str, itertools.count(1))

    def add(label: str | None, takes: list[str], gives: list[str]) -> None:
        transitions.append(Transition(label, dict.fromkeys(takes, 1), dict.fromkeys(gives, 1)))

    def build(tree: ProcessTree, first: str, last: str) -> None:
        """Adds what takes a token from the first place to the last."""
        if tree.operator is None:
            add(tree.label, [first], [last])
        elif tree.operator == "sequence":
            for child in tree.children[:-1]:
                following = next(names)
                build(child, first, following)
                first = following
            build(tree.children[-1], first, last)
        elif tree.operator == "exclusive":
            for child in tree.children:
                build(child, first, last)
        elif tree.operator == "parallel":
            begins = [next(names) for _ in tree.children]
            ends = [next(names) for _ in tree.children]
            add(None, [first], begins)
            for child, begin, end in zip(tree.children, begins, ends, strict=True):
                build(child, begin, end)
            add(None, ends, [last])
        else:
            # Places of its own: what leads back must not lead into a loop around this one.
            begin, end = next(names), next(names)
            body, back = tree.children
            add(None, [first], [begin])
            build(body, begin, end)
            build(back, end, begin)
            add(None, [end], [last])

    start, stop = next(names), next(names)
    build(tree, start, stop)
    return PetriNet(tuple(transitions), {start: 1}, {stop: 1})
