"""Groups of activities beside activities: what is measured, what it costs, and what comes out."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.support.coupled_noise import dearest_of_variants
from tests.support.generators import answer_of, budget
from tests.support.keys import randomness, release_key
from tests.support.logs import Variant, histogram, trace_batch
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.registry import method_named
from tracecloak.anonymizers.rigorous.names import Grouping
from tracecloak.anonymizers.variants import grouped_variants, joint_variants
from tracecloak.anonymizers.variants.generator import Domain
from tracecloak.anonymizers.variants.grouped_variants import (
    CLEAR,
    HIDDEN,
    GroupedVariants,
    GroupSums,
    group_chain,
)
from tracecloak.anonymizers.variants.joint_variants import JointVariants, Measured
from tracecloak.schemas.events.events import OTHER, ActivityVocabulary
from tracecloak.schemas.published import figures
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.clipped_flows import CaseCells
from tracecloak.schemas.statistics.variants import VariantHistogram

NAMES = ("A1", "A2", "B1")
VOCABULARY = ActivityVocabulary.public(NAMES)
DELTA = Fraction(1, 10**6)
BY_LETTER = Grouping({"A1": "A", "A2": "A", "B1": "B"})
GROUPED = GroupedVariants(BY_LETTER)
METHOD: Any = method_named("joint-variants")
LENGTH = 5
BOTH = pytest.mark.parametrize("is_hidden", [True, False])


def counted(log: dict[Variant, int]) -> VariantHistogram:
    return histogram(log, VOCABULARY.names.to_pylist())


def domain(max_units: int = 1) -> Domain:
    return Domain(VOCABULARY, LENGTH, max_units)


def variants_of(made: ReleasedVariants) -> Counter[Variant]:
    return Counter({tuple(row["variant"]): row["count"] for row in made.to_table().to_pylist()})


def decide_as(monkeypatch: pytest.MonkeyPatch, is_hidden: bool) -> None:
    monkeypatch.setattr(grouped_variants, "hides_activities", lambda *_: is_hidden)


LOGS: dict[str, dict[Variant, int]] = {
    "empty": {},
    "one case": {("A1",): 1},
    "other": {(OTHER, "A1"): 30, (OTHER,): 20},
    "frequent": {("A1", "B1"): 500, ("A1", "A2", "B1"): 200, ("B1",): 2},
    "many": {v: 1 + 7 * i % 5 for i, v in enumerate(itertools.product(NAMES, repeat=4))},
}


@pytest.mark.by_day(6)
@BOTH
@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1), Fraction(100)])
@pytest.mark.parametrize("log", LOGS)
def test_every_release_stays_within_the_domain(
    log: str, epsilon: Fraction, is_hidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide_as(monkeypatch, is_hidden)
    given = counted(LOGS[log]), domain(), epsilon, DELTA
    found = variants_of(answer_of(GROUPED, *given, randomness()))
    assert all(1 <= len(variant) <= LENGTH for variant in found)
    assert set(itertools.chain(*found)) <= {*NAMES, OTHER}
    assert found == variants_of(answer_of(GROUPED, *given, randomness()))


@BOTH
def test_with_next_to_no_noise_it_is_the_log(
    is_hidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide_as(monkeypatch, is_hidden)
    log = LOGS["frequent"]
    given = counted(log), domain(), Fraction(900), DELTA
    found = variants_of(answer_of(GROUPED, *given, randomness()))
    assert sum(abs(found[v] - log.get(v, 0)) for v in {*found, *log}) <= 4


def wide_log(n_names: int, n_cases: int) -> tuple[VariantHistogram, ActivityVocabulary]:
    """All of one group, then all of the next; which of its names occur is random."""
    names = [f"{group}{i:02}" for group in "PQR" for i in range(n_names)]
    vocabulary = ActivityVocabulary.public(names)
    generator = np.random.default_rng(1)
    log = Counter(
        tuple(
            f"{group}{i:02}"
            for group in "PQR"
            for i in generator.integers(n_names, size=5).tolist()
        )
        for _ in range(n_cases)
    )
    return histogram(log, vocabulary.names.to_pylist()), vocabulary


def by_letter(vocabulary: ActivityVocabulary) -> Grouping:
    return Grouping({name: name[0] for name in vocabulary.names.to_pylist() if name != OTHER})


def in_order(variants: Counter[Variant]) -> float:
    """The share of the cases that go through all groups, one after the other, as all cases do."""
    groups = Counter({v: n for v, n in variants.items() if {x[0] for x in v} == set("PQR")})
    fits = (n for v, n in groups.items() if [x[0] for x in v] == sorted(x[0] for x in v))
    return sum(fits) / variants.total()


def test_cases_follow_groups_whose_activities_noise_hides() -> None:
    """Hardly a pair of activities is clear, so without groups cases end early."""
    exact, vocabulary = wide_log(30, 600)
    shares = []
    for number in range(9):
        given = exact, Domain(vocabulary, 20, 1), Fraction(1), DELTA, randomness(number)
        with_groups = variants_of(answer_of(GroupedVariants(by_letter(vocabulary)), *given))
        without = variants_of(answer_of(JointVariants(), *given))
        assert with_groups.total() == pytest.approx(600, abs=150)
        shares.append((in_order(with_groups), in_order(without)))
    of_groups, of_names = np.mean(shares, axis=0)
    assert of_groups > 0.15 > 0.05 > of_names


def _units(max_units: int) -> Iterator[tuple[Variant, ...]]:
    cases = [v for n in (1, 2, 3) for v in itertools.product(NAMES, repeat=n)] + [("A1",) * LENGTH]
    if max_units == 1:
        return ((case,) for case in cases)
    return itertools.combinations_with_replacement(cases[::4], max_units)


def _moved(max_units: int, before: dict[Variant, int]) -> tuple[float, dict[str, float]]:
    """How far a unit moves all sums together at most, and each: shares of the budget."""
    of_unit = {"max_cases_per_individual": max_units} if max_units > 1 else {}
    given = {"vocabulary": NAMES, "max_trace_length": LENGTH, "groups": BY_LETTER.listed}
    params: Any = METHOD.Params(epsilon="1", **given, **of_unit)
    whole = METHOD.budget(params).deviation ** 2
    most, each = dearest_of_variants(METHOD, params, before, _units(max_units), NAMES)
    return float(most * whole), {what: float(own * whole) for what, own in each.items()}


@BOTH
@pytest.mark.parametrize("max_units", [1, 2])
@pytest.mark.parametrize("before", [{}, {("A1", "B1"): 2, ("A2",): 1}])
def test_a_unit_moves_both_levels_together_no_further_than_their_share_covers(
    before: dict[Variant, int], max_units: int, is_hidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And all sums no further than the budget, of which nearly nothing is left."""
    decide_as(monkeypatch, is_hidden)
    most, each = _moved(max_units, before)
    assert len(each) == 8 and 0.98 < most <= 1
    own = budget(GROUPED, 1, DELTA, max_units, LENGTH).means["joint-variants"]
    covered = own.share * (HIDDEN if is_hidden else CLEAR)
    assert 0.98 * covered < each["joint-variants/groups"] <= covered


def test_sums_of_groups_that_nobody_clips_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a case's vector as it is, under the noise of a clipped one."""
    monkeypatch.setattr(CaseCells, "clipped", lambda self, _, units: self.counts * units)
    with pytest.raises(AssertionError):
        _moved(1, {})


def test_groups_that_are_paid_by_nobody_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: activities have the whole share, and groups a share beside it."""
    whole = budget(GROUPED, Fraction(1), DELTA, 1, LENGTH).means
    monkeypatch.setattr(joint_variants, "Measured", lambda *a: Measured(*a[:4], whole, a[-1]))
    decide_as(monkeypatch, True)
    assert _moved(1, {})[0] > 1


def measured_of(log: VariantHistogram, where: Domain, grouping: Grouping, epsilon: int) -> Any:
    means = budget(GROUPED, Fraction(epsilon), DELTA).means
    whole = means["joint-variants"]
    number = joint_variants.noisy_number(log, means, 1, "joint-variants", randomness())
    fine = {**means, "joint-variants": whole.part(1 - HIDDEN)}
    groups = grouping.of(where.vocabulary)
    of_groups = whole.part(HIDDEN), means["joint-variants group ranks"], "joint-variants"
    return (
        Measured("joint-variants", log, number, where, fine, randomness()),
        GroupSums(log, groups, where, *of_groups, randomness()),
    )


@pytest.mark.parametrize("epsilon", [1, 20])
def test_a_chain_is_one_and_its_groups_come_as_they_were_counted(
    epsilon: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joint_variants, "unseen_stand_out", lambda *_: False)
    exact, vocabulary = wide_log(20, 2000)
    grouping = by_letter(vocabulary)
    measured, sums = measured_of(exact, Domain(vocabulary, 30, 1), grouping, epsilon)
    chain = group_chain(measured, sums)
    assert chain is not None
    assert chain.starts.sum() == pytest.approx(1)
    assert np.allclose(chain.steps.sum(axis=2), 1) and (chain.steps >= 0).all()
    begins, labels = (
        np.bincount(sums.groups.codes, chain.starts),
        sums.groups.names.names.to_pylist(),
    )
    # All 2,000 begin with P; four deviations of the noise that all groups have together.
    noise = 4 * math.sqrt(len(labels)) * sums.by_bin[1][0, 0] / 2000
    assert begins[labels.index("P")] > 1 - noise > 0.75
    if epsilon == 20:  # the fifth event is of P, and the sixth of Q, in every case
        is_q = np.append(sums.groups.codes == labels.index("Q"), False)
        come = chain.starts
        for bin_of in sums.cells.bins[1:6].tolist():
            come = (come[:, None] * chain.steps[bin_of - 1]).sum(axis=0)[:-1]
        assert come[is_q[:-1]].sum() > 0.6 * come.sum()


def test_the_method_notes_groups_and_steps_and_nothing_without_groups() -> None:
    log = {f"case {i}": "A1 B1" if i % 3 else "A1 A2 B1" for i in range(300)}
    method = method_named("joint-variants")
    given: dict[str, Any] = {"epsilon": "4", "vocabulary": NAMES, "max_trace_length": 4}
    without = anonymise([trace_batch(log)], method, method.Params(**given), release_key(), "r", "c")
    assert set(without.products.by_name) == {"variants"}
    groups = {"A1": "A", "A2": "A", "B1": "B"}
    params = method.Params(**given, groups=groups)
    made = anonymise([trace_batch(log)], method, params, release_key(), "r", "c")
    rows = made.products.by_name["measures"].rows
    assert {row.of for row in rows(figures.GROUP)} == {*groups.items(), (OTHER, OTHER)}
    for row in rows(figures.STEP):
        if row.of in (("A", "B"), ("▶", "A")):
            assert row.value == pytest.approx(300, abs=4 * row.deviation) and row.deviation < 25
    assert len(rows(figures.GROUP_CLIP)) == len(rows(figures.STEP_NOT_SHOWN)) == 1
    assert [row.value for row in rows(figures.GROUP_POSITION)] == [0, 1, 2, 3, 4]
