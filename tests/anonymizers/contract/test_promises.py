"""What the methods say of themselves is true of the parameters that they are given.

Every sentence of every method, with every combination of its named parameters: no epsilon in it is
below the one that holds, delta is no probability with which epsilon fails, and it says who is
protected.
"""

from __future__ import annotations

import re
from fractions import Fraction

from tests.anonymizers.contract import test_contract
from tracecloak.anonymizers.contract.method import Anonymizer

# An epsilon of which it is said that it holds, or that it is what all costs together.
_HELD = re.compile(r"e\^([\d.]+) times|(?<![\d.])([\d.]+\d|\d)(?: with delta [\d.]+)? holds")
_IN_ALL = re.compile(r"([\d.]+\d|\d) in all")
# What delta is not: noise that is Gaussian passes e^epsilon far more often.
AS_FAILURE = re.compile(
    r"except|epsilon (?:may|does) not hold|bound (?:may|can) fail", re.IGNORECASE
)


def said(described: test_contract.Described) -> list[str]:
    promise = described.guarantee
    return [promise.sentence, promise.short, promise.reality, *promise.not_covered,
            *described.explained]  # fmt: skip


@test_contract.every_method
def test_no_epsilon_that_is_said_is_below_the_one_that_holds(method: Anonymizer) -> None:
    n_found = 0
    for described in test_contract.descriptions(method):
        promise = described.guarantee
        if promise.epsilon is None or promise.kind == "syntactic":
            continue
        held = Fraction(repr(promise.epsilon))
        found = [one or other for text in said(described) for one, other in _HELD.findall(text)]
        if promise.kind == "published":
            found += _IN_ALL.findall(promise.reality)
        n_found += len(found)
        assert all(held <= Fraction(number) <= held * Fraction("1.00001") for number in found)
    kinds = {described.guarantee.kind for described in test_contract.descriptions(method)}
    assert n_found or "rigorous" not in kinds
