"""Methods of others, for comparison at the same true epsilon only; none is offered for releases.

`travas` is partition selection with truncated geometric noise (Rafiei, Wangelik and van der Aalst,
"TraVaS: Differentially Private Trace Variant Selection for Process Mining", 2022; Desfontaines,
Voss, Gipson and Mandayam 2022 for the noise): variants, each with the noise that no count outgrows.
It is what `variant-histogram` does with truncated noise.

`private-pgm` is Private-PGM (McKenna, Sheldon and Miklau, "Graphical-model based estimation and
inference for differential privacy", ICML 2019) on cases as records of positions: the marginals of
every two positions that follow each other, with Gaussian noise that is accounted jointly. Its
library, mbi, is not ours and no extra: it is imported when the peer is asked for.

`palsyn` is PALSYN (Kuhn, Grüger and Bergmann, "PALSYN: a method for synthetic multi-perspective
event log generation with differential private guarantees", Process Science 2, 2025). Its code needs
versions of TensorFlow and pandas that cannot be beside ours, and is on no registry, so its figures
are recorded (`examination.comparison.report`).
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tracecloak.anonymizers.accounting.calibration import exact
from tracecloak.anonymizers.accounting.joint import block_scale, joint_deviation
from tracecloak.anonymizers.noise.drawing import draw_gaussian
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.schemas.arrays.merging import offsets_of
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.statistics.variants import VariantHistogram

TRAVAS, PRIVATE_PGM, PALSYN = "travas", "private-pgm", "palsyn"
PEERS = (TRAVAS, PRIVATE_PGM, PALSYN)
# Those that cannot run in this process.
RECORDED = (PALSYN,)

# Of mirror descent. On a chain of marginals the loss is flat long before.
_ROUNDS = 1000


def require_mbi() -> Any:
    """Imports mbi.

    Raises:
        UsageError: It is not installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its floats and caches
            return importlib.import_module("mbi")
    except ImportError:
        raise UsageError(
            f"the peer {PRIVATE_PGM} needs mbi, the library of its authors, which is not "
            "installed and is no extra of tracecloak: run pip install mbi, or leave the peer out"
        ) from None


@dataclass(frozen=True, eq=False)
class PrivatePgm:
    """Private-PGM on one log at one epsilon.

    Attributes:
        cut: The variants of cases that were cut at `max_length`.
        n_names: Codes are below it.
        max_length: Positions of a record.
        epsilon: As text.
        delta: As text, above 0.
    """

    cut: VariantHistogram
    n_names: int
    max_length: int
    epsilon: str
    delta: str

    @property
    def marginals(self) -> tuple[tuple[int, ...], ...]:
        """Positions of each marginal."""
        if self.max_length == 1:
            return ((0,),)
        return tuple((i, i + 1) for i in range(self.max_length - 1))

    @property
    def scale(self) -> tuple[int, int]:
        """Parameter of the discrete Gaussian noise of each cell.

        One case is in one cell of each marginal: as many blocks of sensitivity 1 with equal shares.

        Raises:
            UsageError: Epsilon or delta is out of range.
        """
        deviation = joint_deviation(exact(self.epsilon), exact(self.delta))
        return block_scale(deviation, Fraction(1, len(self.marginals)), 1)

    def measured(self, randomness: Randomness) -> list[np.ndarray]:
        """Returns int64[n_cells] with noise, of each marginal."""
        records, width = self._records(), self.n_names + 1
        noisy_counts = []
        for number, positions in enumerate(self.marginals):
            cells = np.zeros(len(records), np.int64)
            for position in positions:
                cells = cells * width + records[:, position]
            counts = np.zeros(width ** len(positions), np.int64)
            np.add.at(counts, cells, self.cut.counts)
            stream = CellStream(randomness, f"pgm {number}", cell_numbers(np.arange(len(counts))))
            noisy_counts.append(counts + draw_gaussian(stream, *self.scale))
        return noisy_counts

    def release(self, randomness: Randomness) -> VariantHistogram:
        """Returns the variants of one release.

        Raises:
            UsageError: mbi is not installed.
        """
        mbi = require_mbi()
        names = [f"p{i}" for i in range(self.max_length)]
        noisy = self.measured(randomness)
        deviation = self.scale[0] / self.scale[1]
        cliques = [tuple(names[i] for i in positions) for positions in self.marginals]
        # The mean of the marginals' sums is the best estimate of the number of cases.
        n_cases = max(round(float(np.mean([cells.sum() for cells in noisy]))), 1)
        domain = mbi.Domain(names, [self.n_names + 1] * self.max_length)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            measured = [
                mbi.LinearMeasurement(cells.astype(np.float64), clique, deviation)
                for cells, clique in zip(noisy, cliques, strict=True)
            ]
            estimator = mbi.estimation.MirrorDescent()
            model = estimator.estimate(domain, measured, known_total=float(n_cases), iters=_ROUNDS)
            columns = model.synthetic_data(rows=n_cases).to_dict()
        return variants_of_records(np.stack([columns[name] for name in names], axis=1),
                                   self.n_names)  # fmt: skip

    def _records(self) -> np.ndarray:
        """int64[n_variants, max_length], the activities, and n_names after the last."""
        lengths = np.diff(self.cut.offsets)
        records = np.full((len(lengths), self.max_length), self.n_names, np.int64)
        place = np.arange(len(self.cut.codes)) - np.repeat(self.cut.offsets[:-1], lengths)
        records[np.repeat(np.arange(len(lengths)), lengths), place] = self.cut.codes
        return records


def variants_of_records(records: np.ndarray, end: int) -> VariantHistogram:
    """Returns the variants of records, each up to its first end; those without an event are none.

    Args:
        records: int64[n, n_positions].
        end: The code that stands after the last activity.
    """
    goes_on = np.logical_and.accumulate(records != end, axis=1)
    has_event = goes_on[:, 0] if records.shape[1] else np.zeros(len(records), bool)
    lengths = goes_on[has_event].sum(axis=1)
    codes = records[has_event][goes_on[has_event]].astype(np.int32)
    sequences = encode_sequences(offsets_of(lengths), codes)
    return VariantHistogram.from_sequences(sequences, np.ones(len(lengths), np.int64))


def chosen_peers(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of peers that can run here, or are recorded.

    Raises:
        UsageError: One is none, is there twice, or its library is not installed.
    """
    for name in names:
        if name not in PEERS:
            raise UsageError(f"peers must be of {', '.join(PEERS)}, got {name!r}")
        if names.count(name) > 1:
            raise UsageError(f"peers {name!r} is there twice: leave one out")
    if PRIVATE_PGM in names:
        require_mbi()
    return tuple(names)
