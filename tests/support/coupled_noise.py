"""Two runs of a method on neighbouring logs that come out alike, and what noise must hide for that.

The first run draws its noise as always. In the second, each sum with noise comes out as in the
first, whatever the exact one is, and each choice falls alike. So all that follows is the same, if
nothing but noisy numbers is released, and what differs is by how far the exact numbers moved: what
the noise must cover. Sums are seen where noise is added to them, not where a method tells of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.support.keys import release_key
from tests.support.logs import Variant, trace_batch
from tests.support.rounds import run_rounds
from tracecloak.anonymizers.accounting.composition import continuous_deviation
from tracecloak.anonymizers.accounting.sensitivity import Sensitivity
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.noise.samplers import CellStream, Noise
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.rigorous.budget import Allowance
from tracecloak.schemas.arrays.columnar import encode
from tracecloak.schemas.events.traces import TraceBatch

# Below every threshold.
_UNSEEN = -(1 << 40)

Cell = bytes


@dataclass(frozen=True)
class Sum:
    """One number with noise.

    Attributes:
        law: Of its noise.
        scale: Of its noise.
        exact: Without it.
        noisy: With it.
    """

    law: str
    scale: Fraction
    exact: int
    noisy: int


@dataclass
class Seen:
    """What a run put noise on.

    Attributes:
        sums: By purpose and cell.
        choices: By purpose: scores, epsilon, sensitivity, whether all move alike, what was chosen.
        thresholds: In order, the sums that were last before each, and what it was made for.
    """

    sums: dict[str, dict[Cell, Sum]] = field(default_factory=dict)
    choices: dict[str, tuple[np.ndarray, Fraction, Fraction, bool, int]] = field(
        default_factory=dict
    )
    thresholds: dict[str, tuple[Sensitivity, int]] = field(default_factory=dict)
    last: str = ""


class _Draws(np.ndarray):
    """Noise that tells what it is added to."""

    tell: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray] | None
    rows: np.ndarray | None

    def __array_finalize__(self, source: Any) -> None:
        self.tell = getattr(source, "tell", None)
        self.rows = None

    def __getitem__(self, key: Any) -> Any:
        values = np.asarray(self)[key]
        if self.rows is None or not isinstance(key, int):
            return values
        own = np.asarray(values).view(_Draws)
        own.tell, own.rows = self.tell, np.asarray(self.rows[key])
        return own

    def __array_ufunc__(self, ufunc: Any, how: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        plain = [np.asarray(x) if isinstance(x, _Draws) else x for x in inputs]
        if ufunc is np.add and how == "__call__" and self.tell is not None:
            assert self.rows is not None, "noise was cut or shaped anew before it was added"
            [other] = [np.asarray(x) for x in inputs if not isinstance(x, _Draws)]
            assert other.dtype == np.int64
            exact = np.broadcast_to(other, self.shape)
            found: Any = self.tell(self.rows.ravel(), exact.ravel(), np.asarray(self).ravel())
            found = found.reshape(self.shape)
            if out is None:
                return found
            out[0][...] = found
            return out[0]
        return getattr(ufunc, how)(*plain, **kwargs, **({} if out is None else {"out": out}))

    def reshape(self, *shape: Any, **kwargs: Any) -> Any:
        shaped = np.asarray(self).reshape(*shape, **kwargs).view(_Draws)
        if self.rows is not None:
            shaped.tell, shaped.rows = self.tell, np.asarray(self.rows).reshape(*shape, **kwargs)
        return shaped


@dataclass
class Coupled(Noise):
    """Draws exactly, or as another run did.

    Attributes:
        first: That run; None: this is it.
        seen: What this one put noise on.
    """

    first: Seen | None = None
    seen: Seen = field(default_factory=Seen)

    def purpose_of(self, stream: CellStream) -> str:
        """What the noise of a stream is told by."""
        return stream.purpose

    def unseen(self, purpose: str) -> int:
        """What a sum comes out as in the second run that the first one has not."""
        return _UNSEEN

    def _watched(self, law: str, stream: CellStream, drawn: np.ndarray, *scale: Any) -> np.ndarray:
        cells = [row.tobytes() for row in stream._cells]
        purpose = self.purpose_of(stream)
        own = self.seen.sums.setdefault(purpose, {})
        before = None if self.first is None else self.first.sums.get(purpose, {})

        def tell(rows: np.ndarray, exact: np.ndarray, noise: np.ndarray) -> np.ndarray:
            self.seen.last = purpose
            noisy = exact + noise
            for i, row in enumerate(rows.tolist()):
                cell = cells[row]
                assert cell not in own, f"{purpose} has noise twice"
                if before is not None:
                    noisy[i] = before[cell].noisy if cell in before else self.unseen(purpose)
                own[cell] = Sum(law, Fraction(*scale), int(exact[i]), int(noisy[i]))
            return noisy

        watched = drawn.view(_Draws)
        watched.tell, watched.rows = tell, np.arange(len(drawn))
        return watched

    def laplace(self, stream: CellStream, *scale: Any) -> np.ndarray:
        return self._watched("laplace", stream, super().laplace(stream, *scale), *scale)

    def gaussian(self, stream: CellStream, *scale: Any) -> np.ndarray:
        return self._watched("gaussian", stream, super().gaussian(stream, *scale), *scale)

    def truncated_laplace(
        self, stream: CellStream, numerators: Any, denominators: Any, bounds: Any
    ) -> np.ndarray:
        drawn = super().truncated_laplace(stream, numerators, denominators, bounds)
        return self._watched("laplace", stream, drawn, numerators, denominators)

    def select(
        self,
        stream: CellStream,
        scores: np.ndarray,
        epsilon: Fraction,
        sensitivity: Fraction,
        *,
        monotone: bool = False,
    ) -> int:
        purpose = self.purpose_of(stream)
        assert purpose not in self.seen.choices
        chosen = super().select(stream, scores, epsilon, sensitivity, monotone=monotone)
        if self.first is not None:
            chosen = self.first.choices[purpose][-1]
        self.seen.choices[purpose] = scores, epsilon, sensitivity, monotone, chosen
        return chosen


@contextmanager
def noting_thresholds(noise: Coupled) -> Iterator[None]:
    """Notes of which sums a threshold is asked, and for what it is made."""
    real = Allowance.threshold

    def noted(self: Allowance, changed: Sensitivity, units: int | None = None) -> int:
        found = self.noise(changed, units)
        steps = found.units if units is None and not found.is_laplace else 1
        noise.seen.thresholds.setdefault(noise.seen.last, (changed, steps))
        return real(self, changed, units)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Allowance, "threshold", noted)
        yield


def run(method: Anonymizer, params: Any, traces: TraceBatch, noise: Coupled) -> bytes:
    """Runs all rounds; returns what they decided."""
    with noting_thresholds(noise):
        made = run_rounds([traces], method, params, release_key(), noise=noise, digest="input")
    return b"".join(encode(decision) for decision in made.decisions.values())


# --- what noise must hide -------------------------------------------------------------------------


@dataclass(frozen=True)
class Loss:
    """What a unit loses at most by all that has noise.

    Attributes:
        pure: By Laplace noise and choices: their epsilons.
        squared: By Gaussian noise: the sum of the squares of what moved, each by its deviation.
        new: By purpose, how far cells moved that only the unit has, of which a threshold decides.
    """

    pure: float
    squared: float
    new: Mapping[str, list[int]]


# Sums of which a decision is all that is seen: epsilon is that of the decision.
Decided = Callable[[int, int, bool, Fraction], float]


# Noise of decisions, which lose what the decision says: see `split_tree.SplitRule`.
SPLITS = frozenset({"privtree split"})


def loss_of_split(before: int, after: int, is_split: bool, scale: Fraction) -> float:
    """How much more or less likely a decision gets with a count, as a logarithm."""

    def logarithm(count: int) -> float:
        g = count if is_split else 1 - count  # P(g + X > 0) and P(g + X <= 0)
        decay = 1 / float(scale)
        if g <= 1:
            return (g - 1) * decay - math.log1p(math.exp(-decay))
        return math.log1p(-math.exp(-g * decay) / (1 + math.exp(-decay)))

    return logarithm(after) - logarithm(before)


def loss_between(
    before: Seen, after: Seen, open_cells: frozenset[str], decisions: Mapping[str, Decided]
) -> Loss:
    """Returns what the second of two coupled runs loses.

    Args:
        before: The first.
        after: The second, with more cases.
        open_cells: Purposes of sums whose new cells a threshold hides.
        decisions: By purpose, the loss of what is decided by a sum and noise alone.
    """
    pure = squared = 0.0
    new: dict[str, list[int]] = {}
    assert before.sums.keys() <= after.sums.keys() and before.choices.keys() == after.choices.keys()
    for purpose, sums in after.sums.items():
        known = before.sums.get(purpose, {})
        assert known.keys() <= sums.keys()
        of_decisions = 0.0
        for cell, own in sums.items():
            if cell not in known and purpose in open_cells:
                new.setdefault(purpose, []).append(own.exact)
                continue
            exact = known[cell].exact if cell in known else 0
            moved = own.exact - exact
            if cell in known:
                assert (own.law, own.scale) == (known[cell].law, known[cell].scale)
            if not moved:
                continue
            if purpose in decisions:
                of_decisions += decisions[purpose](exact, own.exact, own.noisy > 0, own.scale)
            elif own.law == "laplace":
                pure += abs(moved) / float(own.scale)
            else:
                squared += float(moved**2 / continuous_deviation(own.scale) ** 2)
        pure += abs(of_decisions)
    for purpose, (scores, epsilon, sensitivity, monotone, _) in after.choices.items():
        moved = scores - before.choices[purpose][0]
        assert not monotone or (moved >= 0).all() or (moved <= 0).all()
        pure += float(epsilon / sensitivity) * int(np.abs(moved).max())
    return Loss(pure, squared, new)


@dataclass
class Fixed(Coupled):
    """Chooses alike whatever the log, and notes what noise is made for."""

    made_for: dict[str, SumNoise] = field(default_factory=dict)

    def select(self, stream: Any, scores: np.ndarray, *_: Any, **__: Any) -> int:
        return min(5, len(scores) - 1)

    def made(self, purpose: str, domain: Any, noisy: Any, noise: SumNoise, *_: Any) -> None:
        self.made_for[purpose] = noise


def lost_by(first: Fixed, second: Fixed) -> dict[str, Fraction]:
    """By block, what a unit loses: epsilon of Laplace noise, the square of mu of Gaussian noise."""
    lost = {}
    for what, sums in second.seen.sums.items():
        known, some = first.seen.sums[what], next(iter(sums.values()))
        assert {(own.law, own.scale) for own in (*known.values(), *sums.values())} == {
            (some.law, some.scale)
        }
        power, width = (
            (1, some.scale) if some.law == "laplace" else (2, continuous_deviation(some.scale))
        )
        moved = (own.exact - (known[c].exact if c in known else 0) for c, own in sums.items())
        norm = sum(abs(x) ** power for x in moved)
        if (noise := second.made_for.get(what)) and noise.sensitivity is not None:
            assert norm <= noise.sensitivity**power
        lost[what] = norm / Fraction(width) ** power
    return lost


def dearest(
    method: Anonymizer, params: Any, others: TraceBatch, logs: Iterable[TraceBatch]
) -> tuple[Fraction, dict[str, Fraction]]:
    """What the units that others have more lose at most, of all blocks together and of each."""
    first, most, largest = Fixed(), Fraction(0), dict[str, Fraction]()
    run(method, params, others, first)
    for log in logs:
        second = Fixed(first.seen)
        run(method, params, log, second)
        lost = lost_by(first, second)
        assert lost.keys() == first.seen.sums.keys()
        largest = {what: max(own, largest.get(what, own)) for what, own in lost.items()}
        most = max(most, sum(lost.values(), Fraction(0)))
    return most, largest


def dearest_of_variants(
    method: Anonymizer,
    params: Any,
    others: Mapping[Variant, int],
    units: Iterable[Sequence[Variant]],
    names: Sequence[str],
) -> tuple[Fraction, dict[str, Fraction]]:
    """The same of units that are cases of these variants, beside cases of somebody else each."""
    cases = [variant for variant, n in others.items() for _ in range(n)]

    def log(*unit: Variant) -> TraceBatch:
        texts = {f"{i}": " ".join(variant) for i, variant in enumerate([*cases, *unit])}
        owners = {case: case if int(case) < len(cases) else "k" for case in texts}
        return trace_batch(texts, names, owners)

    return dearest(method, params, log(), (log(*unit) for unit in units))
