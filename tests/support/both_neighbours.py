"""Releases and streams of two neighbouring inputs whose noisy numbers are forced to be equal.

The first run draws its noise as always. In the second every sum with noise comes out as in the
first, and every choice falls alike (`coupled_noise`), from the files that are read to the files
that are written. Then three things must hold. Both runs ask for the same noise. The exact sums are
no further apart than the noise that was drawn covers, and all of it together accounts for no more
than the manifest claims. And every file is the same, byte for byte.

Nothing that a method tells of its sensitivities or spends is believed here: scales are those that
were drawn, sums those that noise was added to, thresholds what the files show them to be.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.coupled_noise import SPLITS, Coupled, Sum, loss_of_split
from tests.support.privacy_loss import gaussian_delta, normal_below
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.streams import continual

# Histograms over all cells of a public domain, of which those that nobody has are drawn together: a
# cell that only the unit has was 0 before, and no threshold need hide it.
WHOLE_DOMAINS = frozenset({"sparse-histogram count"})
# Noise that no sum of the log is added to: it stands for cells of such a domain that nobody has, or
# says how many candidates are looked at that public rules are against.
WITHOUT_SUMS = frozenset({"sparse-histogram junk value", "sacofa/harmful"})
# What sensitivities and scales are rounded by, and floats here.
_SLACK = 1 + 1e-6
_SLACK_OF_DELTA = 1 + 1e-3
# In lattice steps: a cell that is not shown by then never is.
_FAR = 1 << 22

Runs = Callable[["Forced"], Mapping[str, bytes]]


@dataclass(frozen=True)
class Claim:
    """What a manifest says that holds."""

    epsilon: float
    delta: float

    @classmethod
    def of(cls, files: Mapping[str, bytes]) -> Claim:
        """Of the release, or of the stream, that wrote these files."""
        [path] = [path for path in files if path.rpartition("/")[2] == "manifest.json"]
        guarantee = json.loads(files[path])["guarantee"]
        assert guarantee["kind"] == "rigorous"
        return cls(float(guarantee["epsilon"]), float(guarantee["delta"]))


@dataclass
class Forced(Coupled):
    """Draws exactly, or as another run did, and notes all that is asked for.

    What noise is for is told by the name of the release, too, as streams have one for each step.

    Attributes:
        asked: Each call: what for, law, how many numbers or scores, scale.
        covered: By what noise is for, the change of the sums that the method says it is made for.
        cut_off_at: By what noise is for, the largest number of noise that is cut off.
        left: By what noise is for, the numbers that no sum has been added to.
        shown: By what noise is for, what a sum comes out as that the first run has not.
        failures: Why this noise could not be told of.
    """

    asked: list[tuple[str, str, int, Fraction]] = field(default_factory=list)
    covered: dict[str, Fraction] = field(default_factory=dict)
    cut_off_at: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    shown: Mapping[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def purpose_of(self, stream: CellStream) -> str:
        return _told(stream._randomness, stream.purpose)

    def unseen(self, purpose: str) -> int:
        return self.shown.get(purpose, super().unseen(purpose))

    def _watched(self, law: str, stream: CellStream, drawn: np.ndarray, *scale: Any) -> np.ndarray:
        purpose = self.purpose_of(stream)
        self.asked.append((purpose, law, len(stream), Fraction(*scale)))
        watched: Any = super()._watched(law, stream, drawn, *scale)
        self.left[purpose] = self.left.get(purpose, 0) + len(stream)
        tell = watched.tell

        def told(rows: np.ndarray, exact: np.ndarray, noise: np.ndarray) -> np.ndarray:
            self.left[purpose] -= len(rows)
            with self._noting_failures():
                return tell(rows, exact, noise)

        watched.tell = told
        return watched

    def truncated_laplace(
        self, stream: CellStream, numerators: Any, denominators: Any, bounds: Any
    ) -> np.ndarray:
        self.cut_off_at[self.purpose_of(stream)] = int(bounds)
        return super().truncated_laplace(stream, numerators, denominators, bounds)

    def select(self, stream: CellStream, scores: np.ndarray, *given: Any, **named: Any) -> int:
        epsilon, sensitivity = given
        asked = (self.purpose_of(stream), "choice", len(scores), sensitivity / epsilon)
        self.asked.append(asked)
        with self._noting_failures():
            return super().select(stream, scores, *given, **named)

    def made(
        self,
        purpose: str,
        domain: np.ndarray,
        noisy: np.ndarray,
        noise: SumNoise,
        names: pa.Array | None = None,
    ) -> None:
        # Told right after the sums are made, of those that were made last.
        assert self.seen.last.endswith(f" {purpose}")
        if noise.sensitivity is not None:
            self.covered[self.seen.last] = noise.sensitivity

    @contextmanager
    def _noting_failures(self) -> Iterator[None]:
        """The command would say no more of them than their kind."""
        try:
            yield
        except (AssertionError, KeyError) as error:
            self.failures.append(str(error))
            raise


def _told(randomness: Randomness, purpose: str) -> str:
    _, release_id, _ = randomness._unit_key
    return f"{release_id} {purpose}"


def _named(told: str) -> str:
    """What noise is for, without the name of the release."""
    return told.partition(" ")[2]


def _release(told: str) -> str:
    return told.partition(" ")[0]


@contextmanager
def drawn_by(noise: Forced, name: str) -> Iterator[None]:
    """All noise of a release or stream comes from one place, and no key knows of what went in.

    Digests of the input and identities of values only key the noise, so that it is another one for
    another input. Here it is made equal, and so must all be that is keyed.
    """
    begin = Randomness.__init__

    def init(
        self: Randomness, key: Any, release_id: str, input_digest: str, config_digest: str
    ) -> None:
        is_own = release_id.partition("@")[0] == name  # and no log that is made up for its operator
        begin(self, key, release_id, "" if is_own else input_digest, config_digest)
        if is_own:
            self.noise = noise

    def cells_of_values(
        first: int, values: np.ndarray, cells: np.ndarray, randomness: Randomness, what: str
    ) -> np.ndarray:
        """Identities of (what, step, cell), whatever the value; distinct but by chance."""
        of_cells = np.empty((*values.shape, 2), np.uint64)
        of_cells[:] = randomness.words(f"{what}/value", cells)
        steps = np.arange(first, first + len(values), dtype=np.uint64)
        of_cells[..., 0] ^= steps[:, None]
        return of_cells.reshape(-1, 2)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Randomness, "__init__", init)
        patch.setattr(continual, "cells_of_values", cells_of_values)
        yield


# --- what must hold -------------------------------------------------------------------------------


@dataclass(frozen=True)
class First:
    """The run without the unit.

    Attributes:
        noise: What it asked for.
        files: What it wrote.
        shown_from: By what noise is for, the noisy sum from which on a cell is shown that only a
            unit has, as far as units were looked at.
    """

    noise: Forced
    files: Mapping[str, bytes]
    shown_from: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, runs: Runs) -> First:
        """Runs it, with noise as always."""
        noise = Forced()
        files = runs(noise)
        assert not noise.failures, noise.failures
        return cls(noise, dict(files))


@dataclass(frozen=True)
class Compared:
    """What a pair of neighbours shows.

    Attributes:
        label: Which pair it is.
        sentences: What does not hold.
        moved_any: Whether the unit moved anything that has noise.
        used: What its noise lets be told, as epsilon of what is pure, and delta at the epsilon that
            is claimed.
        claim: What is claimed.
    """

    label: str
    sentences: list[str]
    moved_any: bool
    used: Claim
    claim: Claim


def compared(label: str, first: First, second_of: Runs, promised: Claim | None = None) -> Compared:
    """Runs the neighbour that has one unit more, and compares all of it.

    Args:
        label: Which pair it is.
        first: The run without the unit.
        second_of: Makes the files of the other with this noise.
        promised: What holds, where it is more than the manifest says.
    """
    claim = promised or Claim.of(first.files)
    second = Forced(first.noise.seen)
    after = dict(second_of(second))
    found = _Found(list(second.failures))
    found.same_noise(first.noise, second)
    found.same_files(first.files, after)
    if found.sentences:  # behind a difference sums are further apart than by the unit
        return Compared(label, found.sentences, True, Claim(0, 0), claim)

    def is_hidden(told: str, value: int) -> bool:
        again = Forced(first.noise.seen, shown={told: value})
        return dict(second_of(again)) == first.files

    spent = found.covered(first, second, claim, is_hidden)
    used = Claim(sum(spent.pure.values()), spent.delta(claim.epsilon))
    return Compared(label, found.sentences, spent.moved_any, used, claim)


@dataclass
class _Found:
    sentences: list[str]

    def say(self, told: str, sentence: str) -> None:
        self.sentences.append(f"{_named(told)}: {sentence}")

    def same_noise(self, first: Forced, second: Forced) -> None:
        """Both ask for the same: what for, in which order, by which law, how much and how wide."""
        for run in (first, second):
            for told, n in run.left.items():
                if n and _named(told) not in WITHOUT_SUMS:
                    self.say(told, f"{n} numbers of noise are added to nothing")
        for one, other in itertools.zip_longest(first.asked, second.asked):
            if one is None or other is None or one[0] != other[0]:
                told = (other or one)[0]
                self.say(told, "one of the neighbours asks for this noise, and the other does not")
                return
            told, law, n, scale = one
            if (law, scale) != (other[1], other[3]):
                self.say(told, f"{law} noise of scale {scale} becomes {other[1]} of {other[3]}")
            has_new = second.seen.sums.get(told, {}).keys() - first.seen.sums.get(told, {}).keys()
            if n != other[2] and not has_new:
                self.say(told, f"{n} numbers of noise become {other[2]}")
        for told, cells in first.seen.sums.items():
            if cells.keys() - second.seen.sums.get(told, {}).keys():
                self.say(told, "a cell has noise without the unit, and none with it")

    def same_files(self, first: Mapping[str, bytes], second: Mapping[str, bytes]) -> None:
        for path in sorted(first.keys() | second.keys()):
            if first.get(path) != second.get(path):
                self.sentences.append(f"{path}: differs, although all that is noisy is equal")

    def covered(
        self, first: First, second: Forced, claim: Claim, is_hidden: Callable[[str, int], bool]
    ) -> _Spent:
        """The sums are as near as the noise covers, and all noise together as wide as claimed."""
        seen, at_most = _Spent(), defaultdict(_Spent)
        # Vectors of equal noise may be one vector for their method, with noise for all of it: they
        # are taken for as few as what the unit moves needs.
        blocks: defaultdict[tuple[str, str, Fraction, Fraction], list[tuple[str, Fraction]]]
        blocks = defaultdict(list)
        for told, sums in second.seen.sums.items():
            known = first.noise.seen.sums.get(told, {})
            moved, new = _moved(told, known, sums, claim)
            own = [(change, sums[cell]) for cell, change in moved.items() if change]
            spent = seen.add(told, own, second.cut_off_at.get(told))
            if new:
                alone = [sums[cell] for cell in new]
                least = _least_shown(told, alone, is_hidden, first.shown_from)
                seen.pass_by(told, alone, least, second.cut_off_at.get(told))
            made_for = second.covered.get(told)
            if made_for is None or not sums:
                at_most[_release(told)].merge(told, spent)
                continue
            some = next(iter(sums.values()))
            norm = _norm(some.law, [*(change for change, _ in own), *(sums[c].exact for c in new)])
            if norm > made_for * Fraction(_SLACK):
                self.say(told, f"the unit moves the sums by {float(norm):.6g}, and their noise is "
                               f"made for {float(made_for):.6g}")  # fmt: skip
            if new:
                at_most[_release(told)].merge(told, spent)
            else:
                blocks[_release(told), some.law, some.scale, made_for].append((told, norm))
        for (release, law, scale, made_for), parts in blocks.items():
            together = sum(norm if law == "laplace" else norm**2 for _, norm in parts)
            whole = made_for if law == "laplace" else made_for**2
            n_blocks = max(math.ceil(together / (whole * Fraction(_SLACK))), 1)
            for told, _ in parts[:n_blocks]:
                at_most[release].add(told, [(made_for, Sum(law, scale, 0, 0))], None)
        for told, (scores, epsilon, sensitivity, monotone, _) in second.seen.choices.items():
            change = scores - first.noise.seen.choices[told][0]
            if np.abs(change).max(initial=0) > sensitivity:
                self.say(told, f"the unit moves the scores by {np.abs(change).max()}, and the "
                               f"choice is made for {sensitivity}")  # fmt: skip
            if monotone and (change > 0).any() and (change < 0).any():
                self.say(told, "scores move both ways, and the choice is made for one")
            largest = float(np.abs(change).max(initial=0))
            seen.pure[told] += float(epsilon / sensitivity) * largest
            at_most[_release(told)].pure[told] += float(epsilon)
        for what, spent in (
            ("what the unit moved", seen),
            *(
                (f"what the noise of {release} is made for", own)
                for release, own in at_most.items()
            ),
        ):
            delta = spent.delta(claim.epsilon)
            if delta > claim.delta * _SLACK_OF_DELTA + 1e-12:
                self.sentences.append(
                    f"{what} costs delta {delta:.6g} at epsilon {claim.epsilon}, and "
                    f"{claim.delta:g} is claimed; {spent.largest()}"
                )
        return seen


def _moved(
    told: str, known: Mapping[bytes, Sum], sums: Mapping[bytes, Sum], claim: Claim
) -> tuple[dict[bytes, int], list[bytes]]:
    """By how much cells moved, and those that only the unit has and a threshold must hide."""
    is_open = claim.delta > 0 and _named(told) not in WHOLE_DOMAINS
    moved, new = {}, []
    for cell, own in sums.items():
        if cell in known:
            moved[cell] = own.exact - known[cell].exact
        elif is_open:
            new.append(cell)
        else:
            moved[cell] = own.exact
    return moved, new


def _norm(law: str, changes: Iterable[int]) -> Fraction:
    if law == "laplace":
        return Fraction(sum(abs(change) for change in changes))
    squared = sum(change * change for change in changes)
    return Fraction(math.isqrt(squared * 10**12)) / 10**6


def _least_shown(
    told: str, new: list[Sum], is_hidden: Callable[[str, int], bool], known: dict[str, int]
) -> int:
    """The smallest noisy sum of a cell that nobody else has of which the files show something.

    Args:
        told: What the noise is for.
        new: Such sums.
        is_hidden: Whether the files are the same where they come out as this.
        known: What was found of other units, by what noise is for; changed.
    """
    if told in known and is_hidden(told, known[told] - 1):
        return known[told]
    low, further = min(own.exact for own in new) - 1, 1
    if not is_hidden(told, low):
        return low
    while is_hidden(told, low + further):
        low, further = low + further, 2 * further
        if further > _FAR:  # such a cell is never shown
            return low
    high = low + further
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_hidden(told, middle) else (low, middle)
    known[told] = high
    return high


class _Spent:
    """What is lost by noise, each by what it is for.

    Attributes:
        pure: Epsilons of Laplace noise and of choices.
        squared: Squares of what Gaussian noise lets be seen, each change by its deviation.
        passing: Probabilities with which something is shown that the unit alone has.
    """

    def __init__(self) -> None:
        self.pure: defaultdict[str, float] = defaultdict(float)
        self.squared: defaultdict[str, float] = defaultdict(float)
        self.passing: defaultdict[str, float] = defaultdict(float)

    def add(self, told: str, moved: list[tuple[Any, Sum]], cut_off_at: int | None) -> _Spent:
        """Adds sums that moved; returns what these alone lose."""
        own = _Spent()
        split = 0.0
        for change, noisy in moved:
            if _named(told) in SPLITS:
                before = noisy.exact - int(change)
                split += loss_of_split(before, noisy.exact, noisy.noisy > 0, noisy.scale)
            elif noisy.law == "laplace":
                own.pure[told] += abs(change) / float(noisy.scale)
                if cut_off_at is not None:
                    own.passing[told] += _tail(noisy, cut_off_at + 1 - abs(change), cut_off_at)
            else:
                # What makes up for its being discrete: see `gaussian_scale`.
                own.squared[told] += float(change * change / (noisy.scale**2 - 4))
        own.pure[told] += abs(split)
        self.merge(told, own)
        return own

    def merge(self, told: str, other: _Spent) -> None:
        self.pure[told] += other.pure[told]
        self.squared[told] += other.squared[told]
        self.passing[told] += other.passing[told]

    def pass_by(self, told: str, new: list[Sum], least: int, cut_off_at: int | None) -> None:
        """Adds cells that are shown from this noisy sum on."""
        hidden = 1.0
        for own in new:
            hidden *= 1 - _tail(own, least - own.exact, cut_off_at)
        self.passing[told] += 1 - hidden

    def delta(self, epsilon: float) -> float:
        """An upper bound of the delta of all of it at an epsilon.

        What is pure loses no more than randomised response, which loses its epsilon or wins it.
        """
        losses = {0.0: 1.0}
        pure = sorted(own for own in self.pure.values() if own)
        # The largest ones by themselves; the others as one, which is not less.
        for own in [*pure[-10:], sum(pure[:-10])]:
            after: defaultdict[float, float] = defaultdict(float)
            up = 1 / (1 + math.exp(-own))
            for loss, weight in losses.items():
                after[loss + own] += weight * up
                after[loss - own] += weight * (1 - up)
            losses = dict(after)
        mu = math.sqrt(sum(self.squared.values()))
        mean = sum(
            weight * gaussian_delta(mu, epsilon * _SLACK - loss) for loss, weight in losses.items()
        )
        return mean + sum(self.passing.values())

    @property
    def moved_any(self) -> bool:
        """Whether anything is lost."""
        lost = (self.pure, self.squared, self.passing)
        return any(own for by_purpose in lost for own in by_purpose.values())

    def largest(self) -> str:
        """Which noise loses how much."""
        parts = [
            *((own, f"epsilon {own:.4g} by {_named(told)}") for told, own in self.pure.items()),
            *(
                (own, f"mu squared {own:.4g} by {_named(told)}")
                for told, own in self.squared.items()
            ),
            *((own, f"delta {own:.4g} by {_named(told)}") for told, own in self.passing.items()),
        ]
        return ", ".join(text for own, text in parts if own)


def _tail(own: Sum, least: int, cut_off_at: int | None) -> float:
    """An upper bound of the probability that the noise is so large."""
    scale = float(own.scale)
    if own.law != "laplace":
        return normal_below(-(least - 1) / scale)
    if cut_off_at is not None:
        weights = np.exp(-np.abs(np.arange(-cut_off_at, cut_off_at + 1)) / scale)
        return float(weights[max(least + cut_off_at, 0) :].sum() / weights.sum())
    if least <= 0:
        return 1.0
    return math.exp(-least / scale) / (1 + math.exp(-1 / scale))
