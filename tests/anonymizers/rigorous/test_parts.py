"""Parts of epsilon are values: one more is seen everywhere, and what is drawn is what is spent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.support.keys import release_key
from tests.support.logs import trace_batch
from tests.support.rounds import run_rounds
from tracecloak.anonymizers.accounting.composition import Spend, total
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.graphs.private_dfg import PrivateDfg
from tracecloak.anonymizers.logs import params as log_params
from tracecloak.anonymizers.logs.params import Kind, PrivateLogParams
from tracecloak.anonymizers.logs.private_log import PrivateLog, unfolded
from tracecloak.anonymizers.noise.drawing import Drawn, Recording
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.sums import noisy_sums
from tracecloak.anonymizers.registry import METHODS
from tracecloak.anonymizers.rigorous.parts import Given, Part
from tracecloak.anonymizers.rigorous.sum_noise import laplace_sums, spend_of
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.lengths import TraceLengths

LOG = {f"c{i}": ("A B C", "A C", "A B")[i % 3] for i in range(90)}


# --- a part of a test's own -----------------------------------------------------------------------


@dataclass(frozen=True)
class LongCases:
    kind: ClassVar[type[TraceLengths]] = TraceLengths

    def count(self, traces: TraceBatch, decisions: Any, randomness: Randomness) -> TraceLengths:
        return TraceLengths.from_traces(traces.take(np.flatnonzero(traces.lengths > 2)))


def toy(params: PrivateLogParams, weight: Fraction) -> tuple[Part, ...]:
    """How many cases have three events or more."""

    def spends(epsilon: Fraction, delta: Fraction) -> tuple[Spend, ...]:
        noise = laplace_sums(epsilon, of_one_cell(params.max_units))
        return (spend_of("toy", epsilon, delta, noise),)

    def decide(given: Given) -> int:
        exact = np.array([given.statistics["long"].n_cases])
        noise = laplace_sums(given.epsilon, of_one_cell(params.max_units))
        return int(noisy_sums(exact, noise, "toy", np.zeros(1, np.int64), given.randomness)[0])

    counters = {"long": LongCases()}
    return (Part("toy", weight, spends, lambda *_: "counts long cases", decide, counters),)


def test_a_part_that_is_registered_is_seen_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """And only where it is registered: nothing else names it."""
    example = {**PrivateLog.examples[0], "epsilon": "100"}
    method, without = PrivateLog(), PrivateLogParams(**example)
    assert "toy" not in without.shares
    kinds = (*log_params.KINDS, Kind("toys", Fraction(1, 10), toy))
    monkeypatch.setattr(log_params, "KINDS", kinds)
    params = PrivateLogParams(**example)
    assert total(method.spends(params)) == params.budget
    epsilon, delta = params.shares["toy"]
    assert 0 < epsilon < without.shares["variants"][0] and delta == 0
    assert [s.epsilon for s in method.spends(params) if s.what == "toy"] == [epsilon]
    assert any(said.startswith("toy: counts long cases") for said in method.explain(params))
    assert "long" in method.requires("log", params)
    recording = Recording()
    run = run_rounds([trace_batch(LOG)], method, params, release_key(), noise=recording)
    assert unfolded(run.decisions)["toy"] == pytest.approx(30, abs=20)
    assert {d.scale for d in recording.drawn if d.purpose == "toy"} == {1 / epsilon}
    doubled = PrivateLogParams(**example, budget_split={"toys": "0.2"})
    assert doubled.shares["toy"][0] > 1.5 * epsilon


def test_the_flag_says_the_weights_of_all_parts() -> None:
    said = PrivateLogParams.model_fields["budget_split"].description or ""
    for kind in log_params.KINDS:
        weight = re.search(rf"\b{kind.split}(?:\s+\([^)]*\))?\s+(0\.\d+)", said)
        assert weight is not None and Fraction(weight[1]) == kind.weight


# --- what is drawn and what is spent --------------------------------------------------------------


def disagreements(spends: tuple[Spend, ...], drawn: list[Drawn]) -> list[str]:
    """What does not fit: spends whose noise was not drawn, and draws that no spend tells.

    Noise is told by its law and its scale, or where a clip was bought by the ratio of scale and
    sensitivity. What is spent as `pure` or `approximate` says nothing of its noise: so draws of
    methods that have such a part need not be told, but for those whose sensitivity is known.
    """
    told = [s for s in spends if s.scale is not None and s.sensitivity is not None]
    wrong = []

    def fits(spend: Spend, draw: Drawn) -> bool:
        assert spend.scale is not None and spend.sensitivity is not None
        scale = Fraction(*spend.scale)
        if spend.mechanism != draw.law:
            return False
        if scale == draw.scale:
            return True
        if draw.sensitivity is None:
            return False
        ratio = (draw.scale / draw.sensitivity) / (scale / Fraction(spend.sensitivity))
        return abs(ratio - 1) < Fraction(1, 10**4)  # what is rounded and discrete

    for spend in told:
        if not any(fits(spend, draw) for draw in drawn):
            wrong.append(f"{spend.what} was not drawn")
    is_open = len(told) < len(spends)
    for draw in drawn:
        is_known = draw.sensitivity is not None and draw.law != "selection"
        if (is_known or not is_open) and not any(fits(spend, draw) for spend in told):
            wrong.append(f"{draw.purpose} is not told")
    return wrong


RIGOROUS = [
    (name, k)
    for name, method in sorted(METHODS.items())
    for k, example in enumerate(method.examples)
    if method.guarantee_kind == "rigorous" or example.get("budget") == "honest"
]


def drawn_by(method: Anonymizer, params: Any) -> list[Drawn]:
    recording = Recording()
    run_rounds([trace_batch(LOG)], method, params, release_key(), noise=recording)
    return recording.drawn


@pytest.mark.parametrize(("name", "k"), RIGOROUS)
def test_what_is_drawn_is_what_is_spent(name: str, k: int) -> None:
    method = METHODS[name]
    params = method.Params(**method.examples[k])
    drawn = drawn_by(method, params)
    assert drawn
    assert disagreements(method.spends(params), drawn) == []


def test_noise_that_is_not_what_is_spent_is_found() -> None:
    """The control: what is drawn at one epsilon, and what is spent at twice that."""
    method, example = PrivateDfg(), PrivateDfg.examples[0]
    drawn = drawn_by(method, method.Params(**example))
    assert disagreements(method.spends(method.Params(**example)), drawn) == []
    more = method.Params(**{**example, "epsilon": "2"})
    assert disagreements(method.spends(more), drawn) == [
        "edges was not drawn",
        "edge sum is not told",
    ]
