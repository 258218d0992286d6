"""What a page shows of a released process tree, as JSON values."""

from __future__ import annotations

from typing import Any

from tracecloak.schemas.published.tree import ReleasedTree
from tracecloak.transforms.models.plain_names import plain_name


def tree_data(tree: ReleasedTree) -> list[dict[str, Any]]:
    """Returns the nodes of a tree, parents before their children."""
    rows: list[dict[str, Any]] = tree.to_table().to_pylist()
    return [
        {
            "parent": row["parent"],
            "kind": row["kind"],
            "activity": None if row["activity"] is None else plain_name(row["activity"]),
        }
        for row in rows
    ]
