"""Rules of public models against all short sequences that a model allows."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecloak.anonymizers.queries.order_rules import NamedRules, rules_of_model
from tracecloak.schemas import models
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.models import PetriNet, Transition, net_of_tree, states_of

Words = frozenset[tuple[str, ...]]


def shuffled(left: tuple[str, ...], right: tuple[str, ...]) -> Words:
    if not left or not right:
        return frozenset({left + right})
    return frozenset((left[0], *rest) for rest in shuffled(left[1:], right)) | frozenset(
        (right[0], *rest) for rest in shuffled(left, right[1:])
    )


def words_of(tree: models.ProcessTree) -> Words:
    """All sequences in which no loop goes back more than twice."""
    if tree.operator is None:
        return frozenset({() if tree.label is None else (tree.label,)})
    below = [words_of(child) for child in tree.children]
    if tree.operator == "exclusive":
        return frozenset().union(*below)
    if tree.operator == "loop":
        body, back = below
        once = frozenset(a + b for a in back for b in body)
        again = [frozenset(a + b for a in body for b in once)]
        again.append(frozenset(a + b for a in again[0] for b in once))
        return body.union(*again)
    made: Words = frozenset({()})
    for words in below:
        made = frozenset(
            word
            for a, b in itertools.product(made, words)
            for word in (shuffled(a, b) if tree.operator == "parallel" else {a + b})
        )
    return made


def naive_rules(words: Words) -> NamedRules:
    names = sorted({name for word in words for name in word})

    def pairs(holds: object) -> tuple[tuple[str, str], ...]:
        return tuple(
            (a, b)
            for a, b in itertools.product(names, repeat=2)
            if all(holds(word, a, b) for word in words)  # type: ignore[operator]
        )

    return NamedRules(
        activities=tuple(names),
        begins=tuple(sorted({word[0] for word in words if word})),
        never=pairs(lambda w, a, b: (a, b) not in set(itertools.combinations(w, 2))),
        always_follows=pairs(lambda w, a, b: a not in w or b in w[w.index(a) + 1 :]),
        always_precedes=pairs(lambda w, a, b: b not in w or a in w[: w.index(b)]),
    )


leaves = st.one_of(st.sampled_from("ABC").map(models.leaf), st.just(models.SILENT))


def trees(
    children: st.SearchStrategy[models.ProcessTree],
) -> st.SearchStrategy[models.ProcessTree]:
    several = st.lists(children, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(
            lambda operator, below: models.ProcessTree(operator, None, below),
            st.sampled_from(["sequence", "exclusive", "parallel"]),
            several,
        ),
        st.builds(models.loop, children, children),
    )


@given(st.recursive(leaves, trees, max_leaves=4))
@settings(max_examples=150, deadline=None)
def test_rules_of_a_tree_are_those_of_its_sequences(tree: models.ProcessTree) -> None:
    words = words_of(tree)
    if words == {()}:
        with pytest.raises(UsageError, match="no activity on any way"):
            rules_of_model(net_of_tree(tree))
        return
    assert rules_of_model(net_of_tree(tree)) == naive_rules(words)


def test_a_model_of_too_many_states_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = net_of_tree(models.parallel(*map(models.leaf, "ABCDEF")))
    assert states_of(wide).n_states == 2 + 2**6
    monkeypatch.setattr(models, "MAX_STATES", 60)
    with pytest.raises(UsageError, match="more than 60 states: simplify it"):
        states_of(wide)
    unbounded = PetriNet((Transition("A", {"p": 1}, {"p": 2}),), {"p": 1}, {"p": 2})
    with pytest.raises(UsageError, match="more than 60 states"):
        states_of(unbounded)
