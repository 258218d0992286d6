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

from tests.support import tlkc_logs
from tests.support.keys import randomness
from tracecloak.anonymizers.tlkc import method
from tracecloak.anonymizers.tlkc.k_anonymous_variants import known_cases
from tracecloak.anonymizers.tlkc.method import Tlkc
from tracecloak.anonymizers.tlkc.params import TlkcParams
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.background_knowledge import (
    CaseTable,
    PatternCriteria,
    codes_of_words,
    times_of_words,
)

DISEASES = ["Cancer", "Infection", "Corona", "Flu", "HIV", "Poisoning"]
Rows = Mapping[str, tuple[str, str]]
CORRECTED_8 = {**tlkc_logs.TABLE_8, "5": (tlkc_logs.TABLE_8["5"][0], "HIV")}
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
        "resources": {
            tlkc_logs.RESOURCE: {"values": [*tlkc_logs.RESOURCE_OF.values(), tlkc_logs.ZERO[1]]}
        },
        "sensitive": {tlkc_logs.DISEASE: {"values": DISEASES}},
    }
    return TlkcParams(**{**values, **given})


def known(traces: TraceBatch, given: TlkcParams) -> CaseTable:
    counters = known_cases(given.knowledge(given.knowledge_kind), given.sensitive_attributes)
    return counters["cases"].count(traces, {}, randomness()).decoded()


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
        found = (" ".join(map(self.of, words)) for words in patterns.words())
        return {text.removeprefix("000 ") for text in found}

    def by_element(self, patterns: method.Patterns, values: np.ndarray) -> dict[str, float]:
        return {self.of(int(w)): float(v) for w, v in zip(patterns.elements, values, strict=True)}


class Mined:
    """What is mined from a table before anything is suppressed."""

    def __init__(self, rows: Rows) -> None:
        given = params()
        traces = tlkc_logs.hours_log(rows, hour_zero=True)
        self.names = Names(traces, given)
        self.cases = known(traces, given)
        labels = method.labels_of(self.cases, given.sensitive_attributes)
        self.violating = method.minimal_violations(
            self.cases, labels, "relative", PatternCriteria(2, HALF), 2
        )
        self.frequent = method.maximal_frequent(self.cases, "relative", Fraction(1, 4))
        self.shares = method.cases_with(self.cases, self.violating.elements)

    def named(self, words: np.ndarray) -> list[str]:
        return [self.names.of(int(word)) for word in words]


def test_table_6_follows_from_the_corrected_table_3() -> None:
    """The printed 0.16 of (VI, D1, 8) is a sixth, cut off."""
    mined = Mined(tlkc_logs.CORRECTED)
    assert mined.names.patterns(mined.violating) == {
        "RE1 HO4", "RE1 VI5", "RE1 BT7", "VI5 VI8", "VI5 RL9",
    }  # fmt: skip
    found = mined.names.by_element(mined.violating, method.scores(mined.violating, mined.frequent))
    assert {name: found[name] for name in ("RE1", "HO4", "VI5", "BT7", "VI8", "RL9")} == {
        "RE1": 0.75, "HO4": 0.25, "VI5": 1.5, "BT7": 0.2, "VI8": pytest.approx(1 / 6), "RL9": 0.2,
    }  # fmt: skip


def steps(traces: TraceBatch) -> list[list[tuple[str, int]]]:
    names = traces.vocabulary.names.to_pylist()
    return sorted(
        [
            (
                names[traces.activities[e]],
                int(traces.times[e] - traces.times[first]) // tlkc_logs.HOUR_US,
            )
            for e in range(first, last)
        ]
        for first, last in itertools.pairwise(traces.offsets.tolist())
    )


def test_the_corrected_table_3_is_released_as_table_8() -> None:
    given = params(algorithm="frequent_traces")
    [released] = tlkc_logs.release_of(
        [tlkc_logs.hours_log(tlkc_logs.CORRECTED, hour_zero=True)], Tlkc(), given
    )
    assert steps(released) == steps(tlkc_logs.hours_log(CORRECTED_8, hour_zero=True))
    assert sorted(
        released.attributes[tlkc_logs.DISEASE].take(released.offsets[:-1]).to_pylist()
    ) == sorted(disease for _, disease in CORRECTED_8.values())
