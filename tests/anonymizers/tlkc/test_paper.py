"""TLKC privacy on the paper's Tables 2 to 8, as printed and with the misprint of Table 3 mended.

Rafiei, van der Aalst: Group-Based Privacy Preservation Techniques for Process Mining. Its figure 4b
and its Tables 6 to 8 follow from Table 3 if the disease of case 5 is not Corona.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.support.keys import randomness
from tests.support.tlkc_logs import (
    CORRECTED,
    DISEASE,
    HOUR_US,
    RESOURCE,
    RESOURCE_OF,
    TABLE_3,
    TABLE_8,
    ZERO,
    hours_log,
    release_of,
    table_2,
)
from tracecloak.anonymizers.tlkc.k_anonymous_variants import KnownCaseCounter
from tracecloak.anonymizers.tlkc.method import Tlkc, requirement_of
from tracecloak.anonymizers.tlkc.params import TlkcParams
from tracecloak.anonymizers.tlkc.suppression import (
    Patterns,
    cases_with,
    labels_of,
    maximal_frequent,
    minimal_violations,
    scores,
    suppressed_by_frequent_traces,
    suppressed_by_n_scores,
)
from tracecloak.anonymizers.tlkc.verify import examine_tlkc, verify_tlkc
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.background_knowledge import (
    CaseTable,
    codes_of_words,
    times_of_words,
)
from tracecloak.schemas.statistics.subsequences import Demand, matching

DISEASES = ["Cancer", "Infection", "Corona", "Flu", "HIV", "Poisoning"]
Rows = Mapping[str, tuple[str, str]]
PRINTED_8 = TABLE_8
CORRECTED_8 = {**TABLE_8, "5": (TABLE_8["5"][0], "HIV")}
HALF = Fraction(1, 2)


def params(**given: Any) -> TlkcParams:
    """T = hours, L = 2, K = 2, C = 0.5, theta = 0.25 of relative activities with resources."""
    values: dict[str, Any] = {
        "k": 2,
        "length": 2,
        "confidence": 0.5,
        "theta": 0.25,
        "knowledge_kind": "relative",
        "perspective": "activity_resource",
        "resources": {RESOURCE: {"values": [*RESOURCE_OF.values(), ZERO[1]]}},
        "sensitive": {DISEASE: {"values": DISEASES}},
    }
    return TlkcParams(**{**values, **given})


def known(traces: TraceBatch, given: TlkcParams) -> CaseTable:
    counter = KnownCaseCounter(given.knowledge(given.knowledge_kind), given.sensitive_attributes)
    return counter.count(traces, {}, randomness()).decoded()


class Names:
    """Words of a log as the paper writes them: RE1 is (RE, E4, 1)."""

    def __init__(self, traces: TraceBatch, given: TlkcParams) -> None:
        self._names = traces.vocabulary.names.to_pylist()
        resource = given.knowledge("relative").resource
        assert resource is not None
        self._n_cells = resource.n_cells

    def of(self, word: int) -> str:
        code = int(codes_of_words(np.array([word]))[0]) - 1
        return f"{self._names[code // self._n_cells]}{int(times_of_words(np.array([word]))[0])}"

    def patterns(self, patterns: Patterns) -> set[str]:
        """Without the event at hour 0 that every case has."""
        found = (" ".join(map(self.of, words)) for words in patterns.words())
        return {text.removeprefix("000 ") for text in found}

    def by_element(self, patterns: Patterns, values: np.ndarray) -> dict[str, float]:
        return {self.of(int(w)): float(v) for w, v in zip(patterns.elements, values, strict=True)}


class Mined:
    """What is mined from a table before anything is suppressed."""

    def __init__(self, rows: Rows) -> None:
        given = params()
        traces = hours_log(rows, hour_zero=True)
        self.names = Names(traces, given)
        self.cases = known(traces, given)
        labels = labels_of(self.cases, given.sensitive_attributes)
        self.violating = minimal_violations(self.cases, labels, "relative", Demand(2, HALF), 2)
        self.frequent = maximal_frequent(self.cases, "relative", Fraction(1, 4))
        self.shares = cases_with(self.cases, self.violating.elements)

    def named(self, words: np.ndarray) -> list[str]:
        return [self.names.of(int(word)) for word in words]


# --- Tables 3 and 6 to 8 --------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [TABLE_3, CORRECTED])
def test_the_maximal_frequent_traces_are_those_of_figure_4a(rows: Rows) -> None:
    mined = Mined(rows)
    assert mined.names.patterns(mined.frequent) == {
        "RE1 BT7 VI8", "RE1 VI6 VI8", "RE1 VI8 RL9", "HO4 VI5 BT7", "HO4 VI8", "HO4 RL9",
        "BT7 VI8 RL9", "VI6 BT7", "VI6 RL9",
    }  # fmt: skip
    gone = mined.names.by_element(mined.frequent, np.array([0.0] * len(mined.frequent.elements)))
    assert set(gone) == {"000", "RE1", "HO4", "VI5", "VI6", "BT7", "VI8", "RL9"}


def test_table_6_follows_from_the_corrected_table_3() -> None:
    """The printed 0.16 of (VI, D1, 8) is a sixth, cut off."""
    mined = Mined(CORRECTED)
    assert mined.names.patterns(mined.violating) == {
        "RE1 HO4", "RE1 VI5", "RE1 BT7", "VI5 VI8", "VI5 RL9",
    }  # fmt: skip
    found = mined.names.by_element(mined.violating, scores(mined.violating, mined.frequent))
    assert {name: found[name] for name in ("RE1", "HO4", "VI5", "BT7", "VI8", "RL9")} == {
        "RE1": 0.75, "HO4": 0.25, "VI5": 1.5, "BT7": 0.2, "VI8": pytest.approx(1 / 6), "RL9": 0.2,
    }  # fmt: skip


def without(patterns: Patterns, names: Names, element: str) -> Patterns:
    place = [names.of(int(word)) for word in patterns.elements].index(element)
    kept = tuple(p[~(p == place).any(axis=1)] for p in patterns.of_length)
    return Patterns(patterns.elements, kept)


def test_table_7_follows_after_the_first_winner() -> None:
    mined = Mined(CORRECTED)
    left = without(mined.violating, mined.names, "VI5")
    frequent = without(mined.frequent, mined.names, "VI5")
    found = mined.names.by_element(left, scores(left, frequent))
    assert {name: score for name, score in found.items() if score} == {
        "RE1": 0.5, "HO4": pytest.approx(1 / 3), "BT7": 0.25,
    }  # fmt: skip


def test_both_algorithms_suppress_what_the_paper_suppresses() -> None:
    mined = Mined(CORRECTED)
    by_traces = suppressed_by_frequent_traces(mined.violating, mined.frequent, mined.shares)
    assert mined.named(by_traces) == ["VI5", "RE1"]
    by_scores = suppressed_by_n_scores(mined.violating, mined.shares, 8, 0.5)
    assert set(mined.named(by_scores)) == {"VI5", "RE1"}


def test_table_3_as_printed_has_another_violation_and_loses_nine_events() -> None:
    """(HO, E3, 4) alone tells Corona of two of three cases, so it has to go."""
    mined = Mined(TABLE_3)
    assert mined.names.patterns(mined.violating) == {
        "HO4", "RE1 VI5", "RE1 BT7", "VI5 VI8", "VI5 RL9",
    }  # fmt: skip
    for chosen in (
        suppressed_by_frequent_traces(mined.violating, mined.frequent, mined.shares),
        suppressed_by_n_scores(mined.violating, mined.shares, 8, 0.5),
    ):
        assert set(mined.named(chosen)) == {"VI5", "HO4", "RE1"}


@pytest.mark.parametrize(("rows", "fewest"), [(TABLE_3, 9), (CORRECTED, 6)])
def test_no_other_elements_cost_fewer_events(rows: Rows, fewest: int) -> None:
    """Goes through all sets of elements; the method finds one of the cheapest."""
    mined = Mined(rows)
    patterns = [set(words) for words in mined.violating.words()]
    cost = dict(zip(mined.violating.elements.tolist(), mined.shares.tolist(), strict=True))
    best = min(
        sum(cost[word] for word in chosen)
        for size in range(len(cost) + 1)
        for chosen in itertools.combinations(cost, size)
        if all(pattern & set(chosen) for pattern in patterns)
    )
    assert best == fewest
    for algorithm in ("n_score", "frequent_traces"):
        given = params(algorithm=algorithm)
        [released] = release_of([hours_log(rows, hour_zero=True)], Tlkc(), given)
        assert 38 - released.n_events == fewest
        verify_tlkc([released], requirement_of(given))


def steps(traces: TraceBatch) -> list[list[tuple[str, int]]]:
    names = traces.vocabulary.names.to_pylist()
    return sorted(
        [
            (names[traces.activities[e]], int(traces.times[e] - traces.times[first]) // HOUR_US)
            for e in range(first, last)
        ]
        for first, last in itertools.pairwise(traces.offsets.tolist())
    )


def test_the_corrected_table_3_is_released_as_table_8() -> None:
    given = params(algorithm="frequent_traces")
    [released] = release_of([hours_log(CORRECTED, hour_zero=True)], Tlkc(), given)
    assert steps(released) == steps(hours_log(CORRECTED_8, hour_zero=True))
    assert sorted(released.attributes[DISEASE].take(released.offsets[:-1]).to_pylist()) == sorted(
        disease for _, disease in CORRECTED_8.values()
    )


def test_table_8_as_printed_is_refused_and_the_reason_is_the_confidence() -> None:
    """Its parameters are T = hours, L = 2, K = 2 and C = 0.5."""
    requirement = requirement_of(params())
    printed = hours_log(PRINTED_8, released=True, hour_zero=True)
    finding = examine_tlkc([printed], requirement)
    assert (finding.n_too_few, finding.largest_share) == (0, 1)
    told = {tuple(text.replace("\t", " ") for text in known) for known in finding.examples}
    home, release = "4 E3 HO", "9 E2 RL"
    assert told == {(home,), ("0 E0 00", home), (home, release)}
    with pytest.raises(GuaranteeError, match=r"confidence=0\.5: a sensitive value") as raised:
        verify_tlkc([printed], requirement)
    assert raised.value.exit_code == 5
    assert "k=2" not in str(raised.value)
    verify_tlkc([hours_log(CORRECTED_8, released=True, hour_zero=True)], requirement)


def test_table_8_violates_anew_once_its_times_count_from_the_first_event_left() -> None:
    """The method's own release of the log without an event at hour 0 does not."""
    given = params()
    rebased = hours_log(CORRECTED_8)
    cases, names = known(rebased, given), Names(rebased, given)
    labels = labels_of(cases, given.sensitive_attributes)
    found = minimal_violations(cases, labels, "relative", Demand(2, HALF), 2)
    assert names.patterns(found) == {
        "BT1 RL3", "BT1 VI2", "BT3 RL5", "BT3 VI4", "VI2 RL3", "VI4 RL5",
    }  # fmt: skip
    with pytest.raises(GuaranteeError, match="k=2"):
        Tlkc().verify([hours_log(CORRECTED_8, released=True)], given)
    [released] = release_of([hours_log(CORRECTED)], Tlkc(), given)
    Tlkc().verify([released], given)


# --- the attacks on Table 2 -----------------------------------------------------------------------

ATTACKS: list[tuple[str, str, str, str, str]] = [
    ("A1", "set", "activity", "VI, IN", "4"),
    ("A2", "multiset", "activity", "HO, BT, BT", "2"),
    ("A3", "sequence", "activity", "RE, VI, HO", "5"),
    ("R1", "set", "resource", "E1, D2", "5"),
    ("R2", "multiset", "resource", "N1, N1, E3", "2"),
    ("R3", "sequence", "resource", "E4, D2", "4"),
    ("AR1", "set", "activity_resource", "HO E6", "5"),
    ("AR2", "multiset", "activity_resource", "BT N1, BT N1", "2"),
    ("AR3", "sequence", "activity_resource", "RE E4, VI D2", "4"),
    ("AR1 of two", "set", "activity_resource", "VI D3", "1 6"),
    ("before AT", "sequence", "activity", "HO, VI", "2 3"),
    ("AT", "relative", "activity", "HO@15, VI@1484", "2"),
    ("before RT", "sequence", "resource", "E1, E3", "2 3"),
    ("RT", "relative", "resource", "E1@0, E3@70", "3"),
    ("before ART", "sequence", "activity_resource", "VI D3, RL E6", "1 6"),
    ("ART", "relative", "activity_resource", "VI D3@75, RL E6@315", "6"),
]


@pytest.mark.parametrize(
    ("kind", "perspective", "pattern", "cases"),
    [attack[1:] for attack in ATTACKS],
    ids=[attack[0] for attack in ATTACKS],
)
def test_every_attack_of_the_paper_finds_its_cases(
    kind: str, perspective: str, pattern: str, cases: str
) -> None:
    """Section 4, by all that is known of an event; relative times are minutes since the first.

    AT's visit on the next morning is 24:29 after the hospitalisation at 0:15; RT's examination is
    more than an hour after the registration; ART's release almost four hours after the visit.
    """
    traces = table_2()
    named = set(traces.attributes[RESOURCE].to_pylist())
    given = TlkcParams(
        k=1,
        knowledge_kind=kind,
        perspective=perspective,
        time_unit="minutes",
        resources={} if perspective == "activity" else {RESOURCE: {"values": sorted(named)}},
    )
    knowledge = given.knowledge(given.knowledge_kind)
    table = CaseTable(
        traces.offsets,
        knowledge.words(traces),
        np.ones(traces.n_cases, np.int64),
        np.arange(1, traces.n_cases + 1)[:, None],
    )
    rows, elements = table.canonical(given.knowledge_kind, 3)
    names = traces.vocabulary.names.to_pylist()
    n_cells = 1 if knowledge.resource is None else knowledge.resource.n_cells

    def place_of(text: str) -> int:
        what, _, minute = text.partition("@")
        first, _, second = what.partition(" ")
        if perspective == "resource":
            code = sorted(named).index(first) + 1
        else:
            code = names.index(first) * n_cells + 1
            code += sorted(named).index(second) + 1 if second else 0
        [place] = np.flatnonzero(
            (codes_of_words(elements) == code) & (times_of_words(elements) == int(minute or 0))
        )
        return int(place)

    sought = [place_of(text) for text in pattern.split(", ")]
    if kind in ("set", "multiset"):
        sought.sort()
    found = matching(rows.offsets, rows.words, np.array(sought))
    assert {str(case) for case in rows.sensitive[found, 0]} == set(cases.split())
