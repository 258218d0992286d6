"""Parts of epsilon are values: one more is seen everywhere, and what is drawn is what is spent."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.support.examples import examples_of
from tests.support.keys import release_key
from tests.support.logs import trace_batch
from tests.support.recording import Drawn, Recording
from tests.support.rounds import run_rounds
from tracecloak.anonymizers.accounting.composition import Spend
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.graphs.private_dfg import PrivateDfg
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.noise.sums import MeasureRecorder, SumNoise
from tracecloak.anonymizers.registry import METHODS

LOG = {f"c{i}": ("A B C", "A C", "A B")[i % 3] for i in range(900)}


def disagreements(spends: tuple[Spend, ...], drawn: list[Drawn]) -> list[str]:
    """What does not fit: spends whose noise was not drawn, and draws that no spend tells."""
    told = [
        (s.what, s.mechanism, Fraction(*s.scale), Fraction(s.sensitivity))
        for s in spends
        if s.scale is not None and s.sensitivity is not None
    ]
    told += [
        (b.what, "discrete_gaussian", Fraction(*b.scale), b.sensitivity)
        for s in spends
        for b in s.blocks
    ]
    chosen = [epsilon for s in spends for _, epsilon in s.choices]
    chosen += [s.epsilon for s in spends if s.mechanism == "pure"]
    wrong = []
    instead = [epsilon for s in spends for way in s.instead for _, epsilon in way.parts]
    if instead and all(draw.law == "discrete_laplace" for draw in drawn):
        # It was done in place of all blocks: its counts have noise of a case, or of some, by one.
        told, chosen = [], [*chosen, *instead]
        if not any(
            (draw.scale * epsilon).denominator == 1 for draw in drawn for epsilon in instead
        ):
            wrong.append("what is done instead was not drawn")

    def fits(spend: tuple[str, str, Fraction, Fraction], draw: Drawn) -> bool:
        _, mechanism, scale, sensitivity = spend
        if mechanism != draw.law:
            return False
        if scale == draw.scale:
            return True
        if draw.sensitivity is None:
            return False
        ratio = (draw.scale / draw.sensitivity) / (scale / sensitivity)
        return abs(ratio - 1) < Fraction(1, 10**4)  # what is rounded and discrete

    # Vectors that divide the share of one block, by what was released before: their squares add up.
    divided: list[Drawn] = []
    for spend in told:
        if any(fits(spend, draw) for draw in drawn):
            continue
        what, mechanism, scale, sensitivity = spend
        own = [
            draw
            for draw in drawn
            if draw.purpose.startswith(f"{what}/")
            and draw.law == mechanism
            and not any(fits(other, draw) for other in told)
        ]
        squares = [(d.sensitivity / d.scale) ** 2 for d in own if d.sensitivity is not None]
        together = sum(squares, Fraction(0)) / (sensitivity / scale) ** 2
        if len(squares) == len(own) and abs(together - 1) < Fraction(1, 10**3):
            divided += own
        else:
            wrong.append(f"{what} was not drawn")
    is_open = bool(chosen) or any(s.scale is None and not s.blocks for s in spends)
    for draw in drawn:
        is_known = draw.sensitivity is not None and draw.law != "selection"
        if draw.law == "discrete_laplace" and draw.sensitivity is not None and chosen:
            is_known = draw.sensitivity / draw.scale not in chosen
        if draw.law == "selection" and draw.sensitivity is not None and chosen:
            is_known = draw.sensitivity / draw.scale > max(chosen)  # one of several, perhaps
        is_known |= draw.law == "discrete_gaussian" and draw.sensitivity is not None
        if draw in divided:
            continue
        if (is_known or not is_open) and not any(fits(spend, draw) for spend in told):
            wrong.append(f"{draw.purpose} is not told")
    return wrong


RIGOROUS = [
    (name, k)
    for name, method in sorted(METHODS.items())
    for k, example in enumerate(examples_of(method))
    if method.guarantee_kind == "rigorous" or example.get("budget") == "honest"
]


@pytest.fixture(autouse=True)
def told_by_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """What noise of sums was made to cover is noted wherever it is drawn."""
    draw = SumNoise.draw

    def noted(noise: SumNoise, stream: CellStream) -> np.ndarray:
        drawn = draw(noise, stream)
        recording = stream.noise
        if isinstance(recording, MeasureRecorder):
            recording = recording.inner
        if isinstance(recording, Recording):
            recording.drawn[-1] = recording.drawn[-1]._replace(sensitivity=noise.sensitivity)
        return drawn

    monkeypatch.setattr(SumNoise, "draw", noted)


def drawn_by(method: Anonymizer, params: Any) -> list[Drawn]:
    recording = Recording()
    run_rounds([trace_batch(LOG)], method, params, release_key(), noise=recording)
    return recording.drawn


@pytest.mark.parametrize(("name", "k"), RIGOROUS)
def test_what_is_drawn_is_what_is_spent(name: str, k: int) -> None:
    method = METHODS[name]
    params = method.Params(**examples_of(method)[k])
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
        *("edges was not drawn", "edges beyond was not drawn"),
        *("edge sum is not told", "edge sum beyond is not told"),
    ]


def test_of_a_joint_budget_too_every_difference_is_found() -> None:
    """Controls: twice the epsilon, a block and a choice that nobody pays."""
    method = METHODS["markov-log"]
    params = method.Params(**examples_of(method)[2])
    drawn = drawn_by(method, params)
    [spend] = method.spends(params)
    assert disagreements((spend,), drawn) == []
    more = method.Params(**{**examples_of(method)[2], "epsilon": "40"})
    assert disagreements(method.spends(more), drawn) == [
        *(f"{block.what} was not drawn" for block in spend.blocks),
        *("activity is not told", "markov-log/clip is not told", "markov-log/sum is not told"),
    ]
    fewer = replace(spend, blocks=spend.blocks[1:])
    assert disagreements((fewer,), drawn) == ["activity is not told"]
    method = METHODS["private-log"]
    params = method.Params(**examples_of(method)[1])
    drawn = drawn_by(method, params)
    [spend] = method.spends(params)
    less = replace(spend, choices=tuple((name, epsilon / 4) for name, epsilon in spend.choices))
    assert disagreements((less,), drawn) == [
        "time_range length is not told", "time_range place is not told"
    ]  # fmt: skip
