"""Play-out against Algorithm 2 followed step by step, and what no play-out may do.

Statistical tests reject at ALPHA = 1e-9 each and name their n and their control.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest

from tests.support.chi_square import ALPHA, p_value_of_law
from tests.support.keys import randomness
from tracecloak.anonymizers.queries.sapa import MAX_ARCS, play_out, playable
from tracecloak.schemas.errors import UsageError

Arc = tuple[str, str]
Case = tuple[str, ...]


def played(arcs: Mapping[Arc, int], number: int = 0, names: str = "ABCDEF") -> list[Case]:
    """The cases of a graph, by the names of their activities; ▶ and ■ are START and END."""
    labels = [*names, "▶", "■"]
    code = {label: i for i, label in enumerate(labels)}
    offsets, codes = play_out(
        np.array([code[a] for a, _ in arcs], np.int64),
        np.array([code[b] for _, b in arcs], np.int64),
        np.array(list(arcs.values()), np.int64),
        len(names),
        len(names) + 1,
        randomness(),
        f"play {number}",
    )
    assert offsets.dtype == np.int64 and codes.dtype == np.int32
    assert offsets[0] == 0 and offsets[-1] == len(codes)
    return [
        tuple(labels[c] for c in codes[first:last])
        for first, last in itertools.pairwise(offsets.tolist())
    ]


def exact_law(arcs: Mapping[Arc, int], goes_back: bool = True) -> dict[tuple[Case, ...], Fraction]:
    """The law of the cases, in any order, by following Algorithm 2 through every choice it has."""
    law: Counter[tuple[Case, ...]] = Counter()

    def step(left: dict[Arc, int], path: Case, made: tuple[Case, ...], chance: Fraction) -> None:
        last = path[-1]
        going = {arc: n for arc, n in left.items() if arc[0] == last and n > 0}
        total = sum(going.values())
        for arc, n in going.items():
            rest = {**left, arc: n - 1}
            if arc[1] == "■":
                step(rest, ("▶",), (*made, path[1:]), chance * n / total)
            else:
                step(rest, (*path, arc[1]), made, chance * n / total)
        if going:
            return
        if last == "▶":  # the empty trace, and START has nothing left
            law[tuple(sorted(made))] += chance
            return
        kept = {a: n for a, n in left.items() if a[1] != last}
        step(kept, path[:-1] if goes_back else ("▶",), made, chance)

    step(dict(arcs), ("▶",), (), Fraction(1))
    return dict(law)


GRAPHS: dict[str, dict[Arc, int]] = {
    "without dead ends": {
        ("▶", "A"): 2, ("▶", "B"): 1, ("A", "B"): 2, ("B", "A"): 1, ("A", "■"): 1, ("B", "■"): 2,
    },
    "with dead ends": {
        ("▶", "A"): 3, ("A", "B"): 2, ("A", "C"): 2, ("B", "■"): 1, ("B", "A"): 1, ("C", "■"): 1,
    },
    "with loops": {("▶", "A"): 2, ("A", "A"): 3, ("A", "B"): 1, ("A", "■"): 2, ("B", "B"): 2},
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "arc"),
    [
        ("without dead ends", ("▶", "A")),
        ("with dead ends", ("A", "C")),
        ("with loops", ("A", "A")),
    ],
)
def test_cases_have_the_law_of_the_algorithm(name: str, arc: Arc) -> None:
    """With n = 6000; controls: a count that is one larger, and cases given up in dead ends."""
    arcs = GRAPHS[name]
    law = exact_law(arcs)
    assert sum(law.values()) == 1
    assert len(law) >= 3
    sample: Counter[tuple[Case, ...]] = Counter(
        tuple(sorted(played(arcs, number))) for number in range(6000)
    )
    assert p_value_of_law(sample, {k: float(v) for k, v in law.items()}) > ALPHA
    more = exact_law({**arcs, arc: arcs[arc] + 1})
    assert p_value_of_law(sample, {k: float(v) for k, v in more.items()}) < ALPHA
    if name == "with dead ends":
        given_up = exact_law(arcs, goes_back=False)
        assert p_value_of_law(sample, {k: float(v) for k, v in given_up.items()}) < ALPHA


def test_the_papers_table_2_ends_in_two_variants_of_16_cases() -> None:
    """Surgery is left for release 16 times, so no more cases end; antibiotics is a dead end."""
    table_2 = {
        ("▶", "R"): 44, ("▶", "T"): 3, ("R", "T"): 52, ("T", "S"): 30, ("T", "A"): 15,
        ("S", "L"): 16, ("L", "■"): 51,
    }  # fmt: skip
    met = set()
    for number in range(50):
        cases = played(table_2, number, "ACLRST")
        assert len(cases) == 16
        assert set(cases) <= {tuple("RTSL"), tuple("TSL")}
        met |= set(cases)
    assert met == {tuple("RTSL"), tuple("TSL")}


def test_cases_of_millions_of_steps_are_walked_without_recursion() -> None:
    [case] = played({("▶", "A"): 1, ("A", "A"): 10**6, ("A", "B"): 1, ("B", "■"): 1})
    assert 2 <= len(case) <= 10**6 + 2


def test_too_many_arcs_are_refused_with_the_mend_and_without_their_number() -> None:
    with pytest.raises(UsageError, match=rf"more than {MAX_ARCS:,} .*raise epsilon") as raised:
        played({("▶", "A"): MAX_ARCS, ("A", "■"): 2})
    with pytest.raises(UsageError) as other:
        played({("▶", "A"): 2**62, ("A", "■"): 2**62})
    assert str(other.value) == str(raised.value)


def test_or_so_many_are_played_out_in_proportion() -> None:
    few = np.array([0, 3, MAX_ARCS - 3])
    assert playable(few) is few
    for many in ([MAX_ARCS, 2, 0], [2**62, 2**62, 2**61], [2**40] * 4096):
        counts = np.array(many)
        kept = playable(counts)
        assert kept.dtype == np.int64 and (kept >= 0).all()
        assert 0.99 * MAX_ARCS < kept.sum() <= MAX_ARCS
        shares = counts / counts.astype(float).sum()
        assert np.abs(kept - shares * MAX_ARCS).max() <= 2
