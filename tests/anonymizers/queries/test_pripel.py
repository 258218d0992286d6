"""PRIPEL from a log to its release: what comes out, what is refused, and what is said of it."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from tests.support.keys import release_key
from tests.support.logs import event_logs, trace_batch
from tests.support.paper_log import traces_of
from tests.support.rounds import rows_of
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.queries.pripel import Pripel, PripelParams
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch

PRIPEL = Pripel()
USUAL: dict[str, Any] = {"epsilon": "1", "max_prefix_length": 5, "p_harmful": 3}


def release(traces: list[TraceBatch], number: int = 0, **params: Any) -> TraceBatch:
    given = PripelParams(**{**USUAL, **params})
    [made] = anonymise(traces, PRIPEL, given, release_key(number), "r", "c").traces
    return made


def hospital(n: int = 60) -> TraceBatch:
    """Three variants; all stamps and times between them differ."""
    texts = ("A@{0} B@{1} C@{2}", "A@{0} C@{1}", "A@{0} B@{1} B@{2} C@{3}")
    return trace_batch(
        {
            f"case {i}": texts[i % 3].format(
                1000 * i, 1000 * i + 7 + 3 * i, 1400 * i + 200, 1400 * i + 777
            )
            for i in range(1, n + 1)
        }
    )


def test_no_time_of_the_log_comes_out() -> None:
    """1200 times in microseconds within hours: that one is met by chance has probability 1e-6."""
    raw = hospital(300)
    made = release([raw])
    assert made.n_cases > 200
    durations, released = (set(log.durations[~log.is_first].tolist()) for log in (raw, made))
    assert not (durations - {0}) & released
    assert not set(raw.times.tolist()) & set(made.times.tolist())
    assert not set(raw.case_ids.to_pylist()) & set(made.case_ids.to_pylist())


ATTRIBUTES = {
    "org:resource": {"values": ["R1", "R2", "R3"]},
    "case:age": {"bounds": [10, 90], "n_bins": 4, "whole": True},
    "amount": {"bounds": [0.5, 2.5]},
}


@settings(max_examples=40)
@given(event_logs(max_events=40, activities="ABCD", minutes=9))
def test_every_log_is_released_in_order_and_within_its_domains(
    log: list[tuple[str, str, int]],
) -> None:
    if not log:
        return
    [raw] = traces_of(log, 1)
    for bounds in ("pair", "log"):
        made = release(
            [raw], epsilon="0.5", p_harmful=1, max_prefix_length=3, duration_bounds=bounds,
            attributes=ATTRIBUTES,
        )  # fmt: skip
        made.to_rows().validate(full=True)
        assert (made.durations >= 0).all()
        assert (made.lengths <= 3).all()
        longest = raw.durations.max()
        assert (made.durations <= longest).all()
        assert (made.starts >= raw.starts.min()).all() and (made.starts <= raw.starts.max()).all()
        assert set(made.vocabulary.names.to_pylist()) <= set("ABCD")
        assert list(made.attribute_types.items()) == [
            ("org:resource", pa.string()), ("case:age", pa.int64()), ("amount", pa.float64())
        ]  # fmt: skip
        # The log has none of them, so there is no value to fill in.
        assert all(values.null_count == made.n_events for values in made.attributes.values())


def test_the_sacofa_query_releases_no_behaviour_that_breaks_the_rules_of_the_log() -> None:
    """At epsilon 20 about 5e-5 harmful prefixes a level are let in."""
    raw = hospital(90)
    made = release([raw], epsilon="20", query="sacofa", p_harmful=3, p_harmless=1)
    assert made.n_cases > 60
    raw_pairs, pairs = (
        {(a, b) for _, events in rows_of([traces]) for (a, _), (b, _) in itertools.pairwise(events)}
        for traces in (raw, made)
    )
    assert pairs <= raw_pairs


def test_a_query_that_asks_for_too_many_cases_is_refused() -> None:
    with pytest.raises(UsageError, match=r"more than 10,000,000 cases: raise"):
        release([hospital(6)], epsilon="1e-7", p_harmful=1, max_prefix_length=1)
