"""A method of parts: what is said and done of it follows from its parts and from nothing else."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar

from tests.support.keys import randomness
from tests.support.logs import histogram
from tracecloak.anonymizers.accounting.composition import total
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.contract.counters import CountVariants
from tracecloak.anonymizers.contract.method import Decision, PartsDecision
from tracecloak.anonymizers.rigorous.budget import Choice, Sums
from tracecloak.anonymizers.rigorous.params import DECLARED, RigorousParams
from tracecloak.anonymizers.rigorous.parts_method import Given, Part, PartsMethod


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
