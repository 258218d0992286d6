"""Candidates that are left across two releases, against an enumeration of all assignments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.correspondence_naive import best_of_all
from tracecloak.examination.linkage.pair_of_releases import Classes, left
from tracecloak.schemas.errors import UsageError


def is_below(above: int, own: int, parents: Sequence[int]) -> bool:
    while own >= 0:
        if own == above:
            return True
        own = parents[own]
    return False


def records(numbers: Sequence[int], found: Sequence[int]) -> list[tuple[int, bool]]:
    """Each record's class, and whether it matches; the first ones of a class do."""
    return [(c, i < found[c]) for c, n in enumerate(numbers) for i in range(n)]


@st.composite
def small_classes(draw: st.DrawFn) -> tuple[Classes, list[int], list[int]]:
    n = draw(st.integers(1, 4))
    parents = [draw(st.integers(-1, c - 1)) for c in range(n)]
    earlier = [draw(st.integers(0, 2)) for _ in range(n)]
    later = [draw(st.integers(0, 3)) for _ in range(n)]
    assume(sum(earlier) <= 4 and sum(later) <= 6)
    found = [[draw(st.integers(0, own)) for own in numbers] for numbers in (earlier, later)]
    who = draw(st.sampled_from(["all", "roots", "none"]))
    vanishing = [who == "all" or (who == "roots" and parent < 0) for parent in parents]
    arrays = [np.array(own) for own in (parents, earlier, later, vanishing)]
    return Classes(*arrays), found[0], found[1]


@settings(deadline=None, max_examples=80)
@given(small_classes())
def test_what_is_left_is_the_most_of_all_assignments(
    case: tuple[Classes, list[int], list[int]],
) -> None:
    classes, known, sought = case
    parents = classes.parents.tolist()
    earlier = records(classes.earlier.tolist(), known)
    later = records(classes.later.tolist(), sought)
    expected = best_of_all(
        [own[1] for own in earlier],
        [own[1] for own in later],
        lambda i, j: is_below(earlier[i][0], later[j][0], parents),
        lambda i: bool(classes.may_vanish[earlier[i][0]]),
    )
    pieces = [np.array(own).reshape(-1, 1) for own in (known, sought)]
    if expected is None:
        with pytest.raises(UsageError, match="has no counterpart in the later one"):
            left(classes, *pieces)
        return
    counted = left(classes, *pieces)
    assert (counted.both[0], counted.new[0], counted.either[0]) == expected


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_classes_by_sensitive_values_have_the_crack_sizes_of_the_paper(data: st.DataObject) -> None:
    """Fung et al., the lemmas on F-, C- and B-attacks, summed over sensitive values."""
    n = data.draw(st.integers(1, 4))
    later = [data.draw(st.integers(0, 9)) for _ in range(n)]
    earlier = [data.draw(st.integers(0, own)) for own in later]
    known = [data.draw(st.integers(0, own)) for own in earlier]
    sought = [data.draw(st.integers(0, own)) for own in later]
    classes = Classes(np.full(n, -1), np.array(earlier), np.array(later), np.zeros(n, bool))
    counted = left(classes, *(np.array(own).reshape(-1, 1) for own in (known, sought)))
    each = list(zip(earlier, later, known, sought, strict=True))
    forward = sum(known) - sum(g1 - min(g1, g2) for _, _, g1, g2 in each)
    cross = sum(sought) - sum(g2 - min(g1, g2) for _, _, g1, g2 in each)
    assert counted.both[0] == forward == cross
    backward = sum(sought) - sum(max(0, g1 - (g2 - own)) for g1, g2, _, own in each)
    assert counted.new[0] == backward


def test_an_example_in_the_manner_of_the_paper() -> None:
    """Five lawyers of Europe in the first release, ten professionals in the second.

    The first release has three with flu and two with diabetes; all of them may be Alice, a lawyer
    of France who is in both. The second has six professionals of France, four with flu and two with
    diabetes, and elsewhere one with flu and three with diabetes. Of the four with flu three have a
    counterpart at most, so Alice is among 5 and not among 6. Bob is of France, too, and new. The
    three with flu of the first release are among the five of the second, of which one is elsewhere:
    two at least are of France, so 4 of 6 are left.
    """
    classes = Classes(np.array([-1, -1]), np.array([3, 2]), np.array([5, 5]), np.zeros(2, bool))
    counted = left(classes, np.array([[3], [2]]), np.array([[4], [2]]))
    assert counted.both.tolist() == [5]
    assert counted.new.tolist() == [4]
    # Who does not know whether Alice is new has all six.
    assert counted.either.tolist() == [6]


def test_a_case_that_goes_on_takes_the_place_of_those_below_it() -> None:
    """A B goes on as A B C or A B D; the one that showed A B C already needs the first itself."""
    parents = np.array([-1, 0, 0])
    classes = Classes(parents, np.array([1, 1, 0]), np.array([0, 1, 1]), np.zeros(3, bool))
    # Known of the victim is A, in both releases: two, and two.
    everything = left(classes, np.array([[1], [1], [0]]), np.array([[0], [1], [1]]))
    assert everything.both.tolist() == [2]
    # Known is that it had no C at first and is A B C now: nobody can be both.
    nobody = left(classes, np.array([[1], [0], [0]]), np.array([[0], [1], [0]]))
    assert nobody.both.tolist() == [0]
    assert nobody.new.tolist() == [0]


def test_cases_may_vanish_everywhere_or_at_roots() -> None:
    with pytest.raises(ValueError, match="for all classes or for roots alone"):
        Classes(np.array([-1, 0]), np.ones(2), np.ones(2), np.array([False, True]))
    none: Iterator[np.ndarray] = (np.zeros(0, np.int64) for _ in range(3))
    empty = Classes(*none, np.zeros(0, bool))
    assert left(empty, np.zeros((0, 2), int), np.zeros((0, 2), int)).both.tolist() == [0, 0]
