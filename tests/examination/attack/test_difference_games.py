"""The difference attack: the paper's example, what trees allow, and the games."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given

from tests.support.keys import randomness
from tests.support.logs import Variant, histogram, read_variants, variant_counts
from tests.support.trees import language, random_tree
from tracecloak.examination.attack.difference_attack import (
    Case,
    exposed,
    guess,
    is_guessed,
    plain_tree,
    steps_of_case,
    steps_of_tree,
    targets,
    with_case,
)
from tracecloak.schemas.models.process_tree import ProcessTree, flower, parse_tree
from tracecloak.schemas.published.guarantee import Adjacency
from tracecloak.schemas.statistics.variants import VariantHistogram

NAMES = "DHMRS"
# Table I: register, hospitalise, medication or surgery or neither, discharge.
PAPER = {tuple("RHMD"): 63, tuple("RHSD"): 25, tuple("RHD"): 12}
TWO_SURGERIES, NOT_IN_HOSPITAL = tuple("RHSSD"), tuple("RMD")


def paper_tree(*more: Variant) -> ProcessTree:
    return plain_tree(histogram({**PAPER, **dict.fromkeys(more, 1)}, NAMES), NAMES)


# --- the paper's example --------------------------------------------------------------------------


def test_the_trees_of_figures_1_and_2() -> None:
    """And that of variant 5."""
    assert str(paper_tree()) == "->( 'R', 'H', X( tau, 'M', 'S' ), 'D' )"
    surgeries = paper_tree(TWO_SURGERIES)
    assert str(surgeries) == "->( 'R', 'H', X( tau, 'M', *( 'S', tau ) ), 'D' )"
    assert steps_of_tree(surgeries) - steps_of_tree(paper_tree()) == {("S", "S")}
    other = paper_tree(NOT_IN_HOSPITAL)
    assert str(other) == "->( 'R', X( tau, 'H' ), X( tau, 'M', 'S' ), 'D' )"
    gained = {("R", "M"), ("R", "S"), ("R", "D")}
    assert steps_of_tree(other) - steps_of_tree(paper_tree()) == gained


@pytest.mark.parametrize("truth", [None, TWO_SURGERIES, NOT_IN_HOSPITAL])
def test_what_jane_had_is_read_off_two_plain_trees(truth: Variant | None) -> None:
    """Whatever came between the two queries, nothing among it; so all three are told apart."""
    after = paper_tree() if truth is None else paper_tree(truth)
    candidates = [None, TWO_SURGERIES, NOT_IN_HOSPITAL]
    for order in itertools.permutations(candidates):
        assert order[guess(paper_tree(), after, order)] == truth


def test_a_case_like_others_changes_no_plain_tree_and_cannot_be_told() -> None:
    usual = tuple("RHMD")
    assert guess(paper_tree(), paper_tree(usual), [None, usual]) == 0
    assert guess(paper_tree(), paper_tree(usual), [usual, None]) == 0


def test_no_tree_allows_nothing() -> None:
    assert guess(None, parse_tree("'A'"), [None, ("B",), ("A",)]) == 2
    assert guess(parse_tree("'A'"), None, [("A",), None]) == 1


# --- what a tree allows ---------------------------------------------------------------------------


def steps_of_words(tree: ProcessTree, max_length: int) -> set[tuple[str | None, str | None]]:
    found: set[tuple[str | None, str | None]] = set()
    for word in language(tree, max_length):
        found |= set(zip((None, *word), (*word, None), strict=True))
    return found


def test_the_steps_of_a_tree_are_those_of_its_words() -> None:
    """By listing all words up to a length that every step of four activities is seen in."""
    for seed in range(60):
        random = np.random.default_rng(seed)
        tree = random_tree(random, "ABCD"[: 2 + seed % 3])
        assert steps_of_tree(tree) == steps_of_words(tree, 8), seed


@pytest.mark.parametrize(
    "text",
    [
        "*( X( tau, 'A' ), 'B' )",
        "*( 'A', X( tau, 'B' ) )",
        "*( X( tau, 'A' ), X( tau, 'B' ) )",
        "*( ->( X( tau, 'A' ), 'B' ), tau )",
        "->( X( tau, 'A' ), X( tau, 'B' ), 'C' )",
        "+( 'A', *( 'B', 'C' ) )",
        "tau",
    ],
)
def test_silent_steps_are_passed_over(text: str) -> None:
    tree = parse_tree(text)
    assert steps_of_tree(tree) == steps_of_words(tree, 9)


def test_a_flower_allows_every_step_and_a_case_its_own() -> None:
    steps = {*itertools.product([*"ABC", None], repeat=2)}
    assert steps_of_tree(flower("ABC")) == steps
    own = {(None, "A"), ("A", "A"), ("A", "B"), ("B", None)}
    assert steps_of_case("AAB") == own
    assert steps_of_case("") == {(None, None)}


@given(variant_counts("ABCD", 5, 6))
def test_the_plain_tree_allows_what_is_in_the_log(counts: dict[Variant, int]) -> None:
    """Every activity, start, end and pair of it."""
    tree = plain_tree(histogram(counts, "ABCD"), "ABCD")
    for variant in counts:
        assert steps_of_case(variant) <= steps_of_tree(tree), (str(tree), variant)


# --- the games ------------------------------------------------------------------------------------

LOG = {tuple("ABC"): 5, tuple("ACB"): 1, tuple("AC"): 1, tuple("DB"): 2, tuple("BB"): 1}


def drawn(
    counts: dict[Variant, int], n: int, names: str = "ABCD", max_length: int | None = None
) -> list:
    found = targets(histogram(counts, names), len(names), 3, max_length, randomness())
    return list(itertools.islice(found, n))


def case_of(variant: Variant, names: str = "ABCD") -> Case:
    return tuple(map(names.index, variant))


@given(variant_counts("ABC", 5, 6))
def test_exposed_cases_are_those_with_a_step_of_their_own(counts: dict[Variant, int]) -> None:
    cases: Counter[tuple[str | None, str | None]] = Counter()
    for variant, n in counts.items():
        for step in steps_of_case(variant):
            cases[step] += n
    variants = histogram(counts)
    own = {v for v in counts if any(cases[step] == 1 for step in steps_of_case(v))}
    in_order = [*read_variants(variants, "ABC")]
    assert {in_order[i] for i in exposed(variants, 3).tolist()} == own


def test_targets_are_the_exposed_cases_in_any_order() -> None:
    """ACB has its C B, and BB its B B; A C is in two cases, its end C in others."""
    found = drawn(LOG, 60)
    assert {target.case for target in found} == {case_of(tuple("ACB")), case_of(tuple("BB"))}
    whole = histogram(LOG, "ABCD")
    for target in found:
        assert with_case(target.rest, target.case) == whole
        assert target.rest.n_cases == 9
        assert target.behaviours == (target.case, *target.made_up)
        assert len(set(target.behaviours)) == 4


def test_without_exposed_cases_any_case_is_a_target_as_often_as_it_comes() -> None:
    """Three of four are A; 50 more or less of 400 come with probability below 1e-7."""
    found = Counter(target.case for target in drawn({("A",): 6, ("B",): 2}, 400))
    assert set(found) == {(0,), (1,)}
    assert 250 < found[0,] < 350


def edits(case: Case) -> set[Case]:
    """All cases with one event repeated, left out or swapped with the next."""
    repeated = {case[: i + 1] + case[i:] for i in range(len(case))}
    shorter = {case[:i] + case[i + 1 :] for i in range(len(case))}
    swapped = set()
    for i in range(len(case) - 1):
        order = [*case]
        order[i], order[i + 1] = order[i + 1], order[i]
        swapped.add(tuple(order))
    return repeated | shorter | swapped | {case}


def test_made_up_cases_are_one_edit_from_a_case_of_the_log() -> None:
    near = set().union(*(edits(case_of(variant)) for variant in LOG))
    made_up = {case for target in drawn(LOG, 200) for case in target.made_up}
    assert made_up <= near - {()}
    assert len(made_up) > len(near) / 2  # they are drawn from all of these


def test_made_up_cases_keep_the_bound_on_their_length() -> None:
    assert {len(c) for t in drawn(LOG, 50, max_length=2) for c in t.made_up} == {1, 2}
    # There is nothing else to make up of one activity that may come once.
    assert {target.made_up for target in drawn({("A",): 5}, 20, "A", 1)} == {()}


def test_targets_follow_from_the_key() -> None:
    assert [t.case for t in drawn(LOG, 30)] == [t.case for t in drawn(LOG, 30)]
    others = targets(histogram(LOG, "ABCD"), 4, 3, None, randomness(1))
    assert [t.made_up for t in drawn(LOG, 30)] != [t.made_up for t in itertools.islice(others, 30)]


@pytest.mark.parametrize(
    ("counts", "adjacency", "candidates"),
    [
        ({"B": 1, "A": 3}, "add_remove", [None, "B"]),
        ({"B": 1, "A": 3, "AA": 2}, "replace_one", ["A", "B"]),
        # Exposed is none; whichever is the target, the other one comes in its place.
        ({"A": 2, "B": 2}, "replace_one", None),
        ({"A": 1}, "add_remove", [None, "A"]),
        ({"A": 1}, "replace_one", ["A"]),
        ({"A": 7}, "replace_one", ["A"]),
    ],
)
def test_who_is_beside_the_target(
    counts: dict[str, int], adjacency: Adjacency, candidates: list[str | None] | None
) -> None:
    log = {tuple(text): n for text, n in counts.items()}
    for target in drawn(log, 5, "AB"):
        found = target.presence(adjacency)
        if candidates is None:
            assert {*found} == {(0,), (1,)} and found[-1] == target.case
        else:
            assert found == tuple(
                None if text is None else case_of(tuple(text), "AB") for text in candidates
            )


def test_the_log_of_one_case_leaves_an_empty_one() -> None:
    (target,) = drawn({("A", "B"): 1}, 1, "AB")
    assert target.rest.n_cases == 0
    assert str(plain_tree(target.rest, "AB")) == "tau"


def test_a_game_on_plain_trees_is_won_where_the_case_is_alone() -> None:
    """All draws of the two questions about Jane, of whom the log has two surgeries in a row."""
    log = histogram({**PAPER, TWO_SURGERIES: 1}, NAMES)
    target = next(targets(log, 5, 3, None, randomness()))
    assert target.case == case_of(TWO_SURGERIES, NAMES)

    def release(variants: VariantHistogram) -> ProcessTree:
        return plain_tree(variants, NAMES)

    questions = (
        target.presence("add_remove"),
        target.presence("replace_one"),
        (target.case, case_of(NOT_IN_HOSPITAL, NAMES)),
    )
    for candidates in questions:
        for truth in (0, 1):
            before = release(target.rest)
            assert is_guessed(target, candidates, truth, before, release, NAMES)
