"""How parts pay together: shares, which noise, and what is recorded against other accountants.

The accountant of others is dp-accounting; small mechanisms are enumerated exactly.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from tests.anonymizers.rigorous.test_parts import RIGOROUS
from tests.support.examples import examples_of
from tests.support.tiers import at_night
from tracecloak.anonymizers.accounting.composition import (
    Block,
    Spend,
    continuous_deviation,
    decimal_text,
    total,
)
from tracecloak.anonymizers.accounting.sensitivity import (
    of_clipped_cells,
    of_distinct_cells,
    of_one_cell,
)
from tracecloak.anonymizers.registry import METHODS
from tracecloak.anonymizers.rigorous.budget import (
    UNITS,
    Budget,
    Choice,
    Need,
    Pure,
    Sums,
    budget_of,
)
from tracecloak.schemas.errors import UsageError

HALF, QUARTER, MILLIONTH = Fraction(1, 2), Fraction(1, 4), Fraction("1e-6")
CASE = of_one_cell()


def random_needs(generator: np.random.Generator) -> tuple[Need, ...]:
    """Up to two choices, something pure at times, and one to five sums of any shares."""
    needs: list[Need] = [
        Choice(f"choice {i}", Fraction(int(generator.integers(1, 50)), 1000))
        for i in range(generator.integers(0, 3))
    ]
    if generator.random() < 0.3:
        needs.append(Pure("pure", Fraction(int(generator.integers(1, 400)), 7), CASE))
    for i in range(generator.integers(1, 6)):
        share = Fraction(int(generator.integers(1, 1000)), int(generator.integers(1, 1000)))
        changed = of_distinct_cells(int(generator.integers(1, 40)), int(generator.integers(1, 4)))
        if generator.random() < 0.4:
            needs.append(Sums(f"open {i}", share, changed, is_open=True))
        elif generator.random() < 0.5:
            needs.append(Sums(f"sums {i}", share, changed))
        else:
            clipped = of_clipped_cells(int(generator.integers(1500, 9000)))
            needs.append(Sums(f"sums {i}", share, clipped, UNITS, generator.random() < 0.5))
    return tuple(needs)


@functools.cache
def random_budgets(n: int) -> list[Budget]:
    generator, found = np.random.default_rng(11), []
    for _ in range(n):
        epsilon = Fraction(f"{10 ** generator.uniform(-1, 1):.4f}")
        delta = Fraction(f"{10 ** generator.uniform(-9, -3):.3e}")
        found.append(budget_of(epsilon, delta, random_needs(generator)))
    return found


@pytest.mark.parametrize("n", [25, at_night(300)])
def test_shares_of_any_needs_add_up_exactly(n: int) -> None:
    """And all that is released of them are decimals of a few places."""
    is_joint = []
    for made in random_budgets(n):
        spends = made.spends()
        assert total(spends) == (made.epsilon, made.delta)
        for spend in spends:
            spend.to_json()
        own = made.means
        assert own.keys() == {need.name for need in made.needs}
        choices = [need for need in made.needs if isinstance(need, Choice)]
        assert all(own[c.name].epsilon == made.epsilon * c.share for c in choices)
        sums = [need for need in made.needs if isinstance(need, Sums)]
        is_joint.append(made.deviation is not None)
        whole = sum((need.share for need in sums), Fraction(0))
        if made.deviation is None:
            assert sum(o.epsilon for o in own.values()) == made.epsilon
            opened = [own[need.name].delta for need in sums if need.is_open]
            assert sum(opened) == (made.delta if opened else 0)
            assert made.explanation == ""
            continue
        assert sum(own[need.name].share for need in sums) == 1
        for need in sums:
            assert own[need.name].share == need.share / whole
            assert (own[need.name].delta > 0) == need.is_open
            assert own[need.name].epsilon == 0
        assert sum(o.epsilon for o in own.values()) < made.epsilon
        assert sum(o.delta for o in own.values()) < made.delta
        assert decimal_text(made.delta) in made.explanation
    assert {True, False} == set(is_joint)


def test_sums_that_are_bounded_in_l2_only_have_gaussian_noise() -> None:
    """Whatever would err less, or where it cannot be had it is refused."""
    need = Sums("a", Fraction(1), CASE, is_l2=True)
    assert budget_of(Fraction(1), MILLIONTH, (replace(need, is_l2=False),)).deviation is None
    assert budget_of(Fraction(1), MILLIONTH, (need,)).deviation is not None
    with pytest.raises(UsageError, match="must be at least 1e-9"):
        budget_of(Fraction("1e-10"), MILLIONTH, (need,))


def test_without_delta_noise_is_laplace_and_nothing_open_is_released() -> None:
    needs = tuple(Sums(f"{i}", QUARTER, CASE) for i in range(4))
    assert budget_of(Fraction(1), Fraction(0), needs).deviation is None
    with pytest.raises(UsageError, match="delta must be above 0 for cells that"):
        budget_of(Fraction(1), Fraction(0), (*needs, Sums("a", HALF, CASE, is_open=True)))


def test_the_widest_noise_that_may_be_needed_is_refused_beforehand() -> None:
    clip = of_clipped_cells(1 << 30)
    public = Sums("a", Fraction(1), CASE.times(8), 8, True)
    whole = Sums("a", Fraction(1), CASE, is_any_clip=True)
    for need, largest, is_refused in (
        (public, None, False),
        (public, clip, False),  # in steps of that lattice, not in occurrences
        (public, clip.times(1 << 10), True),
        (whole, of_clipped_cells(1 << 20), False),
        (whole, clip, True),
    ):
        made = budget_of(Fraction(1), MILLIONTH, (replace(need, largest=largest),))
        if is_refused:
            with pytest.raises(UsageError, match="raise epsilon"):
                made.spends()
        else:
            assert made.spends()


@pytest.mark.parametrize("units", [1, 16, 1024])
def test_whatever_clip_is_bought_no_less_is_recorded_than_is_spent(units: int) -> None:
    """The noise is in proportion to the clip, up to what is rounded."""
    need = Sums("sums", HALF, of_clipped_cells(units), units, is_any_clip=True)
    made = budget_of(Fraction(1), MILLIONTH, (Choice("clip", Fraction(1, 50)), need))
    [block] = made.spends()[0].blocks
    for clip in (units, units + 1, 3 * units, 100 * units, 12_345 * units):
        noise = made.means["sums"].noise(of_clipped_cells(clip), units)
        real = (clip / continuous_deviation(Fraction(*noise.scale))) ** 2
        assert real <= block.squared_loss <= real * (1 + Fraction(1, 10**6))


def gaussian(squared: float, interval: float) -> pld.PrivacyLossDistribution:
    return pld.from_gaussian_mechanism(
        1 / math.sqrt(squared), value_discretization_interval=interval
    )


def response(epsilon: Fraction, interval: float) -> pld.PrivacyLossDistribution:
    """Randomised response, the worst of all choices: keeps the truth with chance 1 - p / 2."""
    p = 2 / (math.exp(epsilon) + 1)
    return pld.from_randomized_response(p, 2, value_discretization_interval=interval)


def reaccounted(
    blocks: Sequence[Block], choices: Sequence[Fraction], delta: Fraction, interval: float
) -> float:
    """The epsilon of a joint mechanism, made anew of its blocks and choices."""
    most = 0.0
    opened = [block for block in blocks if block.delta]
    for are_new in itertools.product((False, True), repeat=len(opened)):
        new = list(itertools.compress(opened, are_new))
        rest = delta - sum((block.delta for block in new), Fraction(0))
        if rest <= 0:
            return math.inf
        laws = [response(epsilon, interval) for epsilon in choices]
        squared = sum(
            float(block.sensitivity / Fraction(*block.scale)) ** 2
            for block in blocks
            if block not in new
        )
        if squared:
            laws.append(gaussian(squared, interval))
        if laws:
            made = laws[0]
            for law in laws[1:]:
                made = made.compose(law)
            most = max(most, made.get_epsilon_for_delta(float(rest)))
    return most


def check(spends: tuple[Spend, ...], epsilon: Fraction, delta: Fraction) -> None:
    """The parts keep the claim by an accountant of others, and use 0.97 of it."""
    interval = float(epsilon) / 5000
    found, slack = 0.0, 0.0
    for spend in spends:
        if spend.mechanism == "joint":
            choices = [own for _, own in spend.choices]
            found += reaccounted(spend.blocks, choices, spend.delta, interval)
            slack += interval * (1 + len(choices))
        elif spend.mechanism == "discrete_gaussian":
            assert spend.scale is not None and spend.sensitivity is not None
            block = Block(spend.what, spend.scale, Fraction(spend.sensitivity))
            found += reaccounted([block], [], spend.delta, interval)
            slack += interval
        elif spend.mechanism == "discrete_laplace":
            assert spend.scale is not None and spend.sensitivity is not None
            found += float(spend.sensitivity / Fraction(*spend.scale))
        else:
            found += float(spend.epsilon)
    assert sum(spend.delta for spend in spends) == delta
    assert 0.97 * epsilon <= found <= 1.001 * epsilon + slack


@pytest.mark.parametrize(
    ("name", "k"), [own for own in RIGOROUS if METHODS[own[0]].guarantee_kind == "rigorous"]
)
def test_every_example_keeps_its_claim_and_uses_it(name: str, k: int) -> None:
    method = METHODS[name]
    params = method.Params(**examples_of(method)[k])
    promised = method.guarantee(params)
    spends = method.spends(params)
    assert total(spends) == params.budget
    assert (promised.epsilon, promised.delta) == (float(params.epsilon), float(params.delta))
    check(spends, *params.budget)


ATTRIBUTES = {
    "org:resource": {"values": ["R1", "R2"]},
    "case:age": {"bounds": [0, 100], "n_bins": 8},
    "case:kind": {"values": ["a", "b"]},
}
RANDOM = (
    *("private-log", "private-dfg", "process-tree", "markov-log", "joint-variants", "privtree"),
)


def random_configuration(name: str, generator: np.random.Generator) -> dict[str, Any]:
    """What is public of the log, of any parameters that the method has."""

    def one_of(*values: Any) -> Any:
        return values[generator.integers(len(values))]

    fields = METHODS[name].Params.model_fields
    given = {
        "epsilon": f"{10 ** generator.uniform(-1, 1):.4f}",
        "delta": f"{10 ** generator.uniform(-9, -5):.3e}",
        "max_cases_per_individual": one_of(None, 1, 3),
        "vocabulary": one_of(None, ("A", "B", "C")),
        "max_trace_length": one_of(None, 3, 30),
        "max_activities": one_of(4, 16),
    }
    given["buy_vocabulary"] = given["vocabulary"] is None
    if "l2_clip" in fields:
        given["l2_clip"] = one_of(None, "4")
    if "durations" in fields:
        given["durations"] = one_of(False, True)
    if "ends_share" in fields:
        given["ends_share"] = one_of("0", "0.05")
    if name == "private-log":
        named = ("auto", "variant-histogram", "markov-log", "joint-variants", "privtree")
        given["variants"] = one_of(*named, "sparse-histogram", "markov-log-pure")
        if one_of(False, True):
            given |= {"first_date": "2026-01-01", "last_date": "2026-12-31"}
        chosen = [key for key in ATTRIBUTES if generator.random() < 0.4]
        given["attributes"] = {key: ATTRIBUTES[key] for key in chosen}
    return given


@pytest.mark.parametrize("n", [3, at_night(40)])
@pytest.mark.parametrize("name", RANDOM)
def test_random_configurations_keep_their_claims_and_use_them(name: str, n: int) -> None:
    method, generator = METHODS[name], np.random.default_rng(RANDOM.index(name) + 100 * n)
    for _ in range(n):
        params = method.Params(**random_configuration(name, generator))
        check(method.spends(params), *params.budget)


def paid(name: str = "auto-variants") -> tuple[list[Block], list[Fraction], Fraction]:
    """The blocks and choices of a release at epsilon 1, and its delta."""
    method = METHODS[name]
    params = method.Params(epsilon="1", buy_vocabulary=True)
    [spend] = method.spends(params)
    return list(spend.blocks), [epsilon for _, epsilon in spend.choices], spend.delta


INTERVAL = 1e-4


def test_what_nobody_pays_is_found_by_the_same_accountant() -> None:
    """Controls of all above, at epsilon 1: each gives clearly more than the claim."""
    blocks, choices, delta = paid()
    first, *others = blocks
    assert 0.97 < reaccounted(blocks, choices, delta, INTERVAL) < 1.001
    more = {
        "a block too many": [*blocks, replace(first, delta=Fraction(0))],
        "a share of 1.2": [*(replace(b, scale=(b.scale[0] * 10, b.scale[1] * 11)) for b in blocks)],
        "a sensitivity too small": [replace(first, sensitivity=first.sensitivity * 3), *others],
        "a threshold of all of delta": [replace(first, delta=delta), *others],
        "another one of nearly all": [
            first,
            replace(blocks[1], delta=delta * Fraction("0.999")),
            *blocks[2:],
        ],
    }
    for wrong in more.values():
        assert reaccounted(wrong, choices, delta, INTERVAL) > 1.005
    assert reaccounted(blocks, [*choices, Fraction(1, 20)], delta, INTERVAL) > 1.005
    blocks, choices, delta = paid("private-log")
    assert choices
    assert 0.97 < reaccounted(blocks, choices, delta, INTERVAL) < 1.001
    assert reaccounted(blocks, [2 * epsilon for epsilon in choices], delta, INTERVAL) > 1.005
