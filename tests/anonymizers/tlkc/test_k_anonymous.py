"""The tables of the TLKC paper and its two baselines: what is released of them and small logs."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.anonymizers.tlkc.test_method import HALF, RESOURCE_DECLARED, known, words_of
from tests.support import tlkc_logs
from tests.support.logs import read_cases
from tests.support.tlkc_logs import (
    HOUR_US,
    RESOURCE,
    RESOURCE_OF,
    TABLE_3,
    TABLE_4,
    TABLE_5,
    ZERO,
    Case,
    hours_log,
    release_of,
    traces_with,
)
from tests.support.tlkc_naive import small_logs
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.tlkc import method, subtrace_groups
from tracecloak.anonymizers.tlkc.k_anonymous_variants import (
    KAnonymousSubtraces,
    KAnonymousVariants,
)
from tracecloak.anonymizers.tlkc.method import Tlkc
from tracecloak.anonymizers.tlkc.promise import KAnonymousParams, TlkcParams, verify_released
from tracecloak.anonymizers.tlkc.subtrace_groups import Group, grouped
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.background_knowledge import (
    PatternCriteria,
    codes_of_words,
    times_of_words,
)

DISEASES = ["Cancer", "Infection", "Corona", "Flu", "HIV", "Poisoning"]
CORRECTED_8 = {**tlkc_logs.TABLE_8, "5": (tlkc_logs.TABLE_8["5"][0], "HIV")}
OF_TABLE_3 = {RESOURCE: {"values": [*RESOURCE_OF.values(), ZERO[1]]}}


def params(**given: Any) -> TlkcParams:
    """T = hours, L = 2, K = 2, C = 0.5, theta = 0.25 of relative activities with resources."""
    values: dict[str, Any] = {
        "k": 2,
        "length": 2,
        "confidence": 0.5,
        "theta": 0.25,
        "knowledge_kind": "relative",
        "perspective": "activity_resource",
        "resources": OF_TABLE_3,
        "sensitive": {tlkc_logs.DISEASE: {"values": DISEASES}},
    }
    return TlkcParams(**{**values, **given})


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

    def patterns(self, patterns: method.Patterns) -> set[str]:
        """Without the event at hour 0 that every case has."""
        found = (" ".join(map(self.of, words)) for words in words_of(patterns))
        return {text.removeprefix("000 ") for text in found}


def test_table_6_follows_from_the_corrected_table_3() -> None:
    """The printed 0.16 of (VI, D1, 8) is a sixth, cut off."""
    given = params()
    traces = hours_log(tlkc_logs.CORRECTED, hour_zero=True)
    names, cases = Names(traces, given), known(traces, given)
    labels = method.labels_of(cases, given.sensitive_attributes)
    violating = method.minimal_violations(cases, labels, "relative", PatternCriteria(2, HALF), 2)
    frequent = method.maximal_frequent(cases, "relative", Fraction(1, 4))
    assert names.patterns(violating) == {"RE1 HO4", "RE1 VI5", "RE1 BT7", "VI5 VI8", "VI5 RL9"}
    gain, loss = (
        Counter(element for pattern in words_of(patterns) for element in set(pattern))
        for patterns in (violating, frequent)
    )
    found = {names.of(word): n / (loss[word] + 1) for word, n in gain.items()}
    assert {name: found[name] for name in ("RE1", "HO4", "VI5", "BT7", "VI8", "RL9")} == {
        "RE1": 0.75, "HO4": 0.25, "VI5": 1.5, "BT7": 0.2, "VI8": pytest.approx(1 / 6), "RL9": 0.2,
    }  # fmt: skip


def steps(traces: TraceBatch) -> list[tuple[tuple[str, int], ...]]:
    """Activities and hours since the first event, by case."""
    return [
        tuple((name, (time - events[0][1]) // HOUR_US) for name, time in events)
        for events in read_cases(traces).values()
    ]


def test_the_corrected_table_3_is_released_as_table_8() -> None:
    given = params(algorithm="frequent_traces")
    [released] = release_of([hours_log(tlkc_logs.CORRECTED, hour_zero=True)], Tlkc(), given)
    assert sorted(steps(released)) == sorted(steps(hours_log(CORRECTED_8, hour_zero=True)))
    assert sorted(
        released.attributes[tlkc_logs.DISEASE].take(released.offsets[:-1]).to_pylist()
    ) == sorted(disease for _, disease in CORRECTED_8.values())


VARIANTS, SUBTRACES = KAnonymousVariants(), KAnonymousSubtraces()
BASELINE_DISEASES = [disease for _, disease in TABLE_3.values()]


def of_everything(k: int) -> KAnonymousParams:
    """All that a trace of Table 3 has is known."""
    return KAnonymousParams(
        k=k, perspective="activity_resource", knowledge_kind="relative", resources=OF_TABLE_3
    )


@pytest.mark.parametrize("k", [2, 4, 8])
def test_baseline_1_leaves_nothing_of_table_3(k: int) -> None:
    with pytest.raises(GuaranteeError, match="no case is left") as raised:
        release_of([hours_log(TABLE_3, hour_zero=True)], VARIANTS, of_everything(k))
    assert raised.value.exit_code == 5


@pytest.mark.parametrize(("k", "papers", "fewest"), [(2, 12, 10), (4, 18, 18)])
def test_baseline_2_removes_as_few_events_of_table_3_as_can_be(
    k: int, papers: int, fewest: int
) -> None:
    """Where the paper removes 12 and 18; that no way is cheaper is known from going through all."""
    given_ = of_everything(k)
    log = hours_log(TABLE_3, hour_zero=True)
    [released] = release_of([log], SUBTRACES, given_)
    assert released.n_cases == 8
    assert log.n_events - released.n_events == fewest <= papers
    SUBTRACES.verify([released], given_)
    for left, whole in zip(steps(released), steps(log), strict=True):
        assert left in itertools.combinations(whole, len(left))


@pytest.mark.parametrize(
    ("table", "k"),
    [(TABLE_4, 2), (TABLE_5, 4)],
    ids=["Table 4", "Table 5"],
)
def test_the_papers_tables_4_and_5_are_k_anonymous(table: tuple[str, ...], k: int) -> None:
    rows = {str(i + 1): (text, BASELINE_DISEASES[i]) for i, text in enumerate(table)}
    requirement = of_everything(k)
    assert len(rows) == 8
    verify_released([hours_log(rows, released=True, hour_zero=True)], requirement)
    fewer = {case: row for case, row in rows.items() if case != "8"}
    with pytest.raises(GuaranteeError, match=f"k={k}: a variant has fewer cases"):
        verify_released([hours_log(fewer, released=True, hour_zero=True)], requirement)


@pytest.mark.parametrize("method", [VARIANTS, SUBTRACES], ids=lambda m: m.name)
@pytest.mark.parametrize("kind", ["sequence", "relative"])
@given(log=small_logs(), k=st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_a_release_is_k_anonymous_and_invents_nothing(
    method: Anonymizer, kind: str, log: Mapping[str, Case], k: int
) -> None:
    """Each case is a part of its own; one that k cases share stays whole."""
    given_ = KAnonymousParams(
        k=k,
        knowledge_kind=kind,
        perspective="activity_resource",
        resources=RESOURCE_DECLARED,
    )
    known = {
        case: tuple((a, r, t - events[0][2] if kind == "relative" else 0) for a, r, t in events)
        for case, (events, _) in log.items()
    }
    alike = Counter(known.values())
    frequent = Counter({variant: n for variant, n in alike.items() if n >= k})
    try:
        [released] = release_of([traces_with(log)], method, given_)
    except GuaranteeError:
        assert not frequent
        return
    names = released.vocabulary.names.to_pylist()
    resources = released.attributes[RESOURCE].to_pylist()
    found = Counter(
        tuple(
            (
                names[released.activities[e]],
                resources[e],
                int(released.times[e] - released.times[a]) if kind == "relative" else 0,
            )
            for e in range(a, b)
        )
        for a, b in itertools.pairwise(released.offsets.tolist())
    )
    assert min(found.values()) >= k
    method.verify([released], given_)  # type: ignore[attr-defined]
    assert frequent <= found
    if method is VARIANTS:
        assert found == frequent
    for variant in found:
        assert any(is_part(variant, whole) for whole in alike)


def is_part(part: tuple[Any, ...], whole: tuple[Any, ...]) -> bool:
    """Whether events can be left out of a case so that a part is left, times counted anew."""
    for chosen in itertools.combinations(whole, len(part)):
        start = chosen[0][2]
        if tuple((a, r, t - start) for a, r, t in chosen) == part:
            return True
    return False


short_texts = st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=5)


@example(texts=["a", "b", "aa", "aaa", "aab"], k=2)  # to swap would leave a group nothing
@given(texts=short_texts, k=st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_groups_have_k_members_with_a_common_subsequence(texts: list[str], k: int) -> None:
    groups = grouped([Group(text, 1, [i]) for i, text in enumerate(texts)], [], k)
    members = [member for group in groups for member in group.members]
    assert len(set(members)) == len(members)
    for group in groups:
        assert group.text
        assert group.weight == len(group.members) >= k
        assert all(is_subsequence(group.text, texts[member]) for member in group.members)


def is_subsequence(part: str, text: str) -> bool:
    letters = iter(text)
    return all(letter in letters for letter in part)


def test_blocks_that_leave_texts_over_are_grouped_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each block of three two are alike, and the third is like those of other blocks."""
    monkeypatch.setattr(subtrace_groups, "BLOCK", 3)
    texts = ["ab", "ab", "xyz", "cd", "cd", "xyz"]
    groups = grouped([Group(text, 1, [i]) for i, text in enumerate(texts)], [], 2)
    found = {group.text: sorted(group.members) for group in groups}
    assert found == {"ab": [0, 1], "cd": [3, 4], "xyz": [2, 5]}
