"""Petri nets: what a process model of places and transitions lets happen, state by state.

The common form of models from elsewhere: process trees, BPMN and PNML all become one. A transition
takes tokens from places and gives tokens to places; it is an activity or silent. What the net
allows are the sequences of activities from its initial to its final marking (van der Aalst, "The
Application of Petri Nets to Workflow Management", 1998). It knows nothing of counts or times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.models.process_tree import ProcessTree

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
    places = sorted(
        {*net.initial, *net.final}.union(*((*t.takes, *t.gives) for t in net.transitions))
    )
    number = {place: i for i, place in enumerate(places)}

    def vector(tokens: Tokens) -> tuple[int, ...]:
        counts = [0] * len(places)
        for place, n in tokens.items():
            counts[number[place]] = n
        return tuple(counts)

    moves = [
        (
            t.label,
            [(number[place], n) for place, n in t.takes.items()],
            [(number[place], n) for place, n in t.gives.items()],
        )
        for t in net.transitions
    ]
    first, last = vector(net.initial), vector(net.final)
    known = {first: 0}
    waiting = [first]
    steps: list[tuple[int, int, str | None]] = []
    for marking in waiting:
        for label, takes, gives in moves:
            if any(marking[place] < n for place, n in takes):
                continue
            tokens = list(marking)
            for place, n in takes:
                tokens[place] -= n
            for place, n in gives:
                tokens[place] += n
            following = tuple(tokens)
            if following not in known:
                if len(known) == MAX_STATES:
                    raise UsageError(
                        f"the process model has more than {MAX_STATES:,} states: simplify it, for "
                        "example by fewer activities in parallel, or state its rules by name"
                    )
                known[following] = len(known)
                waiting.append(following)
            steps.append((known[marking], known[following], label))
    return _trimmed(len(known), known.get(last), steps)


def _trimmed(
    n_states: int, last: int | None, steps: list[tuple[int, int, str | None]]
) -> ModelStates:
    """Leaves out the states from which the end is out of reach."""
    if last is None:
        raise UsageError("the process model has no way from its start to its end")
    sources = np.array([step[0] for step in steps], np.int64)
    targets = np.array([step[1] for step in steps], np.int64)
    is_final = np.zeros(n_states, bool)
    is_final[last] = True
    lives = _closure(is_final, targets, sources)
    living = (
        np.flatnonzero(lives[sources] & lives[targets]) if len(steps) else np.zeros(0, np.int64)
    )
    named = [steps[i][2] for i in living.tolist()]
    labels = tuple(sorted({label for label in named if label is not None}))
    code = {label: i for i, label in enumerate(labels)}
    renumbered = np.cumsum(lives) - 1
    return ModelStates(
        labels,
        renumbered[sources[living]],
        renumbered[targets[living]],
        np.array([-1 if label is None else code[label] for label in named], np.int64),
        is_final[lives],
    )


@dataclass
class _Builder:
    """Puts a tree's transitions together, with places named by numbers."""

    transitions: list[Transition] = field(default_factory=list)
    n_places: int = 0

    def place(self) -> str:
        self.n_places += 1
        return str(self.n_places)

    def add(self, label: str | None, takes: list[str], gives: list[str]) -> None:
        self.transitions.append(Transition(label, dict.fromkeys(takes, 1), dict.fromkeys(gives, 1)))

    def build(self, tree: ProcessTree, first: str, last: str) -> None:
        """Adds what takes a token from the first place to the last."""
        if tree.operator is None:
            self.add(tree.label, [first], [last])
        elif tree.operator == "sequence":
            for child in tree.children[:-1]:
                following = self.place()
                self.build(child, first, following)
                first = following
            self.build(tree.children[-1], first, last)
        elif tree.operator == "exclusive":
            for child in tree.children:
                self.build(child, first, last)
        elif tree.operator == "parallel":
            begins = [self.place() for _ in tree.children]
            ends = [self.place() for _ in tree.children]
            self.add(None, [first], begins)
            for child, begin, end in zip(tree.children, begins, ends, strict=True):
                self.build(child, begin, end)
            self.add(None, ends, [last])
        else:
            # Places of its own: what leads back must not lead into a loop around this one.
            begin, end = self.place(), self.place()
            body, back = tree.children
            self.add(None, [first], [begin])
            self.build(body, begin, end)
            self.build(back, end, begin)
            self.add(None, [end], [last])


def net_of_tree(tree: ProcessTree) -> PetriNet:
    """Returns the net that allows what a process tree allows."""
    builder = _Builder()
    first, last = builder.place(), builder.place()
    builder.build(tree, first, last)
    return PetriNet(tuple(builder.transitions), {first: 1}, {last: 1})
