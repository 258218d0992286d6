"""Noise as published queries have it, drawn exactly: truncated towards 0, or made positive.

Each is a law on integers, so it needs no floats and is drawn from the exact samplers. The laws are
those of the papers and their code, and cost more than the epsilon that they are named after.
"""

from __future__ import annotations

import math

import numpy as np

from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.samplers import CellStream, Scale, draw_laplace


def truncated_laplace(stream: CellStream, numerator: int, denominator: int) -> np.ndarray:
    """Returns int64[n], Laplace noise without its decimals: P(0) = 1 - a, P(±j) = (1 - a) a^j / 2.

    Here a = exp(-1 / scale), and this is the law of int(Laplace(scale)), which the code of
    Mannhardt et al. adds. It differs from the discrete Laplace in that 0 is more likely,
    P(0) / P(1) = 2 / a, so a count that changes by k costs up to k / scale + ln 2 where discrete
    Laplace costs k / scale.

    Args:
        stream: Of n cells.
        numerator: Of the scale.
        denominator: Of the scale.
    """
    drawn = draw_laplace(stream, numerator, denominator)
    sizes = sizes_of(drawn)
    is_negative = stream.words(np.arange(len(stream)))[:, 0] >> np.uint64(63)
    return np.where(is_negative, -sizes, sizes)


def sizes_of(drawn: np.ndarray) -> np.ndarray:
    """Returns int64[n] with P(at least j) = exp(-j / scale), from discrete Laplace of that scale.

    Both the values from 0 up and those from -1 down have that law, counted from their ends.
    """
    return np.where(drawn >= 0, drawn, -1 - drawn)


def positive_laplace(
    randomness: Randomness, purpose: str, cells: np.ndarray, counts: np.ndarray, scale: Scale
) -> np.ndarray:
    """Returns int64[n], counts with discrete Laplace noise on condition that they are positive.

    A count of 0 has the same law then as a count of 1, so that at least every second draw is
    positive. With a = exp(-1 / scale) a count that changes by 1 costs up to 1 / scale +
    ln(1 + a - a²), as 1 is rather reached from 2 than from 1.

    Args:
        randomness: The release's.
        purpose: What the noise is for.
        cells: uint64[n, 2], what it is keyed by.
        counts: int64[n], not negative.
        scale: Of the noise.
    """
    noisy = np.zeros(len(counts), np.int64)
    rest = np.arange(len(counts))
    n_rounds = 0
    while len(rest):
        stream = CellStream(randomness, f"{purpose}/{n_rounds}", cells[rest])
        tried = np.maximum(counts[rest], 1) + draw_laplace(stream, *scale)
        noisy[rest] = tried
        rest = rest[tried < 1]
        n_rounds += 1
    return noisy


def positive_excess(epsilon: float) -> float:
    """Returns what a count that changes by 1 costs at most beyond epsilon if it is made positive.

    That is ln(1 + a - a²) with a = exp(-epsilon), see `positive_laplace`.
    """
    a = math.exp(-epsilon)
    return math.log1p(a - a * a)


def choose_harmful(
    number: CellStream, words: np.ndarray, violations: np.ndarray, largest: int, scale: Scale
) -> np.ndarray:
    """Returns int64[m], positions of the harmful candidates that are let in, in a random order.

    The exponential mechanism over their number j: P(j) is proportional to exp(-j / scale) for
    j = 0 … n, and any j of them are as likely as any others. With a scale of 2 / epsilon about
    1 / (exp(epsilon / 2) - 1) are let in. It looks at nothing but n and the violations, and no
    exponential overflows.

    Args:
        number: Of one cell: how many.
        words: uint64[n, 2], random bits of each candidate: which ones.
        violations: int64[n], what each counts for, at least 1: they are taken until these add up
            to j.
        largest: What one counts for at most.
        scale: Of j.
    """
    # What is left over modulo n + 1 has the law of a size on condition that it is at most n.
    size = sizes_of(draw_laplace(number, *scale))[0] % (len(words) + 1)
    order = np.lexsort((words[:, 1], words[:, 0]))
    counted = np.minimum(violations[order], largest)
    return order[np.cumsum(counted) - counted < size]
