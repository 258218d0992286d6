"""Variants given by arrays, as the measures of variants read them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class VariantDistribution(NamedTuple):
    """The variants of a log with their cases; unlike a histogram's they need no order."""

    offsets: np.ndarray
    codes: np.ndarray
    counts: np.ndarray
