"""A process tree as it is published, with what was said of its fitness.

It holds nothing that was not paid for: activities, tree and fitness are those that the method
released. That it is kept as text lets it travel and be written like any other product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from tracecloak.schemas.events.vocabulary import OTHER
from tracecloak.schemas.models.process_tree import ProcessTree, parse_tree
from tracecloak.schemas.published.figures import MEASURED, Grade, grade_of
from tracecloak.schemas.published.product import Key
from tracecloak.schemas.published.yields import Yield


@dataclass(frozen=True, eq=False)
class ReleasedTree:
    """A released process tree.

    Attributes:
        names: string[n], the activities of the vocabulary. One that the tree does not have stays.
        text: The tree in its text form (`schemas.models.process_tree`).
        is_found: Whether the method found a tree that is good enough; otherwise `text` is one
            that follows from the names alone.
        fitness: Noisy fitness on the input, cut to 0 … 1; None: nothing is said.
        fitness_low: Lower end of its 95 % interval, as the noise is known to be, likewise cut.
        fitness_high: Its upper end.
    """

    wire_name: ClassVar[str] = "released-tree"

    names: pa.StringArray
    text: str
    is_found: bool
    fitness: float | None
    fitness_low: float | None = None
    fitness_high: float | None = None

    @property
    def fitness_sentence(self) -> str:
        """What is said of the fitness, in words; empty where nothing is."""
        if self.fitness is None or self.fitness_low is None or self.fitness_high is None:
            return ""
        return (
            f"Of a case {self.fitness:.0%} fits the tree on average. That is measured: of the "
            f"original it is between {self.fitness_low:.0%} and {self.fitness_high:.0%}, with a "
            f"probability of about 95 %: the number is {self.fitness_grade}."
        )

    @property
    def fitness_grade(self) -> Grade:
        """How sure the fitness is, a share; see `schemas.published.figures`."""
        ends = self.fitness_low or 0.0, self.fitness_high or 0.0
        return grade_of(self.fitness or 0.0, *ends, "share")

    @property
    def tree(self) -> ProcessTree:
        """The tree."""
        return parse_tree(self.text)

    @property
    def weight(self) -> int:
        """Number of nodes."""
        return sum(1 for _ in self.tree.nodes())

    def to_table(self) -> pa.Table:
        """Returns a row for each node, parents before their children.

        Columns node and parent (int64; null at the root), kind (sequence, exclusive, parallel,
        loop, activity or silent) and activity (string, or null).
        """
        rows: list[tuple[int | None, ProcessTree]] = []

        def visit(node: ProcessTree, parent: int | None) -> None:
            number = len(rows)
            rows.append((parent, node))
            for child in node.children:
                visit(child, number)

        visit(self.tree, None)
        kinds = [
            node.operator or ("silent" if node.label is None else "activity") for _, node in rows
        ]
        return pa.table(
            {
                "node": pa.array(range(len(rows)), pa.int64()),
                "parent": pa.array([parent for parent, _ in rows], pa.int64()),
                "kind": pa.array(kinds, pa.string()),
                "activity": pa.array([node.label for _, node in rows], pa.string()),
            }
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the text, whether it was found, the fitness, the names and the nodes.

        With the fitness come its kind, its interval and its grade, where these are said.
        """
        of_fitness: dict[str, Any] = {}
        if self.fitness_low is not None:
            of_fitness = {
                "fitness_low": self.fitness_low,
                "fitness_high": self.fitness_high,
                "fitness_kind": MEASURED,
                "fitness_usable": self.fitness_grade != "noise",
                "fitness_grade": self.fitness_grade,
            }
        return {
            "tree": self.text,
            "is_found": self.is_found,
            "fitness": self.fitness,
            **of_fitness,
            "activities": self.names.to_pylist(),
            "nodes": self.to_table().to_pylist(),
        }

    @classmethod
    def from_json(cls, body: Any) -> ReleasedTree:
        """Returns the tree that `to_json` gave.

        Raises:
            KeyError, TypeError, TracecloakError: It is none.
        """
        parse_tree(body["tree"])
        names = pa.array(body["activities"], pa.string())
        within = (body.get(f"fitness_{end}") for end in ("low", "high"))
        return cls(names, body["tree"], body["is_found"], body["fitness"], *within)

    def came_out(self) -> Yield:
        """Returns the activities of the tree; none where it follows from the names alone."""
        labels = {node.label for node in self.tree.nodes()} - {None, OTHER}
        return Yield(n_activities=len(labels) if self.is_found else 0)

    def numbers(self, watched: Sequence[Key] | None = None) -> dict[Key, float]:
        """Returns how many ("activities",) and nodes, ("total",), it has, and ("fitness",)."""
        labels = {node.label for node in self.tree.nodes()} - {None}
        seen: dict[Key, float] = {
            ("activities",): float(len(labels)),
            ("total",): float(self.weight),
        }
        return seen if self.fitness is None else {**seen, ("fitness",): self.fitness}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReleasedTree) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]  # holds an array
