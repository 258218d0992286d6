"""`private-log`, `amun-rigorous`, `pripel-rigorous`: the budget, refusals, what comes out."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pydantic
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.keys import release_key
from tests.support.logs import trace_batch
from tests.support.rounds import rows_of
from tracecloak.anonymizers.accounting.calibration import epsilon_of_guessing_advantage
from tracecloak.anonymizers.accounting.composition import total
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.logs.params import (
    CLIP,
    GENERATORS,
    KNOWN,
    LOG,
    PrivateLogParams,
    default_split,
)
from tracecloak.anonymizers.logs.private_log import PripelRigorous, PripelRigorousParams, PrivateLog
from tracecloak.anonymizers.rigorous.budget import Instead
from tracecloak.examination.measure.utility import (
    case_duration_distance_days,
    hour_of_week_distance,
)
from tracecloak.schemas.calendar.local_time import DAY_US, HOUR_US
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch

METHOD = PrivateLog()
PUBLIC: dict[str, Any] = {
    "epsilon": "1",
    "vocabulary": ("A", "B", "C"),
    "max_trace_length": 6,
    "first_date": "2024-01-01",
    "last_date": "2024-12-31",
    "l2_clip": "4",
}
FIRST_US = 1_704_067_200_000_000  # 2024-01-01


def params_of(**changes: Any) -> PrivateLogParams:
    return METHOD.Params(**{**PUBLIC, **changes})


ATTRIBUTES = {
    "org:resource": {"values": ["R1", "R2"]},
    "case:age": {"bounds": [0, 100], "whole": True, "n_bins": 4},
}


@settings(max_examples=40)
@example("695.8655", "1e-6", set(), set(), {}, "variant-histogram", "variants")  # e^723 is no float
@given(
    epsilon=st.decimals("0.01", "1000", places=4).map(str),
    delta=st.sampled_from(["1e-6", "9.7e-6", "3.14159e-9", "0"]),
    public=st.sets(st.sampled_from(["vocabulary", "max_trace_length", "dates", "l2_clip"])),
    attributes=st.sets(st.sampled_from(sorted(ATTRIBUTES))),
    split=st.dictionaries(
        st.sampled_from(sorted(default_split())), st.decimals("0.05", "2", places=3).map(str)
    ),
    variants=st.sampled_from(["auto", *GENERATORS]),
    products=st.sampled_from(["log", "variants"]),
)
def test_the_parts_of_any_configuration_add_up_to_epsilon_and_delta(
    epsilon: str,
    delta: str,
    public: set[str],
    attributes: set[str],
    split: dict[str, str],
    variants: str,
    products: str,
) -> None:
    chosen: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "variants": variants}
    if delta == "0":
        public = (public | {"vocabulary", "max_trace_length"}) - {"l2_clip"}
        if variants != "auto" and not GENERATORS[variants].is_pure:
            chosen["variants"] = "auto"
    if "dates" in public:
        public = public | {"first_date", "last_date"}
    chosen |= {name: PUBLIC[name] for name in public if name in PUBLIC}
    if products == "log":
        chosen["attributes"] = {name: ATTRIBUTES[name] for name in attributes}
        chosen["budget_split"] = split
    chosen["buy_vocabulary"] = "vocabulary" not in chosen
    params = METHOD.Params(**chosen, products=products)
    budget, spends = params.spending, METHOD.spends(params)
    assert total(spends) == (Fraction(epsilon), Fraction(delta))
    for spend in spends:
        json.dumps(spend.to_json())  # or it is no finite decimal
    # What may not be done in place of others has nothing.
    instead = {need.name for need in budget.needs if isinstance(need, Instead)}
    done = {n: own for n, own in budget.means.items() if n not in instead or own.epsilon}
    means = done.values()
    assert all((own.epsilon > 0) != (own.share > 0) for own in means)
    of_log = {own.deviation for own in means if own.share}
    if of_log:
        assert of_log == {budget.deviation} and sum(own.share for own in means) == 1
        [joint] = spends
        if joint.mechanism == "joint":
            ways = [part for way in joint.instead for part in way.parts]
            found = {name for name, _ in (*joint.choices, *ways)}
            assert found | {block.what for block in joint.blocks} == set(done)
            chosen = sum(epsilon for _, epsilon in joint.choices)
            assert all(way.epsilon + chosen == Fraction(epsilon) for way in joint.instead)
            # The proof is of this sum, whatever one unit changes.
            lost = sum(block.squared_loss for block in joint.blocks)
            assert lost * budget.deviation**2 <= 1 + Fraction(1, 10**6)
    else:
        assert sum(own.epsilon for own in means) == Fraction(epsilon)
        assert [spend.what for spend in spends] == list(budget.means)
    expected = {"variants", *(part.name for part in params.parts if part.chosen)}
    if products == "log":
        expected |= {"sizes", "durations", "pair times", "spans", "starts", "tables"}
        expected |= {f"attribute {name}" for name in attributes}
    parts = params.parts
    assert {part.name for part in parts} == expected
    assert [need for part in parts for need in part.needs] == [*budget.needs]
    assert {need.name for need in budget.needs} == budget.means.keys()


def test_what_is_not_public_is_bought() -> None:
    def bought(params: PrivateLogParams) -> list[str]:
        return [part.chosen for part in params.parts if part.chosen]

    assert bought(METHOD.Params(epsilon="1", buy_vocabulary=True)) == [
        "vocabulary",
        "time range",
        "granularity",
        "clip",
    ]
    assert METHOD.rounds(METHOD.Params(epsilon="1", buy_vocabulary=True)) == (KNOWN, CLIP, LOG)
    assert bought(params_of()) == ["granularity"]
    assert bought(params_of(granularity="day")) == []
    assert METHOD.rounds(params_of()) == (KNOWN, CLIP, LOG)
    only = params_of(products="variants")
    assert bought(only) == [] and METHOD.rounds(only) == (LOG,)
    assert total(METHOD.spends(only)) == (1, Fraction(1, 10**6))
    assert [part.name for part in only.parts] == ["variants"]


def hospital(n_cases: int, seed: int = 1) -> TraceBatch:
    """Cases A B C, on working days from 9 to 11, B within minutes, C after 20 days for a tenth."""
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 200, n_cases)
    days += np.where(days % 7 >= 5, 2, 0)  # 2024-01-01 is a Monday
    start = FIRST_US + days * DAY_US + 9 * HOUR_US + rng.integers(0, 2 * HOUR_US, n_cases)
    second = start + rng.integers(60, 3600, n_cases) * 1_000_000
    third = second + np.where(rng.random(n_cases) < 0.1, 20 * DAY_US, HOUR_US)
    resources = rng.choice(["R1", "R2", "secret"], 3 * n_cases, p=[0.6, 0.3, 0.1])
    return TraceBatch(
        pa.array([f"case {i}" for i in range(n_cases)]),
        np.arange(0, 3 * n_cases + 1, 3),
        np.tile(np.arange(3, dtype=np.int32), n_cases),
        np.stack([start, second, third], axis=1).ravel(),
        ActivityVocabulary.of("ABC"),
        attributes={"org:resource": pa.array(resources).dictionary_encode()},
    )


def released(log: TraceBatch, params: PrivateLogParams, number: int = 0) -> TraceBatch:
    [made] = anonymise([log], METHOD, params, release_key(number), "r", "c").traces
    return made


def test_with_a_large_epsilon_the_released_log_is_like_the_input() -> None:
    log = hospital(3000)
    made = released(
        log,
        params_of(
            epsilon="1000", attributes={"org:resource": {"values": ["R1", "R2"]}}, l2_clip="10"
        ),
    )
    assert abs(made.n_cases - 3000) <= 1
    names = made.vocabulary.names.to_pylist()
    assert [names[code] for code in made.activities[:3]] == ["A", "B", "C"]
    assert set(made.lengths.tolist()) == {3}
    assert hour_of_week_distance(log, made) < 0.14
    assert case_duration_distance_days(log, made) < 1.0
    values = made.attributes["org:resource"]
    shares = {v: values.to_pylist().count(v) / len(values) for v in ("R1", "R2", None)}
    assert shares["R1"] == pytest.approx(0.6, abs=0.03)
    assert shares[None] == pytest.approx(0.1, abs=0.02)  # what is not declared is no value
    assert set(values.to_pylist()) == {"R1", "R2", None}


@pytest.mark.parametrize("changes", [{}, {"first_date": None, "last_date": None}])
@pytest.mark.parametrize("epsilon", ["0.2", "1"])
def test_every_stamp_is_in_the_range_and_in_working_time(
    changes: dict[str, Any], epsilon: str
) -> None:
    params = params_of(
        epsilon=epsilon,
        working_days="mon,tue,wed,thu,fri",
        working_hours="8-12",
        holidays="2024-01-03",
        **changes,
    )
    for number in range(3):
        made = released(hospital(500), params, number)
        times = made.times
        if not made.n_events:
            continue  # the noise left no case
        if not changes:
            assert times.min() >= FIRST_US and times.max() < FIRST_US + 366 * DAY_US
        days, within = np.divmod(times - FIRST_US, DAY_US)
        assert (days % 7 < 5).all() and (days != 2).all()
        assert ((within >= 8 * HOUR_US) & (within < 12 * HOUR_US)).all()
        later = ~made.is_first
        assert (np.diff(times, prepend=times[:1])[later] >= 0).all()


@pytest.mark.parametrize(
    ("g", "epsilon"), [("0.2", 0.405465), ("0.3", 0.619039), ("0.4", 0.847297)]
)
def test_the_guessing_advantage_is_kept_for_every_prior(g: str, epsilon: float) -> None:
    """The posterior of a replace-one guess, at twice the epsilon of add/remove."""
    found = epsilon_of_guessing_advantage(Decimal(g))
    assert float(found) == pytest.approx(epsilon, abs=1e-6)
    odds = math.exp(2 * float(found))
    prior = np.linspace(0, 1, 100_001)
    rise = prior * odds / (prior * odds + 1 - prior) - prior
    assert rise.max() <= float(g)
    assert rise.max() == pytest.approx(float(g), abs=1e-5)
    # The control: one millionth more is too much.
    more = math.exp(2 * (float(found) + 2e-6))
    assert (prior * more / (prior * more + 1 - prior) - prior).max() > float(g)


PRIPEL_METHOD = PripelRigorous()
PRIPEL_PUBLIC: dict[str, Any] = {
    "epsilon": "4",
    "vocabulary": ("A", "B", "C"),
    "first_date": "1970-01-01",
    "last_date": "1970-12-31",
    "l2_clip": "4",
    "variants": "sparse-histogram",
}


def release(method: PrivateLog, **params: Any) -> TraceBatch:
    log = trace_batch({str(i): ("A B C", "A C", "B")[i % 7 % 3] for i in range(700)})
    given = method.Params(**PRIPEL_PUBLIC, **params)
    [made] = anonymise([log], method, given, release_key(), "r", "c").traces
    return made


def test_without_pruning_it_is_private_log_with_that_length() -> None:
    own = release(PRIPEL_METHOD, max_prefix_length=2)
    other = release(PrivateLog(), max_trace_length=2)
    assert own.n_cases > 600
    assert rows_of([own]) == rows_of([other])


def test_variants_of_fewer_cases_are_left_out_and_others_stay() -> None:
    """700 cases: 300 of A B C, 200 each of the others."""
    whole = release(PRIPEL_METHOD, max_prefix_length=4)
    least = 250
    rest = release(PRIPEL_METHOD, max_prefix_length=4, p_harmful=least)
    found = [
        [tuple(name for name, _ in events) for _, events in rows_of([made])]
        for made in (whole, rest)
    ]
    assert {("A", "B", "C"), ("A", "C"), ("B",)} <= set(found[0])
    assert set(found[1]) == {("A", "B", "C")}
    assert found[1].count(("A", "B", "C")) == found[0].count(("A", "B", "C")) >= least


def test_the_length_is_given_once() -> None:
    params = PripelRigorousParams(**PRIPEL_PUBLIC, max_prefix_length=5)
    assert params.max_trace_length == 5
    assert PripelRigorousParams(**params.resolved()).resolved() == params.resolved()
    with pytest.raises(pydantic.ValidationError, match="max_trace_length follows"):
        PripelRigorousParams(**PRIPEL_PUBLIC, max_prefix_length=5, max_trace_length=6)
    with pytest.raises(pydantic.ValidationError, match="max_prefix_length"):
        PripelRigorousParams(**PRIPEL_PUBLIC, max_trace_length=6)
