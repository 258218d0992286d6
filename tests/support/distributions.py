"""Variants given by arrays, as the measures of variants read them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tracecloak.examination.measure.measures import variant_emd
from tracecloak.schemas.statistics.variants import VariantHistogram


class VariantDistribution(NamedTuple):
    """The variants of a log with their cases; unlike a histogram's they need no order."""

    offsets: np.ndarray
    codes: np.ndarray
    counts: np.ndarray


def variants_apart(one: VariantHistogram, other: VariantHistogram) -> float:
    """The earth mover's distance of variants by normalised edits."""
    found = variant_emd(*(VariantDistribution(v.offsets, v.codes, v.counts) for v in (one, other)))
    assert found is not None
    return found
