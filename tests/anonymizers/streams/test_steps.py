"""What a step publishes: windows, sums, variants and indicators, and how the parts are paid."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.support.keys import release_key
from tests.support.logs import naive_pairs, trace_batch
from tests.support.stream_runs import batch_of, counts_of, no_noise
from tests.support.tiers import at_night
from tracecloak.anonymizers.accounting.composition import total
from tracecloak.anonymizers.streams.dfg_steps import DfgParams, DfgSteps, default_clip
from tracecloak.anonymizers.streams.indicator_steps import IndicatorStepParams, IndicatorSteps
from tracecloak.anonymizers.streams.steps import STREAM_PRODUCTS, StreamName
from tracecloak.anonymizers.streams.variant_steps import VariantParams, VariantSteps
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.events.events import MAX_TIME_US, MIN_TIME_US, OTHER

NAME = StreamName("ward", "1", "configuration", 1_000, 50)
STEPS = [("AB", "AB", "B"), (), ("AAB",), ("AB", "C", "B", "B"), ("AB",) * 5]


GIVEN: Any = {
    "epsilon": "1",
    "vocabulary": ("A", "B"),
    "max_trace_length": 4,
    "horizon": 5,
}


def params(product: str = "dfg", **changes: Any) -> DfgParams | VariantParams:
    return (DfgParams if product == "dfg" else VariantParams)(**{**GIVEN, **changes})


def product_of(asked: DfgParams | VariantParams) -> DfgSteps | VariantSteps:
    return DfgSteps(asked) if isinstance(asked, DfgParams) else VariantSteps(asked)


def stream(made: Any, steps: Sequence[Sequence[str]]) -> list[Any]:
    """All steps one after the other; what is kept travels as bytes."""
    releases, past = [], []
    for step, variants in enumerate(steps):
        counted = decode(encode(made.count(batch_of(*variants))))
        released, kept = made.publish(step, counted, past, NAME, release_key())
        releases.append(released)
        if kept is not None:
            past.append(decode(encode(kept)))
    return releases


def pairs(*variants: str) -> Counter[tuple[str, str]]:
    known = [v.replace("C", "_") for v in variants]
    found = naive_pairs({f"c{i}": " ".join(v) for i, v in enumerate(known)})
    return Counter(
        {tuple("__other__" if x == "_" else x for x in pair): n for pair, n in found.items()}
    )


@pytest.mark.parametrize(
    ("changes", "length"),
    [
        ({}, 1),
        ({"delta": "0"}, 1),
        ({"view": "total"}, None),
        ({"view": "sliding", "sliding_steps": 2}, 2),
        ({"view": "sliding", "sliding_steps": 4}, 4),
    ],
)
def test_without_noise_they_are_the_pairs_of_the_steps(
    changes: dict[str, Any], length: int | None
) -> None:
    with no_noise():
        found = stream(product_of(params(**changes)), STEPS)
    for step, release in enumerate(found):
        first = 0 if length is None else max(0, step + 1 - length)
        assert counts_of(release) == sum((pairs(*v) for v in STEPS[first : step + 1]), Counter())
        assert (release.start_us, release.end_us) == (1_000 + 50 * first, 1_050 + 50 * step)


def test_variants_below_the_threshold_are_not_there() -> None:
    made = product_of(params(product="variants"))
    assert isinstance(made, VariantSteps)
    threshold = made.params.noises["chosen"].threshold
    assert threshold is not None
    with no_noise():
        at, below = stream(made, [["AB"] * threshold, ["AB"] * (threshold - 1)])
    assert counts_of(at) == {("A", "B"): threshold}
    assert below.cells == ()


@pytest.mark.parametrize(("view", "length"), [("total", None), ("sliding", 2)])
def test_sums_of_variants_have_all_steps_from_the_first(view: str, length: int | None) -> None:
    """Also those before the one in which a variant was chosen."""
    steps = [["AB"] * 3, ["AB"] * 100 + ["B"], [], ["B"] * 100, ["AB"]]
    with no_noise():
        found = stream(
            product_of(params(product="variants", view=view, sliding_steps=length)), steps
        )
    assert found[0].cells == ()
    assert [release.cells for release in found[1:3]] == [(("A", "B"),)] * 2
    assert [release.cells for release in found[3:]] == [(("A", "B"), ("B",))] * 2
    for step, release in enumerate(found):
        first = 0 if length is None else max(0, step + 1 - length)
        exact = Counter(tuple(v) for own in steps[first : step + 1] for v in own)
        assert release.counts.tolist() == [exact[cell] for cell in release.cells]


@pytest.mark.parametrize("view", ["total", "sliding"])
def test_noise_of_variants_is_the_same_whenever_they_are_chosen(view: str) -> None:
    """Measured late, the steps before have the noise that they would have had."""
    length = 2 if view == "sliding" else None
    made = product_of(params(product="variants", view=view, sliding_steps=length))
    early = stream(made, [["AB"] * 100, ["B"] * 100, ["AB"] * 100])
    late = stream(made, [["AB"] * 100, ["B"] * 100 + ["A"] * 100, ["AB"] * 100])
    for a, b in zip(early, late, strict=True):
        both = set(a.cells) & set(b.cells)
        assert {c: n for c, n in counts_of(a).items() if c in both} == {
            c: n for c, n in counts_of(b).items() if c in both
        }


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"delta": "0"},
        {"product": "variants"},
        {"product": "variants", "view": "total"},
        {"view": "sliding", "sliding_steps": 3, "max_cases_per_individual": 4},
    ],
)
def test_the_parts_add_up_to_the_promise(changes: dict[str, Any]) -> None:
    made = product_of(params(**changes))
    assert total(made.spends()) == made.params.budget
    guarantee = made.guarantee()
    assert (guarantee.kind, guarantee.epsilon) == ("rigorous", 1.0)
    individual = "max_cases_per_individual" in changes
    assert guarantee.unit == ("individual" if individual else "case")
    assert "spends epsilon 1, delta" in made.explain()[0]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"view": "total"},
        {"view": "sliding", "sliding_steps": 3, "max_cases_per_individual": 4},
        {"product": "variants", "view": "total"},
        {"product": "variants", "view": "sliding", "sliding_steps": 2},
    ],
)
def test_cases_that_count_again_cost_more_than_once_and_less_than_so_often(
    changes: dict[str, Any],
) -> None:
    """Epsilon 1 holds for a case that counts once; then twice, thrice and as often as it may."""
    made = product_of(params(**changes))
    assert made.repeated(1, 1) == made.repeated(2, made.horizon) == made.params.budget
    (once, delta), *more = [made.repeated(n, 2) for n in (1, 2, 3, 50)]
    assert more[-1] == more[-2]  # steps 1, 3 and 5
    assert once < more[0][0] < more[1][0] < 4 * once
    n_deltas = (2, 3) if "product" in changes else (1, 1)
    assert tuple(found / delta for _, found in more[:2]) == n_deltas


def test_w_event_sets_aside_what_the_whole_horizon_costs() -> None:
    changes = {"guarantee": "w_event", "w_event_steps": 2, "max_cases_per_individual": 1}
    pure = product_of(params(delta="0", **changes))
    assert total(pure.spends()) == (3, 0)  # five steps are three times two, the last one cut short
    gaussian = product_of(params(**changes))
    epsilon, delta = total(gaussian.spends())
    assert 1 < epsilon < 3
    # What is promised is for all steps, in each of which an individual has its case.
    assert "Of an individual one case counts in each step." in gaussian.guarantee().reality
    assert gaussian.guarantee().epsilon == float(epsilon)
    assert delta == Fraction(1, 10**6)
    # The noise covers a case in each of two steps.
    assert Fraction(*pure.params.noises["pairs"].scale) == 2 * 5
    # What is set aside is stated of every product, also where two noises share the budget.
    for product in ("dfg", "variants"):
        made = product_of(params(product, view="total", **changes))
        epsilon, _ = made.params.horizon_budget
        shown = f"{math.ceil(epsilon * 100) / 100:g}"
        assert sum(f"epsilon {shown} " in said for said in made.guarantee().not_covered) == 1


ODD_NAMES = [OTHER, "▶", "\x00", "\uffff", " ", "a" * 5_000, "A", "B"]
ODD_TIMES = [MAX_TIME_US, MIN_TIME_US, 0, -1]
HOSTILE: list[list[tuple[str, str, int]]] = [
    [],
    [("one", "A", 0)],
    [
        *(("odd", name, 0) for name in ODD_NAMES),
        *(("timeless", "A", time) for time in ODD_TIMES),
        *(("long", "AB"[i % 2], i) for i in range(3_000)),
        *(("wide", f"w{i}", i) for i in range(400)),
    ],
    [(f"c{i}", name, place) for i in range(300) for place, name in enumerate("AB")],
]


@pytest.mark.parametrize(
    ("product", "changes"),
    [
        ("dfg", {}),
        ("dfg", {"delta": "0"}),
        ("dfg", {"view": "total", "epsilon": "0.001"}),
        ("variants", {"epsilon": "0.001"}),
        ("variants", {"view": "sliding", "sliding_steps": 2}),
        ("log", {}),
        ("log", {"epsilon": "0.001", "variants": "privtree"}),
    ],
)
@pytest.mark.parametrize("key", [0, at_night(1)])
def test_every_step_is_published_whatever_its_cases(
    product: str, changes: dict[str, Any], key: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracecloak.anonymizers.variants.generator._MOST_CASES", 300)
    kind = STREAM_PRODUCTS[product]
    made = kind(kind.Params(**{**GIVEN, **changes}))
    past: list[Any] = []
    for step, cases in enumerate(HOSTILE):
        counted = decode(encode(made.count(trace_batch(cases))))
        released, kept = made.publish(step, counted, past, NAME, release_key(key))
        past += [] if kept is None else [decode(encode(kept))]
        assert released.to_json()
        released.to_rows()


INDICATOR_STEPS = [("AB", "AB", "B"), (), ("AAB",), ("AB", "B", "B"), ("AB",) * 5]
ASKED = (
    "cases",
    "rework",
    "frequency activity=A at_most=2",
    "rule template=response activity=A then=B",
    "cases where.occurs=A",
    "frequency by=activity groups=A|B",
)


def indicator_params(**changes: Any) -> IndicatorStepParams:
    return IndicatorStepParams(**{**GIVEN, "indicators": ASKED, **changes})


def naive(cases: Sequence[str]) -> list[float]:
    """The numbers of `ASKED`; of no case a share is the middle of its bounds."""
    n = max(len(cases), 1)
    share = 0.5 if not cases else 0.0
    return [
        len(cases),
        share or sum(case.count("A") > 1 or case.count("B") > 1 for case in cases) / n,
        sum(min(case.count("A"), 2) for case in cases),
        share or sum("B" in case.rpartition("A")[2] or "A" not in case for case in cases) / n,
        sum("A" in case for case in cases),
        *(sum(name in case for case in cases) for name in "AB"),
    ]


@pytest.mark.parametrize(
    "changes",
    [{}, {"delta": "0"}, {"view": "total"}, {"view": "sliding", "sliding_steps": 2}],
    ids=["window", "window without delta", "total", "sliding"],
)
def test_without_noise_they_are_those_of_the_cases(changes: dict[str, Any]) -> None:
    with no_noise():
        releases = stream(IndicatorSteps(indicator_params(**changes)), INDICATOR_STEPS)
    length = {"window": 1, "total": 5, "sliding": 2}[changes.get("view", "window")]
    for step, release in enumerate(releases):
        cases = [
            case for part in INDICATOR_STEPS[max(step + 1 - length, 0) : step + 1] for case in part
        ]
        values = [row.value for row in release.indicators.rows()]
        assert values == pytest.approx(naive(cases), abs=1e-6)


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_no_case_moves_the_sums_further_than_the_noise_is_made_for(delta: str) -> None:
    """All cases of up to four events; one of them attains nearly all of it."""
    made = IndicatorSteps(indicator_params(delta=delta))
    words = (w for n in range(1, 5) for w in itertools.product("ABC", repeat=n))
    sums = [made.count(batch_of("".join(word))).by_name["sums"].values for word in words]
    norms = [
        float(np.abs(v).sum()) if delta == "0" else math.sqrt(float((v**2).sum())) for v in sums
    ]
    assert max(norms) <= made.params.case_norm
    assert max(norms) >= 0.9 * made.params.case_norm
    assert made.params.noises["indicators"].case_norm == made.params.case_norm


def test_intervals_hold_what_was_counted() -> None:
    """Over many keys, of a window, at 95 %; half of the width holds far less."""
    made = IndicatorSteps(indicator_params(indicators=("cases", "rework", "throughput at_most=1h")))
    counted = made.count(batch_of(*["AAB"] * 300, *["AB"] * 200))
    n_held, n_half, n = 0, 0, 0
    for key in range(200):
        release, _ = made.publish(0, counted, [], NAME, release_key(key))
        for row, truth in zip(release.indicators.rows()[:2], (500, 0.6), strict=True):
            middle, half = (row.low + row.high) / 2, (row.high - row.low) / 4
            n_held += row.low <= truth <= row.high
            n_half += abs(truth - middle) <= half
            n += 1
    assert n_held / n > 0.91
    assert n_half / n < 0.85


def test_a_case_beyond_the_clip_is_scaled_down() -> None:
    made = product_of(params(l2_clip="2"))
    with no_noise():
        release, *_ = stream(made, [["AAAA"] * 1000])
    # (1, 3, 1) has norm sqrt(11); counts are floored to 1/1024 of an occurrence in each case.
    counts = {("▶", "A"): 1, ("A", "A"): 3, ("A", "■"): 1}
    for cell, count in counts_of(release).items():
        assert count == pytest.approx(1000 * counts[cell] * 2 / 11**0.5, abs=2)


@pytest.mark.parametrize(("n_words", "longest"), [(1, 6), (2, 8), (3, 7)])
def test_the_default_clip_is_the_smallest_norm_of_so_many_events(
    n_words: int, longest: int
) -> None:
    """Of all cases, by brute force: catches one that scales down what does not loop."""
    for n in range(1, longest + 1):
        norms = []
        for case in itertools.product(range(n_words), repeat=n):
            norms.append(2 + sum(x**2 for x in Counter(itertools.pairwise(case)).values()))
        clip = default_clip(n, n_words)
        assert (10 * clip - 1) ** 2 < 100 * min(norms) <= (10 * clip) ** 2
        assert clip.denominator in (1, 2, 5, 10)


def test_the_budget_is_divided_by_priority() -> None:
    favoured = indicator_params(indicators=("cases priority=4", *ASKED[1:]))

    def share(of: IndicatorStepParams) -> float:
        term, factor = of.terms[0]
        return float(factor**2 * term.changed.l2_squared) / of.case_norm**2

    assert 2 < share(favoured) / share(indicator_params()) < 4
