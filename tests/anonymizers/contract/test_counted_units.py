"""Sets of counted units: what is one unit, how pieces merge, what bytes say, what is kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.books import KEY, batch, units
from tests.support.logs import event_logs, plain, trace_batch
from tracecloak.anonymizers.contract.case_digests import CountedUnits
from tracecloak.schemas.errors import UsageError

WHOSE = {"c1": "p", "c2": "p", "c3": "q", "c4": "q", "c5": "r"}

both_kinds = pytest.mark.parametrize("by_individual", [False, True], ids=["cases", "individuals"])


def whose(by_individual: bool) -> dict[str, str] | None:
    return WHOSE if by_individual else None


@both_kinds
@given(
    log=event_logs(max_events=20),
    dealt=st.lists(st.integers(0, 3), min_size=5, max_size=5),
    random=st.randoms(use_true_random=False),
)
def test_parts_merge_to_the_whole_in_any_order_and_grouping(by_individual, log, dealt, random):
    """The laws of `tests/schemas/arrays/test_merging.py`; parts may share cases beside."""

    def counted(events):
        made = trace_batch(events, "ABC", whose(by_individual))
        return CountedUnits.from_traces(made, KEY, by_individual)

    whole = counted(log)
    parts = [[e for e in log if dealt[int(e[0][1:]) - 1] == number] for number in range(4)]
    pieces = [counted(part) for part in parts]
    before = [plain(piece) for piece in pieces]
    nothing = CountedUnits.merge(())
    assert plain(CountedUnits.merge(pieces)) == plain(whole)
    assert plain(CountedUnits.merge([nothing, *pieces, whole, *pieces])) == plain(whole)
    random.shuffle(pieces)
    nested = CountedUnits.merge([CountedUnits.merge(pieces[:2]), CountedUnits.merge(pieces[2:])])
    assert plain(nested) == plain(whole)
    assert sorted(map(str, map(plain, pieces))) == sorted(map(str, before))
    assert plain(CountedUnits.from_bytes(whole.to_bytes())) == plain(whole)
    assert whole.weight == len({e[0] for e in log}) == len(whole.digests)


def test_one_case_id_of_two_individuals_is_two_units():
    """Catches a set by case ids alone, which would count one individual for the other."""
    of_p, of_q = units(["c"], {"c": "p"}), units(["c"], {"c": "q"})
    assert CountedUnits.merge([of_p, of_q]).weight == 2
    assert not of_p.holds(of_q.digests).any()
    assert of_p.kept(batch(["c"], {"c": "q"}), KEY).n_cases == 0


@given(
    n=st.integers(0, 60),
    n_distinct=st.integers(1, 4),
    n_columns=st.sampled_from([2, 4]),
    number=st.integers(0, 99),
)
def test_rows_are_held_that_are_in_the_set_also_where_words_agree(n, n_distinct, n_columns, number):
    """Against Python's sets, with words so few that many agree, as those of digests never do."""
    generator = np.random.default_rng(number)
    rows = generator.integers(0, n_distinct, (n, n_columns)).astype(np.uint64)
    asked = generator.integers(0, n_distinct, (20, n_columns)).astype(np.uint64)
    some = CountedUnits.of(rows)
    expected = set(map(tuple, rows.tolist()))
    assert list(map(tuple, some.digests.tolist())) == sorted(expected)
    assert some.holds(asked).tolist() == [tuple(row) in expected for row in asked.tolist()]
    firsts = [row[:2] for row in expected]
    assert some.cases_of(asked[:, :2]).tolist() == [
        firsts.count(tuple(row)) for row in asked[:, :2].tolist()
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\2" + b"1" * 15,
        b"\3" + b"1" * 24,
        b"\4",
        b"\2" + b"\2" * 16 + b"\1" * 16,
        b"\2" + b"\1" * 32,
    ],
    ids=["nothing", "half a row", "other columns", "empty of individuals", "order", "twice"],
)
def test_other_bytes_are_no_set(data):
    with pytest.raises(ValueError):
        CountedUnits.from_bytes(data)


def test_sets_of_two_kinds_and_individuals_that_nobody_names_are_told():
    for mixed in (
        lambda: CountedUnits.merge([units(["c1"]), units(["c1"], WHOSE)]),
        lambda: units(["c1"]).holds(units(["c1"], WHOSE).digests),
        lambda: CountedUnits.from_traces(batch(["c1"]), KEY, True),
    ):
        with pytest.raises(UsageError, match="individuals"):
            mixed()
