"""Classes of cases: by hand, by a loop, and where there is nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import trace_batch
from tracecloak.anonymizers.times.case_classes import (
    LONGEST_VARIANT,
    MOST_VARIANTS,
    CaseClasses,
)
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.variants import ReleasedVariants

WORDS = ActivityVocabulary.public("ABC")


def released(variants: dict[str, int]) -> ReleasedVariants:
    """These variants of A, B and C, as many cases each, in this order."""
    names = sorted({name for variant in variants for name in variant})
    return ReleasedVariants(
        pa.array(names, pa.string()),
        np.append(0, np.cumsum([len(variant) for variant in variants])).astype(np.int64),
        np.array([names.index(name) for variant in variants for name in variant], np.int32),
        np.array(list(variants.values()), np.int64),
        None,
        None,
    )


def public(variants: list[str]) -> TraceBatch:
    log = {f"c{i:03}": " ".join(variant) for i, variant in enumerate(variants)}
    return trace_batch(log).recode_public(WORDS)


some_variants = st.text("ABC", min_size=1, max_size=4)


@given(
    st.dictionaries(some_variants, st.integers(1, 9), max_size=60),
    st.lists(st.text("ABCX", min_size=1, max_size=4), max_size=20),
)
def test_classes_are_those_of_a_loop(variants, cases):
    classes = CaseClasses.of(released(variants), WORDS)
    own = list(variants)[:MOST_VARIANTS]

    def class_of(case: str) -> int:
        return own.index(case) if case in own else len(own) + "ABCX".index(case[-1])

    assert classes.of_cases(public(cases)).tolist() == [class_of(case) for case in cases]
    sizes = [0] * (len(own) + 4)
    for variant, count in variants.items():
        sizes[class_of(variant)] += count
    assert classes.sizes.tolist() == sizes
    assert classes.offsets.tolist() == np.cumsum([0, *map(len, own)]).tolist()
    pairs = [
        "ABCX".index(v[i - 1]) * 4 + "ABC".index(v[i]) if i else 0
        for v in own
        for i in range(len(v))
    ]
    assert classes.pairs(4).tolist() == pairs


def test_codes_of_a_large_vocabulary_are_told_apart():
    """Sequences of codes of more than a byte, which are not as long as their variants."""
    many = ActivityVocabulary.public([f"n{i:03}" for i in range(300)])
    names = many.names.take(pa.array([150, 299]))
    variants = ReleasedVariants(
        names, np.array([0, 3, 4]), np.array([0, 1, 0, 1], np.int32), np.array([5, 2]), None, None
    )
    classes = CaseClasses.of(variants, many)
    a, b = names.to_pylist()
    log = {"c": f"{a} {b} {a}", "d": b, "e": f"{b} {a}"}
    own = many.codes(names).astype(np.int64)
    expected = [0, 1, 2 + own[0]]
    assert classes.of_cases(trace_batch(log).recode_public(many)).tolist() == expected
    n = len(many)
    assert classes.pairs(n).tolist() == [0, own[0] * n + own[1], own[1] * n + own[0], 0]
    assert classes.offsets.tolist() == [0, 3, 4]


def test_long_variants_are_no_classes():
    long = "AB" * (LONGEST_VARIANT // 2) + "C"
    classes = CaseClasses.of(released({long: 9, "AB": 5, long[1:]: 3}), WORDS)
    assert (classes.n_variants, classes.n_places) == (2, LONGEST_VARIANT + 2)
    assert classes.of_cases(public([long, "AB", long[1:]])).tolist() == [2 + 2, 0, 1]
    assert classes.sizes.tolist() == [5, 3, 0, 0, 9, 0]
