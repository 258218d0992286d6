"""`pretsa` and `pretsa-case` in memory and by Beam, and the verifier against spoilt releases."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from tests.anonymizers.pretsa.test_tree import logs
from tests.support.keys import release_key
from tests.support.logs import trace_batch
from tests.support.paper_log import traces_of
from tests.support.rounds import CONFIG_DIGEST, RELEASE_ID, rows_of
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.pretsa.method import Pretsa, PretsaCase
from tracecloak.anonymizers.pretsa.verify import verify_released
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.events.events import MAX_TIME_US, MIN_TIME_US
from tracecloak.schemas.events.traces import TraceBatch

COST = "cost:units"
UNITS = {COST: {"bounds": [0, 1000], "n_bins": 500}}


def release(traces: list[TraceBatch], number: int = 0, **params: Any) -> list[TraceBatch]:
    method = Pretsa() if "t" in params else PretsaCase()
    made = method.Params(**params)
    released = anonymise(
        traces, method, made, release_key(number), RELEASE_ID, CONFIG_DIGEST
    ).traces
    method.verify(released, made)
    return released


def variants_of(batches: list[TraceBatch]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(a for a, _ in steps) for _, steps in rows_of(batches))


def farthest(batches: list[TraceBatch]) -> float:
    """The largest distance of a prefix's durations from those of its activity, by scipy."""
    by_prefix: dict[tuple[str, ...], list[int]] = {}
    by_activity: dict[str, list[int]] = {}
    for _, steps in rows_of(batches):
        times = [time for _, time in steps]
        durations = [0, *(b - a for a, b in itertools.pairwise(times))]
        variant = tuple(a for a, _ in steps)
        for n, duration in enumerate(durations, 1):
            by_prefix.setdefault(variant[:n], []).append(duration)
            by_activity.setdefault(variant[n - 1], []).append(duration)
    found = [0.0]
    for prefix, own in by_prefix.items():
        every = by_activity[prefix[-1]]
        if width := max(every) - min(every):
            found.append(wasserstein_distance(own, every) / width)
    return max(found)


@given(
    logs(14, 40),
    st.integers(1, 4),
    st.floats(0.05, 1),
    st.booleans(),
    st.sampled_from(["kept", "dropped"]),
)
def test_every_release_keeps_its_promise(
    log: dict[str, str], k: int, t: float, protect_ends: bool, starts: str
) -> None:
    traces = trace_batch(log, "ABC")
    assume(traces.n_cases >= k)
    try:
        released = release([traces], k=k, t=t, protect_ends=protect_ends, starts=starts)
    except GuaranteeError as error:
        assert "lower k or raise t" in str(error)
        return
    before, after = variants_of([traces]), variants_of(released)
    assert after.total() == before.total()
    assert set(after) <= set(before)
    prefixes: Counter[tuple[str, ...]] = Counter()
    for variant, n_cases in after.items():
        prefixes.update({variant[:n]: n_cases for n in range(1, len(variant) + 1)})
    assert min(prefixes.values()) >= k
    assert not protect_ends or min(after.values()) >= k
    assert farthest(released) < t
    began = sorted(batch_start for batch in released for batch_start in batch.starts.tolist())
    assert began == (sorted(traces.starts.tolist()) if starts == "kept" else [0] * len(began))
    assert not set(log) & {case for case, _ in rows_of(released)}


def hospital(n_cases: int = 120) -> list[tuple[str, str, int]]:
    """Cases of a few frequent and several rare variants; no two steps take equally long."""
    rng = np.random.default_rng(3)
    steps = rng.permutation(10**6)[: 8 * n_cases].tolist()
    rows = []
    for case in range(n_cases):
        variant = ["ABCD", "ABD", "ACBD", "ABBD"][case % 4] + "BCD"[: case % 7 // 2]
        time = case * 10**11
        for activity in variant:
            rows.append((f"case {case}", activity, time))
            time += steps.pop() * 1000 + 1
    return rows


@pytest.mark.parametrize(
    ("log", "params", "said"),
    [
        (hospital(3), {"k": 4}, "k=4"),
        # All cases have one variant, in which A comes twice: at once, and after an hour.
        ({f"c{i}": "A A@60" for i in range(9)}, {"k": 2, "t": 0.3}, "lower k or raise t"),
        # They would pass the end of the calendar.
        ([(f"{i}", name, t) for i in range(4)
          for name, t in (("A", MIN_TIME_US + i), ("B", MAX_TIME_US - i))], {"k": 2},
         r"9999.*row filter"),
    ],
)  # fmt: skip
def test_a_log_of_which_no_case_can_be_released_is_refused(
    log: Any, params: dict[str, Any], said: str
) -> None:
    with pytest.raises(GuaranteeError, match=said) as raised:
        release([trace_batch(log)], **params)
    assert raised.value.exit_code == 5


def test_closeness_is_that_of_the_released_log_or_of_the_input() -> None:
    """The second C of ACAC is slow, so all cases become ABAA, whose later A take 30 minutes."""
    log = {f"c{i}": "A C@1 A@2 C@62" for i in range(15)} | {"c": "A C@1 A@61 C@121"}
    log |= {f"d{i}": "A B@1 A@31 A@61" for i in range(4)}
    given_ = {"k": 3, "t": 0.5}
    for ends in (True, False):
        with pytest.raises(GuaranteeError, match="merging variants left none"):
            release([trace_batch(log)], **given_, protect_ends=ends)
        found = release([trace_batch(log)], **given_, protect_ends=ends, closeness="input")
        assert variants_of(found) == {("A", "B", "A", "A"): 20}
        assert farthest(found) >= 0.5
    # What was not looked at in the files is not said to have been verified on them.
    claims = [Pretsa().guarantee(Pretsa.Params(closeness=c)).claim for c in ("released", "input")]
    assert claims[0].startswith(claims[1].rstrip(".")) and claims[0] != claims[1]


def with_costs(rows: list[tuple[str, str, int]]) -> TraceBatch:
    """Costs around 200 of A, 400 of B, and so on; D has none, and one text is no number."""
    [traces] = traces_of(rows)
    names = np.array(traces.vocabulary.names.to_pylist())[traces.activities]
    draw = np.random.default_rng(4)
    texts = [
        None if name == "D" else f"{200 * 'ABC'.index(name) + draw.integers(1, 399)}.25"
        for name in names
    ]
    texts[0] = "free"
    return replace(traces, attributes={COST: pa.array(texts).dictionary_encode()})


def test_a_declared_column_is_drawn_anew_and_its_events_have_numbers_and_no_times() -> None:
    traces = with_costs(hospital())
    [released] = release([traces], k=5, t=0.6, duration=UNITS)
    assert released.n_cases == traces.n_cases
    numbers = released.attributes["event_index"].to_pylist()
    assert set(numbers) == set(range(1, int(released.lengths.max()) + 1))
    assert released.times.tolist() == numbers
    costs = released.attributes[COST]
    assert costs.type == pa.float64()
    names = np.array(released.vocabulary.names.to_pylist())[released.activities]
    missing = np.asarray(costs.is_null())
    assert (missing == (names == "D")).all()
    numbers = np.asarray(costs.drop_null())
    assert numbers.min() >= 0 and numbers.max() <= 1000
    for i, name in enumerate("ABC"):
        own = numbers[names[~missing] == name]
        assert abs(own.mean() - (200 * i + 200)) < 40
        assert own.min() >= 200 * i - 25 and own.max() <= 200 * i + 425
    had = {float(x) for x in traces.attributes[COST].to_pylist() if x and x != "free"}
    assert not had & set(numbers.tolist())


def test_the_closeness_of_a_declared_column_is_verified() -> None:
    traces = with_costs(hospital())
    [released] = release([traces], k=5, t=0.6, duration=UNITS)
    verify_released([released], 5, 0.6, attribute=COST)
    costs = np.array(released.attributes[COST].fill_null(0))
    [b] = released.vocabulary.codes(pa.array(["B"])).tolist()
    second = released.offsets[:-1] + 1
    costs[released.activities == b] = 1000.0
    costs[second[released.activities[second] == b]] = 0.0
    spoilt = replace(released, attributes={COST: pa.array(costs)})
    with pytest.raises(GuaranteeError, match=r"t=0\.5 or more"):
        verify_released([spoilt], 5, 0.5, attribute=COST)


def sound() -> TraceBatch:
    """4 cases of A B C, 6 of A B, and 5 of B, steps of B a minute or two."""
    log = {f"c{i}": f"A B@{1 + i % 2} C@9" for i in range(4)}
    log |= {f"d{i}": f"A B@{1 + i % 2}" for i in range(6)} | {f"e{i}": "B" for i in range(5)}
    return trace_batch(log)


def without(case: int) -> TraceBatch:
    return sound().take(np.delete(np.arange(15), case))


def changed(activity: int) -> TraceBatch:
    """The first case's last event is of another activity."""
    traces = sound()
    activities = traces.activities.copy()
    activities[2] = activity
    return replace(traces, activities=activities)


@pytest.mark.parametrize(
    "spoilt",
    [
        without(0),
        changed(0),
        TraceBatch.concat([sound().take(np.arange(1)).truncate(2), without(0)]),
        TraceBatch.concat([sound(), trace_batch({"x": "C"}, "ABC")]),
    ],
    ids=["a case lost", "an activity changed", "a case shortened", "a case added"],
)
def test_a_release_with_a_rare_variant_is_rejected(spoilt: TraceBatch) -> None:
    with pytest.raises(GuaranteeError, match="variant has fewer than k=4") as raised:
        verify_released([spoilt], 4, None)
    assert raised.value.exit_code == 5
    with pytest.raises(GuaranteeError, match="released prefix has fewer than k=4"):
        verify_released([spoilt], 4, None, protect_ends=False)


def test_the_end_of_a_single_case_is_rejected_where_ends_are_promised() -> None:
    traces = trace_batch({f"c{i}": "A B C" for i in range(5)} | {"lone": "A B"})
    verify_released([traces], 3, None, protect_ends=False)
    with pytest.raises(GuaranteeError, match="variant has fewer than k=3"):
        verify_released([traces], 3, None)
