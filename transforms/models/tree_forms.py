"""The files of a released tree beside Parquet and JSON, by the endings of their names."""

from __future__ import annotations

from tracecloak.schemas.published.tree import ReleasedTree
from tracecloak.transforms.models.tree_models import write_bpmn, write_pnml, write_ptml
from tracecloak.transforms.models.tree_svg import write_tree_svg


def forms_of_tree(product: ReleasedTree, title: str, promise: str) -> dict[str, bytes]:
    """Returns a tree as text, PTML, PNML, BPMN and as an SVG picture with the promise below."""
    tree = product.tree
    texts = {
        "tree": f"{product.text}\n",
        "ptml": write_ptml(tree, title),
        "pnml": write_pnml(tree, title),
        "bpmn": write_bpmn(tree, title),
        "svg": write_tree_svg(tree, title, promise),
    }
    return {ending: text.encode() for ending, text in texts.items()}
