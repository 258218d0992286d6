"""`pripel-rigorous` is `private-log` with the length and the pruning of PRIPEL."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from tests.support.keys import release_key
from tests.support.logs import trace_batch
from tests.support.rounds import rows_of
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.logs.private_log import PripelRigorous, PripelRigorousParams, PrivateLog
from tracecloak.schemas.events.traces import TraceBatch

METHOD = PripelRigorous()
PUBLIC: dict[str, Any] = {
    "epsilon": "4",
    "vocabulary": ("A", "B", "C"),
    "first_date": "1970-01-01",
    "last_date": "1970-12-31",
    "l2_clip": "4",
    "variants": "sparse-histogram",
}


def release(method: PrivateLog, **params: Any) -> TraceBatch:
    log = trace_batch({str(i): ("A B C", "A C", "B")[i % 7 % 3] for i in range(700)})
    given = method.Params(**PUBLIC, **params)
    [made] = anonymise([log], method, given, release_key(), "r", "c").traces
    return made


def test_without_pruning_it_is_private_log_with_that_length() -> None:
    own = release(METHOD, max_prefix_length=2)
    other = release(PrivateLog(), max_trace_length=2)
    assert own.n_cases > 600
    assert rows_of([own]) == rows_of([other])


def test_variants_of_fewer_cases_are_left_out_and_others_stay() -> None:
    """700 cases: 300 of A B C, 200 each of the others."""
    whole = release(METHOD, max_prefix_length=4)
    least = 250
    rest = release(METHOD, max_prefix_length=4, p_harmful=least)
    found = [
        [tuple(name for name, _ in events) for _, events in rows_of([made])]
        for made in (whole, rest)
    ]
    assert {("A", "B", "C"), ("A", "C"), ("B",)} <= set(found[0])
    assert set(found[1]) == {("A", "B", "C")}
    assert found[1].count(("A", "B", "C")) == found[0].count(("A", "B", "C")) >= least


def test_the_length_is_given_once() -> None:
    params = PripelRigorousParams(**PUBLIC, max_prefix_length=5)
    assert params.max_trace_length == 5
    assert PripelRigorousParams(**params.resolved()).resolved() == params.resolved()
    with pytest.raises(pydantic.ValidationError, match="max_trace_length follows"):
        PripelRigorousParams(**PUBLIC, max_prefix_length=5, max_trace_length=6)
    with pytest.raises(pydantic.ValidationError, match="max_prefix_length"):
        PripelRigorousParams(**PUBLIC, max_trace_length=6)
