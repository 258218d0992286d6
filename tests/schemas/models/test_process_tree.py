"""Process trees: their text, their simpler forms, and that neither changes what they allow."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.trees import language, trees
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.models import (
    MAX_DEPTH,
    SILENT,
    ProcessTree,
    exclusive,
    leaf,
    loop,
    normalise,
    parallel,
    parse_tree,
    sequence,
)
from tracecloak.schemas.published.graph import ReleasedTree

A, B, C = leaf("A"), leaf("B"), leaf("C")


@pytest.mark.parametrize(
    ("text", "character"),
    [
        ("", 0), ("->", 0), ("->( 'A'", 7), ("->( 'A' 'B' )", 7), ("'A", 0), (r"'A\n'", 0),
        ("'A' )", 3), ("->( 'A' ( 'B' )", 7), ("O( 'A', 'B' )", 0), ("->( )", 3),
    ],
)  # fmt: skip
def test_what_is_no_tree_is_refused_with_the_place(text: str, character: int) -> None:
    with pytest.raises(UsageError, match=f"after character {character}$"):
        parse_tree(text)


def test_impossible_nodes_are_refused() -> None:
    with pytest.raises(UsageError, match="two children, got"):
        parse_tree("*( 'A', 'B', 'C' )")
    with pytest.raises(UsageError, match="needs children: sequence"):
        ProcessTree("sequence")
    with pytest.raises(UsageError, match="no label"):
        ProcessTree("loop", "A", (A, B))
    with pytest.raises(UsageError, match="no children"):
        ProcessTree(None, "A", (B,))
    deep = "X( " * (MAX_DEPTH + 1) + "tau" + " )" * (MAX_DEPTH + 1)
    with pytest.raises(UsageError, match="within one another"):
        parse_tree(deep)
    assert parse_tree(deep.removeprefix("X( ").removesuffix(" )")).is_nullable


@settings(max_examples=150, deadline=None)
@given(trees(), st.text(min_size=1, max_size=5))
def test_text_gives_the_tree_back(tree: ProcessTree, label: str) -> None:
    whole = sequence(tree, leaf(label))
    assert parse_tree(str(whole)) == whole


@settings(max_examples=150, deadline=None)
@given(trees("ABCD"))
def test_a_simpler_form_allows_the_same_and_has_none_simpler(tree: ProcessTree) -> None:
    simple = normalise(tree)
    assert language(simple, 6) == language(tree, 6)
    assert normalise(simple) == simple
    assert simple.is_nullable == tree.is_nullable == (() in language(tree, 0))
    assert sorted(simple.labels) == sorted(tree.labels)


def test_what_becomes_simpler() -> None:
    assert normalise(sequence(A, sequence(SILENT, B), SILENT)) == sequence(A, B)
    assert normalise(exclusive(B, A, SILENT, exclusive(SILENT, A))) == exclusive(SILENT, A, B)
    assert normalise(exclusive(loop(SILENT, A), SILENT)) == loop(SILENT, A)
    assert normalise(parallel(C, parallel(B, A), SILENT)) == parallel(A, B, C)
    assert normalise(loop(loop(A, SILENT), SILENT)) == loop(A, SILENT)
    assert normalise(loop(SILENT, SILENT)) == SILENT
    # This one leaves something out if it is simplified.
    kept = loop(loop(A, B), SILENT)
    assert normalise(kept) == kept


def test_a_released_tree_lists_its_nodes() -> None:
    tree = sequence(A, exclusive(SILENT, B))
    released = ReleasedTree(pa.array(["A", "B", "C"]), str(tree), True, 0.5)
    assert released.tree == tree
    assert released.to_table().to_pylist() == [
        {"node": 0, "parent": None, "kind": "sequence", "activity": None},
        {"node": 1, "parent": 0, "kind": "activity", "activity": "A"},
        {"node": 2, "parent": 0, "kind": "exclusive", "activity": None},
        {"node": 3, "parent": 2, "kind": "silent", "activity": None},
        {"node": 4, "parent": 2, "kind": "activity", "activity": "B"},
    ]
    body = released.to_json()
    assert body["activities"] == ["A", "B", "C"] and body["fitness"] == 0.5
    assert released == ReleasedTree(pa.array(["A", "B", "C"]), str(tree), True, 0.5)
    assert released != ReleasedTree(pa.array(["A", "B", "C"]), str(tree), False, 0.5)
