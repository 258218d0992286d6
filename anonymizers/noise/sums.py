"""Noisy histograms of what cases hold, and what to make of a row that is mostly noise.

`noisy_counts` is the mechanism: exact noise on the sums of clipped vectors, all cells of a public
domain alike. `backed_off` is arithmetic on its result and costs nothing: a row of which the noise
leaves little is drawn towards what the rows around it say.

Noise is added in one place, `noisy_sums`. There an audit looks at the sums before anything is made
of them (`samplers.Noise.made`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import (
    EXACT,
    CellStream,
    Noise,
    draw_gaussian,
    draw_laplace,
)
from tracecloak.schemas.published.figures import Measure, ReleasedMeasures
from tracecloak.schemas.statistics.clipped_flows import ClippedCells

# --- Noisy histograms of what cases hold, and what to make of a row that is mostly noise. ---------


_Z95 = 1.96


@dataclass(frozen=True)
class SumNoise:
    """The noise that was added to each sum.

    Attributes:
        scale: (numerator, denominator) of its scale in lattice steps.
        units: Lattice steps of one occurrence.
        is_laplace: Whether it is discrete Laplace; else it is discrete Gaussian.
        sensitivity: By how much one unit changes the sums, in lattice steps: L1 for Laplace, else
            L2. None where no finite one is claimed.
    """

    scale: tuple[int, int]
    units: int
    is_laplace: bool
    sensitivity: Fraction | None = field(default=None, compare=False)

    @property
    def width(self) -> float:
        """The scale as a number, in lattice steps."""
        return self.scale[0] / self.scale[1]

    @property
    def kind(self) -> str:
        """Of which law it is, by name."""
        return "Laplace" if self.is_laplace else "Gaussian"

    def draw(self, stream: CellStream) -> np.ndarray:
        """Returns int64[n], the noise of the cells of a stream, in lattice steps."""
        draw = draw_laplace if self.is_laplace else draw_gaussian
        return draw(stream, *self.scale)

    @property
    def mean_size(self) -> float:
        """How large it is on average, whatever its sign, in occurrences."""
        return self.width / self.units * (1 if self.is_laplace else math.sqrt(2 / math.pi))

    @property
    def deviation(self) -> float:
        """Its standard deviation, in occurrences."""
        return math.sqrt(variance_of(self))

    @property
    def half_width(self) -> int:
        """Half the interval that holds it with probability 0.95, in occurrences, rounded up."""
        quantile = math.log(20) if self.is_laplace else _Z95
        return math.ceil(self.width / self.units * quantile)

    def largest(self, n_sums: int, n_cells: np.ndarray) -> np.ndarray:
        """Returns what none of so many sums of noise is likely to exceed, in occurrences.

        At most 1 of them is expected to: they are sub-gamma (Boucheron, Lugosi and Massart 2013).

        Args:
            n_sums: How many sums there are.
            n_cells: float64[n], how many cells each adds up.
        """
        logarithm = math.log(n_sums)
        tail = self.width / self.units * logarithm if self.is_laplace else 0.0
        return self.deviation * np.sqrt(2 * logarithm * n_cells) + tail

    def threshold(self, n_cells: int) -> float:
        """Below this a sum is taken for noise, in lattice steps.

        Fewer than the root of `n` of `n` empty cells exceed it. A threshold that the largest of `n`
        noises is expected to reach would be higher by the root of 2, or twice as high. It would
        leave more true edges out, and the error would be larger.
        """
        log_cells = math.log(max(n_cells, 2))
        return self.width * (log_cells / 2 if self.is_laplace else math.sqrt(log_cells))


def onto_simplex(rows: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Returns float64[n, m], the nearest non-negative rows with the given sums (Duchi et al. 2008).

    Args:
        rows: float64[n, m].
        totals: int64[n], positive.
    """
    falling = -np.sort(-rows, axis=1)
    excess = np.cumsum(falling, axis=1) - totals[:, None]
    level = excess / np.arange(1, rows.shape[1] + 1)
    last = (falling > level).sum(axis=1) - 1
    return np.maximum(rows - level[np.arange(len(rows)), last][:, None], 0)


def noisy_sums(
    sums: np.ndarray,
    noise: SumNoise,
    purpose: str,
    domain: np.ndarray,
    randomness: Randomness,
    names: pa.Array | None = None,
) -> np.ndarray:
    """Returns int64[n], sums with noise on each, keyed by its cell.

    Args:
        sums: int64[n], exact, in lattice units.
        noise: What to add to each.
        purpose: What the noise is for; one of its own for each histogram.
        domain: int64[n], their cells, distinct and not negative.
        randomness: The release's.
        names: What the codes of the cells mean, for `Noise.made`; None: they have no names.
    """
    stream = CellStream(randomness, purpose, cell_numbers(domain))
    noisy = sums + noise.draw(stream)
    randomness.noise.made(purpose, domain, noisy, noise, names)
    return noisy


def noisy_counts(
    cells: ClippedCells,
    n_cells: int,
    noise: SumNoise,
    purpose: str,
    randomness: Randomness,
    *,
    is_whole: bool = False,
) -> np.ndarray:
    """Returns float64[n_cells], the sums of cells 0 to `n_cells` - 1 with noise, in occurrences.

    Args:
        cells: Exact sums in the lattice of the noise.
        n_cells: The public number of cells; `noisy_graph.MAX_CELLS` at most, for memory.
        noise: What to add to each; calibrated to the clip by the caller.
        purpose: What the noise is for; one of its own for each histogram.
        randomness: The release's.
        is_whole: Whether the sums are whole counts, whatever the lattice of the noise.
    """
    domain = np.arange(n_cells, dtype=np.int64)
    sums = cells.dense(domain) * (noise.units if is_whole else 1)
    return noisy_sums(sums, noise, purpose, domain, randomness) / noise.units


def variance_of(noise: SumNoise) -> float:
    """Returns the variance of the noise of one cell, in squared occurrences."""
    width = noise.width / noise.units
    return (2 if noise.is_laplace else 1) * (width * width)


def backed_off(rows: np.ndarray, variance: float | np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Returns float64[n, m], the rows' shares of their cells, each row not negative with sum 1.

    A row is drawn towards its total times the `shares` of a coarser level by as much as noise alone
    explains its distance from them (James and Stein 1961, positive part, with m - 1 directions
    left once the total is taken from the row itself), then onto the simplex. A row whose noisy
    total is not positive takes the shares as they are.

    Args:
        rows: float64[n, m], noisy counts.
        variance: Of the noise of one cell; a number, or float64[n] for each row's own.
        shares: float64[n, m] or float64[m], what a row without information is like; sums to 1.
    """
    n, m = rows.shape
    shares = np.broadcast_to(shares, rows.shape)
    totals = rows.sum(axis=1)
    is_known = totals > 0
    centre = np.where(is_known, totals, 1.0)[:, None] * shares
    distance = ((rows - centre) ** 2).sum(axis=1)
    noise = np.broadcast_to(np.asarray(variance, np.float64), (n,)) * max(m - 1, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        signal = np.where(distance > noise, 1 - noise / distance, 0.0) * is_known
    mixed = centre + signal[:, None] * (rows - centre)
    scale = np.where(is_known, totals, 1.0)[:, None]
    return onto_simplex(mixed / scale, np.ones(n))


# --- Noisy sums that a release publishes beside what it makes of them. ----------------------------
# A log is drawn so that it agrees with many noisy sums. Who reads that 1,020 cases took a path
# wants to know what was measured: 1,034, with a standard deviation of 20. Such a sum is private
# already, so to publish it costs nothing. A part of a method says so with `note` where it has
# drawn the noise, and says nothing of sums that must not be seen, such as counts below a
# threshold.


@dataclass
class MeasureRecorder(Noise):
    """Draws as another does, and keeps what parts note.

    Attributes:
        inner: What draws.
        noted: The noted sums, in their order.
    """

    inner: Noise = EXACT
    noted: list[Measure] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Takes over how the other draws and chooses, and whom it tells."""
        for name in ("laplace", "gaussian", "truncated_laplace", "select", "made"):
            setattr(self, name, getattr(self.inner, name))

    @property
    def measures(self) -> ReleasedMeasures:
        """What was noted, as a product of the release."""
        return ReleasedMeasures.of(self.noted)


def note(
    randomness: Randomness,
    what: str,
    of: Callable[[], Iterable[tuple[str, ...]]],
    sums: np.ndarray,
    deviation: float,
) -> None:
    """Notes noisy sums, if anything listens.

    Args:
        randomness: The release's.
        what: What they are sums of; see `schemas.published.figures`.
        of: Returns what each is of; it is called only if somebody listens.
        sums: float64[n], with their noise, in the unit of `what`.
        deviation: Standard deviation of the noise of each; 0 of a public number.
    """
    noting = randomness.noise
    if not isinstance(noting, MeasureRecorder):
        return
    values = np.asarray(sums, np.float64).tolist()
    noting.noted.extend(
        Measure(what, one, value, float(deviation)) for one, value in zip(of(), values, strict=True)
    )
