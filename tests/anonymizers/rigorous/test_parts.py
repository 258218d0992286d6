"""Parts of epsilon: one more is seen everywhere, and what is drawn is what is spent."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.support.examples import examples_of
from tests.support.keys import randomness, release_key
from tests.support.logs import histogram, trace_batch
from tests.support.recording import Drawn, Recording
from tests.support.rounds import run_rounds
from tracecloak.anonymizers.accounting.composition import Spend, total
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.contract.counters import CountVariants
from tracecloak.anonymizers.contract.method import Anonymizer, Decision, PartsDecision
from tracecloak.anonymizers.graphs.private_dfg import PrivateDfg
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.noise.sums import MeasureRecorder, SumNoise
from tracecloak.anonymizers.registry import METHODS
from tracecloak.anonymizers.rigorous.budget import Choice, Sums
from tracecloak.anonymizers.rigorous.params import DECLARED, RigorousParams
from tracecloak.anonymizers.rigorous.parts_method import Given, Part, PartsMethod

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


# --- Methods of parts -----------------------------------------------------------------------------


class Twice(PartsMethod):
    """Chooses a number in the first round, adds two in the second, each on that before it."""

    name: ClassVar[str] = "twice"
    Params: ClassVar[type[RigorousParams]] = RigorousParams

    def parts(self, params: RigorousParams) -> tuple[Part, ...]:
        def part(name: str, need: Any, round_name: str, chosen: str = "") -> Part:
            def decide(given: Given) -> Any:
                known = sorted(given.decisions)
                seen.append((name, known, sorted(given.statistics), given.means[name]))
                return Decision()

            counters = {} if name == "c" else {"variants": CountVariants()}
            reality = f"It holds for {name}." if name != "b" else ""
            return Part(
                *(name, (need,), lambda means: f"does {name}", decide, counters, round_name),
                *(reality, chosen),
            )

        half, one = Fraction(1, 2), of_one_cell(params.max_units)
        return (
            part("a", Choice("a", Fraction(1, 10)), "first", "letter"),
            part("b", Choice("b", Fraction(1, 10)), "second", "number"),
            part("c", Sums("c", half, one), "second"),
            part("d", Sums("d", half, one), "second"),
        )

    def combined(
        self, round_name: str, decided: dict[str, Any], given: Given, params: RigorousParams
    ) -> Decision:
        return PartsDecision(decided)


seen: list[tuple[str, list[str], list[str], Any]] = []
TWICE, PURE = Twice(), RigorousParams(epsilon="2", delta="0")


def test_what_is_said_of_a_method_is_what_its_parts_say() -> None:
    assert TWICE.rounds(PURE) == ("first", "second")
    assert TWICE.bounds(PURE) == PURE.bounds
    spends = TWICE.spends(PURE)
    assert [(spend.what, spend.epsilon) for spend in spends] == [
        *(
            ("a", Fraction(1, 5)),
            ("b", Fraction(1, 5)),
            ("c", Fraction(4, 5)),
            ("d", Fraction(4, 5)),
        )
    ]
    assert total(spends) == PURE.budget
    guarantee = TWICE.guarantee(PURE)
    assert (guarantee.kind, guarantee.epsilon, guarantee.delta) == ("rigorous", 2, 0)
    assert guarantee.reality == (
        "It holds for a. It holds for c. It holds for d. Chosen on the log and paid for: letter "
        "and number."
    )
    assert guarantee.not_covered[0] == DECLARED
    assert TWICE.explain(PURE) == tuple(
        f"{name}: does {name}; spends epsilon {epsilon}"
        for name, epsilon in (("a", "0.2"), ("b", "0.2"), ("c", "0.8"), ("d", "0.8"))
    )
    assert TWICE.requires("first", PURE) == TWICE.requires("second", PURE)
    assert TWICE.requires("third", PURE) == {}


def test_parts_are_decided_in_turn_on_what_was_decided_before() -> None:
    seen.clear()
    counted = {"variants": histogram({("A",): 1}, "A")}
    first = TWICE.decide("first", counted, {}, PURE, randomness())
    assert isinstance(first, PartsDecision) and list(first.parts) == ["a"]
    second = TWICE.decide("second", counted, first.parts, PURE, randomness())
    assert isinstance(second, PartsDecision) and list(second.parts) == ["b", "c", "d"]
    known = [(name, decisions) for name, decisions, _, _ in seen]
    assert known == [("a", []), ("b", ["a"]), ("c", ["a", "b"]), ("d", ["a", "b", "c"])]
    means = TWICE.budget(PURE).means
    assert all(own == means[name] for name, _, _, own in seen)


def test_nothing_divides_by_case_that_does_not_say_so() -> None:
    several = RigorousParams(epsilon="2", delta="0", max_cases_per_individual=3)
    assert not TWICE.shares_by_case(several)
    proved = type("Proved", (Twice,), {"moves_by_case": lambda self, params: True})()
    assert proved.shares_by_case(several)
    assert TWICE.guarantee(several).unit == "individual"
