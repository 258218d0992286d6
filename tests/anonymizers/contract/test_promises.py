"""What the methods say of themselves is true of the parameters that they are given.

Every sentence of every method, with every combination of its named parameters: no epsilon in it is
below the one that holds, delta is no probability with which epsilon fails, and it says who is
protected.
"""

from __future__ import annotations

import re
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import pytest

from tests.anonymizers.contract.test_contract import (
    Described,
    descriptions,
    every_method,
    variations,
)
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.registry import METHODS
from tracecloak.anonymizers.rigorous.params import guarantee_of

# An epsilon of which it is said that it holds, or that it is what all costs together.
_HELD = re.compile(r"e\^([\d.]+) times|(?<![\d.])([\d.]+\d|\d)(?: with delta [\d.]+)? holds")
_IN_ALL = re.compile(r"([\d.]+\d|\d) in all")
# What delta is not: noise that is Gaussian passes e^epsilon far more often.
AS_FAILURE = re.compile(
    r"except|epsilon (?:may|does) not hold|bound (?:may|can) fail", re.IGNORECASE
)


def said(described: Described) -> list[str]:
    promise = described.guarantee
    return [promise.sentence, promise.short, promise.reality, *promise.not_covered,
            *described.explained]  # fmt: skip


@every_method
def test_no_epsilon_that_is_said_is_below_the_one_that_holds(method: Anonymizer) -> None:
    n_found = 0
    for described in descriptions(method):
        promise = described.guarantee
        if promise.epsilon is None or promise.kind == "syntactic":
            continue
        held = Fraction(repr(promise.epsilon))
        found = [one or other for text in said(described) for one, other in _HELD.findall(text)]
        if promise.kind == "published":
            found += _IN_ALL.findall(promise.reality)
        n_found += len(found)
        assert all(held <= Fraction(number) <= held * Fraction("1.00001") for number in found)
    kinds = {described.guarantee.kind for described in descriptions(method)}
    assert n_found or "rigorous" not in kinds


@every_method
def test_delta_is_no_probability_with_which_epsilon_fails(method: Anonymizer) -> None:
    texts = [text for described in descriptions(method) for text in said(described)]
    fields = method.Params.model_fields
    if "delta" in fields:
        texts.append(fields["delta"].description or "")
        assert "as if, with this probability" in texts[-1]
    assert not [text for text in texts if AS_FAILURE.search(text)]


def test_a_large_delta_is_said_to_allow_what_it_allows() -> None:
    method = METHODS["variant-histogram"]
    given = {"epsilon": "1", "delta": "0.001", "allow_large_delta": True, "max_cases": 500}
    promise = method.guarantee(method.Params(**given))
    assert "with probability up to 0.001 the release shows a whole" in promise.not_covered[0]
    assert not AS_FAILURE.search(promise.not_covered[0])


def test_gaussian_noise_passes_epsilon_far_more_often_than_delta() -> None:
    """The reason for the words: with epsilon 1 and delta 1e-6 it does so twenty times as often.

    The loss of Gaussian noise of deviation s at sensitivity 1 is normal with mean 1 / (2 s^2) and
    deviation 1 / s. That twice the factor has at most twice delta is what the statement says.
    """
    method = METHODS["private-dfg"]
    [whole] = method.spends(method.Params(epsilon="1", vocabulary=("A",), l2_clip="4"))
    squares = [float(b.sensitivity / Fraction(*b.scale)) ** 2 for b in whole.blocks]
    loss = NormalDist(sum(squares) / 2, sum(squares) ** 0.5)
    delta = float(whole.delta)
    passed, passed_twice = 1 - loss.cdf(1.0), 1 - loss.cdf(1.0 + 0.693148)
    assert 15 * delta < passed < 25 * delta
    assert passed_twice <= 2 * delta


@every_method
def test_who_is_protected_is_said(method: Anonymizer) -> None:
    for params, promise, _, _ in descriptions(method):
        n_cases = getattr(params, "max_cases_per_individual", None)
        about_people = [t for t in promise.not_covered if re.search("one individual|person", t)]
        if promise.unit == "case" and (promise.epsilon is not None or promise.kind == "syntactic"):
            assert about_people
        if promise.kind == "rigorous" and promise.unit == "individual":
            assert not about_people
            counted = "one case" if n_cases == 1 else f"at most {n_cases} cases"
            assert f"Of an individual {counted} count" in promise.reality
        if promise.epsilon is not None and getattr(params, "vocabulary", None):
            told = " ".join([promise.reality, *promise.not_covered])
            assert "public" in told
            assert "the input's own" not in told


def test_of_a_stream_cases_of_an_individual_count_in_each_step() -> None:
    method = METHODS["variant-histogram"]
    params = method.Params(epsilon="1", max_cases_per_individual=2)
    spends = method.spends(params)
    promise = guarantee_of(params, spends, "Why.", in_each=" in each step")
    assert promise.reality == (
        "Why. Of an individual at most 2 cases count in each step; the noise covers all of them."
    )


def test_amun_tells_no_cost_of_noise_that_was_not_added() -> None:
    """Oversampling has no epsilon, and the authors' moves leave counts without their noise."""
    found = set()
    for params in variations(METHODS["amun"]):
        reality = METHODS["amun"].guarantee(params).reality
        has_noise = params.mode != "oversampling" and params.choices.moves == "algorithm_1"
        found.add(has_noise)
        assert ("would cost epsilon_d times" in reality) == has_noise
        assert "is decided on the unprotected log" in reality
    assert found == {True, False}


@pytest.mark.parametrize("name", ["sacofa", "private-log"])
def test_plans_say_what_is_done_with_these_parameters(name: str) -> None:
    method = METHODS[name]
    if name == "sacofa":
        given: dict[str, Any] = {"epsilon": "1", "max_prefix_length": 3, "p_harmless": 2}
        [told] = method.explain(method.Params(**given, p_harmful="inf"))
        assert "harmless ones of at least 2 and no harmful one;" in told
        [told] = method.explain(method.Params(**given, p_harmful=5))
        assert "harmless ones of at least 2 and harmful ones of at least 5;" in told
        return
    given = {**method.examples[0], "max_cases_per_individual": 2}
    of_people = " ".join(method.explain(method.Params(**given)))
    assert "releases as many cases as count," in of_people
    of_cases = " ".join(method.explain(method.Params(**method.examples[0])))
    assert "releases as many cases as the log has," in of_cases
