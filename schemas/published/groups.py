"""The groups of a release's activities, and the graph in which each group is one node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.product import ReleasedProduct


@dataclass(frozen=True, eq=False)
class ReleasedGroups(ReleasedProduct):
    """Groups and how cases go from one to another.

    Attributes:
        activities: string[n], every activity of the vocabulary, in its order.
        groups: string[n], the group of each.
        graph: Its nodes are the groups. Counts are those of the released log, and intervals hold
            what was counted of the original, as of the graph of activities.
    """

    wire_name: ClassVar[str] = "released-groups"

    activities: pa.StringArray
    groups: pa.StringArray
    graph: ReleasedGraph

    @property
    def members(self) -> Mapping[str, str]:
        """The group of each activity."""
        return dict(zip(self.activities.to_pylist(), self.groups.to_pylist(), strict=True))

    def to_table(self) -> pa.Table:
        """Returns the edges, as `ReleasedGraph` does: sources and targets are groups."""
        return self.graph.to_table()

    def to_json(self) -> dict[str, Any]:
        """Returns the group of each activity, and the graph, as JSON values."""
        return {"members": dict(self.members), "graph": self.graph.to_json()}

    @classmethod
    def from_json(cls, body: Any) -> ReleasedGroups:
        """Returns the groups that `to_json` gave.

        Raises:
            KeyError, TypeError, ValueError: They are none.
        """
        members = body["members"]
        names, groups = (pa.array([*of], pa.string()) for of in (members, members.values()))
        return cls(names, groups, ReleasedGraph.from_json(body["graph"]))
