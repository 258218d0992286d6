"""Noisy sums are kept where somebody listens, and the noise is the same as where nobody does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.support.keys import randomness
from tracecloak.anonymizers.noise.sums import MeasureRecorder, note
from tracecloak.schemas.published.figures import Measure


def test_what_is_noted_comes_out_in_its_order() -> None:
    noting = MeasureRecorder()
    listened = randomness().with_noise(noting)
    note(listened, "cases", lambda: [("sizes",)], np.array([3.5]), 2.0)
    note(listened, "arc", lambda: [("A", "B"), ("B", "A")], np.array([1.0, -2.0]), 1.5)
    assert noting.measures.rows() == [
        Measure("cases", ("sizes",), 3.5, 2.0),
        Measure("arc", ("A", "B"), 1.0, 1.5),
        Measure("arc", ("B", "A"), -2.0, 1.5),
    ]


def test_labels_are_not_made_where_nobody_listens() -> None:
    def labels() -> Iterator[tuple[str, ...]]:
        raise AssertionError("nobody listens")
        yield ()

    note(randomness(), "cases", labels, np.array([1.0]), 1.0)
