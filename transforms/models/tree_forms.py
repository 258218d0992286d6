"""The files of a released tree beside Parquet and JSON, by the endings of their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tracecloak.schemas.models.process_tree import ProcessTree
from tracecloak.schemas.published.tree import ReleasedTree
from tracecloak.transforms.models.tree_models import write_bpmn, write_pnml, write_ptml
from tracecloak.transforms.models.tree_svg import write_tree_svg


def forms_of_tree(product: ReleasedTree, title: str, promise: str) -> dict[str, bytes]:
    """Returns a tree as text, PTML, PNML, BPMN and as an SVG picture with the promise below."""
    tree = product.tree
    texts = {
        "tree": f"{_named_for_pm4py(tree, product.names.to_pylist())}\n",
        "ptml": write_ptml(tree, title),
        "pnml": write_pnml(tree, title),
        "bpmn": write_bpmn(tree, title),
        "svg": write_tree_svg(tree, title, promise),
    }
    return {ending: text.encode() for ending, text in texts.items()}


# pm4py's parser has no escapes, and takes the end of a line for a blank.
_NOT_IN_PM4PY = str.maketrans({"'": "\u2019", "\\": "\u29f5", "\n": " ", "\r": " "})


def _named_for_pm4py(tree: ProcessTree, others: Iterable[str]) -> ProcessTree:
    """Returns a tree whose text form pm4py reads, with a number where two names would be one.

    Args:
        tree: As it is.
        others: Names that the tree need not have, and that none of it gets.
    """
    names = {name: name.translate(_NOT_IN_PM4PY) for name in (*tree.labels, *others)}
    taken = {name for name, plain in names.items() if name == plain}
    for name, plain in names.items():
        if name != plain:
            ways = (plain, *(f"{plain} {number}" for number in range(2, len(names) + 2)))
            names[name] = next(way for way in ways if way not in taken)
            taken.add(names[name])
    return _renamed(tree, names)


def _renamed(tree: ProcessTree, names: Mapping[str, str]) -> ProcessTree:
    label = None if tree.label is None else names[tree.label]
    return ProcessTree(
        tree.operator, label, tuple(_renamed(child, names) for child in tree.children)
    )
