"""Process trees in files: pm4py reads what the tree allows; in pictures nothing lies on another."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from tests.support.hostile_names import HOSTILE
from tests.support.svg import SVG, harmless
from tests.support.trees import Word, language, random_tree, trees
from tracecloak.anonymizers.queries.order_rules import rules_of_model
from tracecloak.pipelines.configuration.model_file import read_model_rules
from tracecloak.schemas import models
from tracecloak.schemas.published.graph import ReleasedTree
from tracecloak.transforms.formats.xes_writer import sanitise
from tracecloak.transforms.models import tree_forms

WRITERS = {
    "ptml": tree_forms.write_ptml,
    "pnml": tree_forms.write_pnml,
    "bpmn": tree_forms.write_bpmn,
}


def some_trees(n: int) -> list[models.ProcessTree]:
    random = np.random.default_rng(8)
    made = [
        models.normalise(random_tree(random, "ABCDE"[: random.integers(1, 6)])) for _ in range(n)
    ]
    return [*made, models.parse_tree("tau"), models.normalise(models.flower("ABC"))]


def pm4py_module() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("pm4py")


def read_by_pm4py(path: Path) -> set[Word]:
    """Words up to 4 activities of what pm4py reads, through its conversions to Petri nets."""
    pm4py = pm4py_module()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if path.suffix == ".ptml":
            net, first, last = pm4py.convert_to_petri_net(pm4py.read_ptml(str(path)))
        elif path.suffix == ".pnml":
            net, first, last = pm4py.read_pnml(str(path))
        else:
            net, first, last = pm4py.convert_to_petri_net(pm4py.read_bpmn(str(path)))
    made = tuple(
        models.Transition(
            t.label,
            {arc.source.name: arc.weight for arc in t.in_arcs},
            {arc.target.name: arc.weight for arc in t.out_arcs},
        )
        for t in net.transitions
    )
    markings = ({place.name: n for place, n in marking.items()} for marking in (first, last))
    return words_of(models.PetriNet(made, *markings), 4)


def words_of(net: models.PetriNet, max_length: int) -> set[Word]:
    model = models.states_of(net)
    silent = model.codes < 0
    start = np.zeros(model.n_states, bool)
    start[0] = True
    found: set[Word] = set()
    reached: dict[Word, np.ndarray] = {(): model.after(start, silent)}
    for _ in range(max_length + 1):
        found |= {word for word, at in reached.items() if (at & model.is_final).any()}
        further: dict[Word, np.ndarray] = {}
        for (word, at), (code, label) in itertools.product(
            reached.items(), enumerate(model.labels)
        ):
            steps = (model.codes == code) & at[model.sources]
            if steps.any():
                then = np.zeros(model.n_states, bool)
                then[model.targets[steps]] = True
                further[(*word, label)] = model.after(then, silent)
        reached = further
    return found


@pytest.mark.filterwarnings("ignore")  # of pm4py's dependencies
@pytest.mark.parametrize("ending", WRITERS)
def test_pm4py_reads_what_the_tree_allows(tmp_path: Path, ending: str) -> None:
    for i, tree in enumerate(some_trees(15)):
        path = tmp_path / f"{i}.{ending}"
        path.write_text(WRITERS[ending](tree, "a title"), encoding="utf-8")
        assert read_by_pm4py(path) == language(tree, 4), str(tree)


@pytest.mark.parametrize("ending", WRITERS)
def test_our_own_reader_gives_the_same_rules(tmp_path: Path, ending: str) -> None:
    for i, tree in enumerate(some_trees(15)):
        if tree.is_silent:
            continue
        path = tmp_path / f"{i}.{ending}"
        path.write_text(WRITERS[ending](tree, "a title"), encoding="utf-8")
        assert read_model_rules(str(path)) == rules_of_model(models.net_of_tree(tree))


@pytest.mark.parametrize("ending", WRITERS)
def test_names_do_no_harm(ending: str) -> None:
    """Every name comes back as XML can hold it, and equal trees are equal bytes."""
    tree = models.sequence(*map(models.leaf, HOSTILE))
    text = WRITERS[ending](tree, HOSTILE[0])
    assert text == WRITERS[ending](tree, HOSTILE[0])
    root = ElementTree.fromstring(text.encode())
    found = {element.get("name") for element in root.iter()} | {e.text for e in root.iter()}
    assert {sanitise(name) for name in HOSTILE if name} <= found
    assert not any("script" in str(element.tag) for element in root.iter())


NAMES_OF_TREE = {
    "Applicant's visit": "Applicant\u2019s visit", "Check (A, B)": "Check (A, B)", "Close": "Close",
    "it's": "it\u2019s 2", "it\u2019s": "it\u2019s", "it's 2": "it\u2019s 2 2", "'": "\u2019",
    "-> X( tau": "-> X( tau", "back\\": "back\u29f5", "two\nlines": "two lines",
    " blank ": " blank ",
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_the_text_form_is_pm4pys_and_json_keeps_the_names(tmp_path: Path) -> None:
    pm4py = pm4py_module()
    tree = models.sequence(*map(models.leaf, NAMES_OF_TREE), models.flower(NAMES_OF_TREE))
    product = ReleasedTree(pa.array(NAMES_OF_TREE), str(tree), True, None)
    text = tree_forms.forms_of_tree(product, "t", "p")["tree"].decode()
    theirs = pm4py.parse_process_tree(text)
    assert [child.label for child in theirs.children[:-1]] == list(NAMES_OF_TREE.values())
    assert len(set(models.parse_tree(text).labels)) == len(NAMES_OF_TREE)
    assert [node.label for node in theirs.children[-1].children[1].children] == [
        child.label for child in models.parse_tree(text).children[-1].children[1].children
    ]
    assert ReleasedTree.from_json(product.to_json()).tree == tree


# --- pictures -------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(trees("ABCDEFGH"))
def test_boxes_are_apart_and_lines_go_round_them(tree: models.ProcessTree) -> None:
    diagram = tree_forms.Diagram(tree)
    boxes = [(n.x, n.y, n.x + n.width, n.y + n.height) for n in diagram.nodes]
    for left, top, right, bottom in boxes:
        assert left >= -0.01 and top >= -0.01
        assert right <= diagram.width + 0.01 and bottom <= diagram.height + 0.01
    for a, b in itertools.combinations(boxes, 2):
        assert a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1]
    for flow in diagram.flows:
        for (x, y), (to_x, to_y) in itertools.pairwise(flow.points):
            assert abs(x - to_x) < 0.01 or abs(y - to_y) < 0.01  # right angles
            piece = min(x, to_x), min(y, to_y), max(x, to_x), max(y, to_y)
            for left, top, right, bottom in boxes:
                inside = (piece[0] < right - 0.1 and piece[2] > left + 0.1
                          and piece[1] < bottom - 0.1 and piece[3] > top + 0.1)  # fmt: skip
                assert not inside
        for number, (x, y) in ((flow.source, flow.points[0]), (flow.target, flow.points[-1])):
            left, top, right, bottom = boxes[number]
            assert left - 0.01 <= x <= right + 0.01 and top - 0.01 <= y <= bottom + 0.01
    assert [n.label for n in diagram.nodes if n.label] == list(tree.labels)


def test_the_picture_is_one_file_that_needs_nothing() -> None:
    tree = models.sequence(
        models.parse_tree("*( 'A', X( 'B', +( 'C', 'D' ) ) )"), *map(models.leaf, HOSTILE[:-1])
    )
    text = tree_forms.write_tree_svg(tree, "title <&>", "what is promised " * 30)
    assert text == tree_forms.write_tree_svg(tree, "title <&>", "what is promised " * 30)
    root = harmless(text)
    kinds = [e.get("class") for e in root.iter(f"{SVG}g") if e.get("class")]
    assert kinds.count("task") == len(tree.labels) and kinds.count("parallel") == 2
    assert kinds.count("exclusive") == 4 and kinds.count("start") == kinds.count("end") == 1
    assert "#b0653a" in text  # the way back
    words = [e.text for e in root.iter(f"{SVG}text")]
    assert "title <&>" in words and {"A", "B", "C", "D"} <= set(words)
    names = [e.text for g in root.iter(f"{SVG}g") if g.get("class") == "task" for e in g[2:]]
    assert max(len(name or "") for name in names) < 60


def test_a_deep_tree_can_be_written() -> None:
    tree = models.leaf("A")
    for i in range(90):
        tree = models.sequence(models.leaf(f"B{i}"), models.optional(tree))
    for write in (*WRITERS.values(), lambda t, title: tree_forms.write_tree_svg(t, title, "")):
        assert len(write(tree, "deep")) > 1000
