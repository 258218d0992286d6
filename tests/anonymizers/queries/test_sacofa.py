"""SaCoFa: rules of public models and of logs, its query against plain Python, and what it costs."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.chi_square import ALPHA, p_value_of_law
from tests.support.examples import examples_of
from tests.support.keys import randomness
from tests.support.logs import Variant, log_of
from tests.support.privacy_loss import BITS, ONE, Law, delta_between, power_of_e
from tests.support.privacy_loss import discrete_laplace as laplace_law
from tests.support.rounds import released_variants
from tests.support.trees import shuffles
from tracecloak.anonymizers.accounting.sensitivity import of_order
from tracecloak.anonymizers.noise.published import choose_harmful
from tracecloak.anonymizers.noise.randomness import cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.queries.order_rules import NamedRules, OrderRules, rules_of_model
from tracecloak.anonymizers.queries.sacofa import Sacofa, SacofaParams, judge_by_rules
from tracecloak.schemas import models
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import OTHER, ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.models import net_of_tree
from tracecloak.schemas.statistics.relations import ActivityRelations

Words = frozenset[tuple[str, ...]]


def words_of(tree: models.ProcessTree) -> Words:
    """All sequences in which no loop goes back more than twice."""
    if tree.operator is None:
        return frozenset({() if tree.label is None else (tree.label,)})
    below = [words_of(child) for child in tree.children]
    if tree.operator == "exclusive":
        return frozenset().union(*below)
    if tree.operator == "loop":
        body, back = below
        once = frozenset(a + b for a in back for b in body)
        again = [frozenset(a + b for a in body for b in once)]
        again.append(frozenset(a + b for a in again[0] for b in once))
        return body.union(*again)
    made: Words = frozenset({()})
    for words in below:
        made = frozenset(
            word
            for a, b in itertools.product(made, words)
            for word in (shuffles(a, b) if tree.operator == "parallel" else {a + b})
        )
    return made


def naive_rules(words: Words) -> NamedRules:
    names = sorted({name for word in words for name in word})

    def pairs(holds: object) -> tuple[tuple[str, str], ...]:
        return tuple(
            (a, b)
            for a, b in itertools.product(names, repeat=2)
            if all(holds(word, a, b) for word in words)  # type: ignore[operator]
        )

    return NamedRules(
        activities=tuple(names),
        begins=tuple(sorted({word[0] for word in words if word})),
        never=pairs(lambda w, a, b: (a, b) not in set(itertools.combinations(w, 2))),
        always_follows=pairs(lambda w, a, b: a not in w or b in w[w.index(a) + 1 :]),
        always_precedes=pairs(lambda w, a, b: b not in w or a in w[: w.index(b)]),
    )


leaves = st.one_of(st.sampled_from("ABC").map(models.leaf), st.just(models.SILENT))


def trees(
    children: st.SearchStrategy[models.ProcessTree],
) -> st.SearchStrategy[models.ProcessTree]:
    several = st.lists(children, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(
            lambda operator, below: models.ProcessTree(operator, None, below),
            st.sampled_from(["sequence", "exclusive", "parallel"]),
            several,
        ),
        st.builds(models.loop, children, children),
    )


@given(st.recursive(leaves, trees, max_leaves=4))
@settings(max_examples=150, deadline=None)
def test_rules_of_a_tree_are_those_of_its_sequences(tree: models.ProcessTree) -> None:
    words = words_of(tree)
    if words == {()}:
        with pytest.raises(UsageError, match="no activity on any way"):
            rules_of_model(net_of_tree(tree))
        return
    assert rules_of_model(net_of_tree(tree)) == naive_rules(words)


METHOD = Sacofa()
LOG_RULES: dict[str, Any] = {"epsilon": "1", "max_prefix_length": 3, "p_harmful": 4}
MODEL: dict[str, Any] = examples_of(Sacofa)[2]["model"]
WITH_MODEL = {**LOG_RULES, "vocabulary": ("A", "B", "C"), "rules": "model", "model": MODEL}
BOUGHT = {**LOG_RULES, "vocabulary": ("A", "B", "C"), "rules": "bought", "budget": "honest"}

# Table 1a of the paper: Register, Triage, Surgery, Antibiotics, Consultation, reLease. Two counts
# are illegible and add up to 11.
TABLE_1A = {"RTSL": 20, "RTSAL": 12, "RTAAL": 6, "RTASL": 5, "RTCL": 2, "RTCSL": 4}


def rules_of(log: TraceBatch, at_first: bool = True) -> OrderRules:
    return OrderRules.from_relations(ActivityRelations.from_traces(log), log.vocabulary, at_first)


def violations_of(rules: OrderRules, names: Sequence[str], prefix: str) -> dict[str, int]:
    """Violated rules by what is appended; the end is ■."""
    codes = np.array([[names.index(name) for name in prefix]], np.int32).reshape(1, len(prefix))
    found = rules.violations(codes)
    assert found.shape == (1, len(names) + 1) and found.dtype == np.int64
    return dict(zip([*names, "■"], found[0].tolist(), strict=True))


def released(log: TraceBatch, params: SacofaParams, number: int = 0) -> dict[Variant, int]:
    return released_variants(METHOD, log, params, number)


@pytest.mark.parametrize("at_first", [False, True])
def test_the_worked_example_of_the_paper(at_first: bool) -> None:
    """After Register, Triage, Antibiotics, Surgery only Antibiotics and Release are harmless."""
    assert sum(TABLE_1A.values()) == 49
    rules = rules_of(log_of(TABLE_1A), at_first)
    names = sorted("RTSACL")
    assert violations_of(rules, names, "RTAS") == {
        "R": 8, "T": 6, "S": 2, "C": 4, "■": 4, "A": 0, "L": 0,
    }  # fmt: skip
    assert violations_of(rules, names, "")["R"] == 0
    assert all(violations_of(rules, names, "")[name] == 1 for name in "TSACL")


def naive_violations(log: Sequence[str], names: str, prefix: str, at_first: bool) -> int:
    """The rules by their definition, one pair of activities and one case after the other."""
    inner = prefix.rstrip("■")

    def place(text: str, name: str) -> int:
        return text.index(name) if at_first else text.rindex(name)

    if len(prefix) == 1:
        return int(not any(case.startswith(prefix) for case in log))
    found = 0
    for a, b in itertools.product(names, repeat=2):

        def has_pair(text: str, a: str = a, b: str = b) -> bool:
            return a in text and b in text[text.index(a) + 1 :]

        def keeps_follows(text: str, a: str = a, b: str = b) -> bool:
            return a not in text or b in text[text.index(a) + 1 :]

        def keeps_precedes(text: str, a: str = a, b: str = b) -> bool:
            return b not in text or a in text[: place(text, b)]

        if not any(map(has_pair, log)) and has_pair(inner):
            found += 2
        known_a, known_b = (any(name in case for case in log) for name in (a, b))
        if known_b and all(map(keeps_precedes, log)) and not keeps_precedes(inner):
            found += 1
        is_ended = prefix.endswith("■")
        if is_ended and known_a and all(map(keeps_follows, log)) and not keeps_follows(inner):
            found += 1
    return found


texts = st.text("ABC", min_size=1, max_size=6)


@given(st.lists(texts, min_size=1, max_size=5), st.text("ABC", max_size=5), st.booleans())
@settings(max_examples=150, deadline=None)
def test_violations_are_those_of_the_definitions(
    log: list[str], prefix: str, at_first: bool
) -> None:
    rules = rules_of(log_of(Counter(log), "ABCD"), at_first)
    found = violations_of(rules, "ABCD", prefix)
    appended = "ABCD" if not prefix else "ABCD■"
    for name in appended:
        assert found[name] == naive_violations(log, "ABCD", prefix + name, at_first), name


@pytest.mark.parametrize("largest", [1, 2])
def test_harmful_prefixes_are_chosen_by_the_exponential_mechanism(largest: int) -> None:
    """6000 choices of 4 with 1, 2, 3 and 1 violations; control: the law of the other cap."""
    violations, cells = [1, 2, 3, 1], cell_numbers(np.arange(4))
    seen: Counter[Hashable] = Counter()
    for number in range(6000):
        keyed = randomness(number)
        chosen = choose_harmful(
            CellStream(keyed, "number", cells[:1]),
            keyed.words("which", cells),
            np.array(violations),
            largest,
            (2, 1),
        )
        seen[tuple(sorted(chosen.tolist()))] += 1
    a = math.exp(-1 / 2)
    assert p_value_of_law(seen, chosen_law(violations, largest, a)) > ALPHA
    assert p_value_of_law(seen, chosen_law(violations, 3 - largest, a)) < ALPHA
    assert p_value_of_law(seen, chosen_law(violations, largest, a**1.2)) < ALPHA


def chosen_law(violations: Sequence[int], largest: int, a: float) -> dict[Hashable, float]:
    """The law of the chosen ones, by every order in which they can be taken."""
    n = len(violations)
    weights = [a**j for j in range(n + 1)]
    law: Counter[Hashable] = Counter()
    for order in itertools.permutations(range(n)):
        for size, weight in enumerate(weights):
            taken, left = [], size
            for i in order:
                if left <= 0:
                    break
                taken.append(i)
                left -= min(violations[i], largest)
            law[tuple(sorted(taken))] += weight / sum(weights) / math.factorial(n)
    return dict(law)


def test_from_how_many_violations_on_a_prefix_is_harmful() -> None:
    """Of R, T, A, S and C after RTAS, with 8, 6, 0, 2 and 4 violations."""
    names = sorted("RTSACL")
    rules = rules_of(log_of(TABLE_1A))
    prefix = np.array([[names.index(name) for name in "RTAS"]], np.int32)
    for least, harmful in ((1, "CRST■"), (2, "CRST■"), (3, "CRT■"), (5, "RT"), (9, "")):
        params = SacofaParams(**LOG_RULES, harmful_from=least)
        judge = judge_by_rules(rules, params, randomness(), "s")
        found, _ = judge(prefix, cell_numbers(np.arange(7)), np.ones(7, bool))
        assert {[*names, "■"][i] for i in np.flatnonzero(found)} == set(harmful)


def test_what_is_harmful_is_pruned_by_its_own_threshold() -> None:
    """At p_harmful inf nothing that violates a rule comes out but what the reference spares."""
    log = log_of({"AB": 300, "ABC": 200, "AC": 100})
    model = {**MODEL, "activities": ("A", "B", "C")}
    for number in range(5):
        params = SacofaParams(
            **{
                **WITH_MODEL, "model": model, "p_harmful": "inf", "p_harmless": 4,
                "profile": "paper", "max_prefix_length": 4, "epsilon": "0.5",
            }
        )  # fmt: skip
        rules = NamedRules(**model)
        names = sorted(("A", "B", "C", OTHER))
        by_code = rules.over(ActivityVocabulary.public(("A", "B", "C")))
        for variant in released(log, params, number):
            codes = np.array([[names.index(name) for name in variant[:-1]]], np.int32)
            found = by_code.violations(codes.reshape(1, -1))[0]
            assert found[names.index(variant[-1])] == 0


def test_the_reference_keeps_exact_counts_and_nothing_else_does() -> None:
    """Cases begin with BC, which is harmful by the last event: its count of 7 has no noise."""
    log = log_of({"BCAB": 7, "AB": 40})
    exact = [
        released(log, SacofaParams(**{**LOG_RULES, "max_prefix_length": 2}), number).get(("B", "C"))
        for number in range(30)
    ]
    # Chosen it gets noise; the number that is drawn is 0 with probability 0.4 at least.
    assert exact.count(7) >= 4  # fewer in one of 3,000 times
    noisy = [
        released(log, SacofaParams(**{**LOG_RULES, "max_prefix_length": 2, "profile": "paper"}), i)
        for i in range(30)
    ]
    assert len({made.get(("B", "C"), 0) for made in noisy}) > 3


def test_too_many_activities_of_a_log_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracecloak.anonymizers.queries.sacofa.MAX_ACTIVITIES", 2)
    with pytest.raises(UsageError, match=r"4,096 of them is the most, .*: give a"):
        released(log_of({"AB": 9, "ABC": 6}), SacofaParams(**LOG_RULES))


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_bought_rules_pay_for_what_a_unit_changes(k: int) -> None:
    """Of a case's order of activities, of which `accounting/test_sensitivity.py` says how much."""
    params = {**BOUGHT, "max_prefix_length": k, "max_cases_per_individual": 3}
    assert SacofaParams(**params).rules_changed == of_order(k, 4, 3)


# One name, two levels: O alone begins a case, and OO is harmful.
TINY: dict[str, Any] = {
    "epsilon": "4",
    "max_prefix_length": 2,
    "p_harmful": 1,
    "vocabulary": (),
    "budget": "honest",
    "profile": "paper",
    "rules": "model",
    "model": {"activities": (OTHER,), "begins": (OTHER,), "never": ((OTHER, OTHER),)},
}
CUT = -1


def tiny_law(one: int, two: int, params: SacofaParams, reach: int) -> Law:
    """The exact law of all noisy counts, of so many cases O and OO: (O, O ended, OO)."""
    scale = Fraction(*params.scale)

    def seen(n: int) -> Law:
        return laplace_law(scale, reach, n).map(lambda x: x if x >= 1 else CUT)

    a_low, a_high = power_of_e(-1 / Fraction(*params.choice_scale))
    let_in = a_low * ONE // (ONE + a_high), -(-a_high * ONE // (ONE + a_low))
    twice, chances = seen(two), {}
    for n, (low, high) in twice.chances.items():
        left_out = (ONE - let_in[1], ONE - let_in[0]) if n == CUT else (0, 0)
        chances[n] = (
            ((low * let_in[0]) >> BITS) + left_out[0],
            -((-high * let_in[1]) >> BITS) + left_out[1],
        )
    below = seen(one).times(Law(chances, twice.rest))
    made: dict[Hashable, tuple[int, int]] = {}
    for n, (low, high) in seen(one + two).chances.items():
        if n == CUT:
            made[CUT, CUT, CUT] = (low, high)
            continue
        for (ended, again), (p, q) in below.chances.items():  # type: ignore[misc]
            made[n, ended, again] = ((low * p) >> BITS, -((-high * q) >> BITS))
    return Law(made, seen(one + two).rest + below.rest)


def test_the_whole_honest_answer_loses_epsilon_and_no_less() -> None:
    """All logs of up to 2 cases O or OO, by exact laws; the control is 0.97 of epsilon."""
    params = SacofaParams(**TINY)
    epsilon = Fraction(4)
    assert Fraction(*params.scale) == Fraction(1, 2)
    laws = {
        (one, two): tiny_law(one, two, params, 20)
        for one, two in itertools.product(range(3), repeat=2)
        if one + two <= 2
    }
    for one, two in itertools.product(range(2), repeat=2):
        for more in ((one + 1, two), (one, two + 1)):
            if more in laws:
                assert delta_between(laws[one, two], laws[more], epsilon)[1] < 1e-12
                less = delta_between(laws[one, two], laws[more], epsilon * Fraction(97, 100))
                assert less[0] > 1e-9
