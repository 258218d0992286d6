"""Steps that take no time, and variants of nothing else, in logs whose other steps take weeks.

A thousandth of the steps of a pair in a bin of months outlasts all others, so whatever noise leaves
there makes a step of a second one of hours.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from tests.support.keys import release_key
from tests.support.tiers import at_night
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.logs.private_log import PrivateLog
from tracecloak.schemas.calendar.local_time import DAY_US, HOUR_US
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.statistics.variants import VariantHistogram

WORDS = ActivityVocabulary.public(("A", "B", "C", "D"))
FIRST_US = 1_704_067_200_000_000  # 2024-01-01
N = 4000
# Of A B C the step from B takes weeks; that from A never takes more than a second, nor does A B D.
SHARES = {"ABC": 0.6, "ABD": 0.1, "ABCD": 0.3}


class Means(NamedTuple):
    """In hours.

    Attributes:
        case: Of all cases.
        instant: Of the steps from A to B.
        variant: Of the cases A B D.
    """

    case: float
    instant: float
    variant: float


def original(number: int) -> TraceBatch:
    draw = np.random.default_rng(number)
    variants = draw.choice(list(SHARES), N, p=list(SHARES.values()))
    waits = {
        "AB": lambda n: draw.integers(0, 2, n) * 1_000_000,
        "BD": lambda n: draw.integers(0, 2, n) * 1_000_000,
        "BC": lambda n: draw.exponential(20 * DAY_US, n).astype(np.int64),
        "CD": lambda n: draw.exponential(5 * HOUR_US, n).astype(np.int64),
    }
    begins = FIRST_US + draw.integers(0, 180 * DAY_US, N)
    cases = [
        np.cumsum([begin, *(int(waits[a + b](1)[0]) for a, b in pairwise(v))])
        for begin, v in zip(begins.tolist(), variants.tolist(), strict=True)
    ]
    return TraceBatch(
        pa.array([str(i) for i in range(N)]),
        np.cumsum([0, *map(len, cases)]),
        np.array(["ABCD".index(name) for v in variants.tolist() for name in v], np.int32),
        np.concatenate(cases) // 1_000_000 * 1_000_000,
        WORDS,
    )


def means_of(traces: TraceBatch) -> Means:
    spans = (traces.times[traces.offsets[1:] - 1] - traces.starts) / HOUR_US
    codes = traces.activities
    later = np.flatnonzero(~traces.is_first)
    is_instant = (codes[later - 1] == 0) & (codes[later] == 1)
    ends = traces.offsets[1:]
    is_variant = (np.diff(traces.offsets) == 3) & (codes[ends - 2] == 1) & (codes[ends - 1] == 3)
    return Means(
        float(spans.mean()),
        float(traces.durations[later][is_instant].mean() / HOUR_US),
        float(spans[is_variant].mean()),
    )


def released(number: int, epsilon: str) -> Means:
    params = PrivateLog.Params(
        epsilon=epsilon,
        vocabulary=("A", "B", "C", "D"),
        max_trace_length=4,
        first_date="2024-01-01",
        last_date="2024-12-31",
        granularity="second",
    )
    made = anonymise([original(number)], PrivateLog(), params, release_key(number), "r", "")
    [traces] = made.traces
    assert VariantHistogram.from_traces(traces).n_variants >= 3
    return means_of(traces)


@pytest.mark.parametrize(
    ("epsilon", "n_keys", "most", "most_of_variant"),
    [
        ("1", 3, 0.002, 0.06),
        ("16", 3, 0.001, 0.005),
        at_night("1", 20, 0.002, 0.06),
        at_night("16", 20, 0.001, 0.005),
    ],
)
def test_what_is_instant_stays_so(
    epsilon: str, n_keys: int, most: float, most_of_variant: float
) -> None:
    """As shares of the mean case, which is near the log's own."""
    true = means_of(original(0))
    assert true.case > 400 and true.instant < 0.001 and true.variant < 0.001
    for number in range(n_keys):
        found = released(number, epsilon)
        assert found.case == pytest.approx(true.case, rel=0.2)
        assert found.instant < most * found.case
        assert found.variant < most_of_variant * found.case
