"""Many independent releases of one log, and what an attacker reads off each of them.

A release is a function of the log and a key, so independent releases are those under fresh keys.
What is counted on the log without asking the key is the same in all of them and is counted once;
all else, every decision and every draw of noise among it, is made anew by the method's own code.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from anonymizers.base import Anonymizer
from anonymizers.noisy_graph import SumNoise
from anonymizers.randomness import Randomness, ReleaseKey
from pipelines.in_memory import bound
from schemas.columnar import encode
from schemas.errors import GuaranteeError
from schemas.merging import Pieces
from schemas.released_graph import ReleasedGraph
from schemas.released_variants import ReleasedVariants
from schemas.traces import TraceBatch
from schemas.variants import VariantHistogram
from schemas.vocabulary import ActivityVocabulary

# Microseconds between the events of a case that an audit makes up.
STEP_US = 60_000_000
# Counts that are kept for decisions that come again, such as a clip from a short grid.
_MAX_REMEMBERED = 1000

Variant = tuple[str, ...]
# ("variant", a, b, …), ("pair", a, b), ("pair in its bin", a, b), ("total",), ("width",), …
Key = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class NoisySums:
    """The sums of a directly-follows graph with their noise, before they are made a graph.

    All that is released follows from them, so they tell at least as much.

    Attributes:
        noisy: int64[n_cells].
        domain: int64[n_cells], the cells, see `anonymizers.noisy_graph.possible_pairs`.
        vocabulary: What their codes mean.
        borders_us: Borders of the duration bins in microseconds, or None.
        noise: What was added.
    """

    noisy: np.ndarray
    domain: np.ndarray
    vocabulary: ActivityVocabulary
    borders_us: np.ndarray | None
    noise: SumNoise


def before_publication(method: Anonymizer) -> Anonymizer:
    """Returns the method with its noisy sums for products, or as it is if it shows none."""
    if not hasattr(method, "publish"):
        return method
    shown = copy.copy(method)
    shown.publish = lambda *sums: (NoisySums(*sums), None)
    return shown


def without_noise(method: Anonymizer) -> Anonymizer | None:
    """Returns the method with zeros for noise, or None if its noise cannot be replaced."""
    names = [name for name in ("laplace", "gaussian", "truncated") if hasattr(method, name)]
    if not names:
        return None
    silent = copy.copy(method)
    for name in names:
        setattr(silent, name, lambda stream, *_: np.zeros(len(stream), np.int64))
    return silent


# --- what is seen ---------------------------------------------------------------------------------


def seen_in(products: Mapping[str, Any], log: Sequence[TraceBatch]) -> dict[Key, float]:
    """Returns the numbers of a release by what they count.

    Args:
        products: Variants, graphs or noisy sums; others are not looked at.
        log: The released log, of which the variants are counted; times are not looked at.
    """
    seen: dict[Key, float] = {}
    for product in products.values():
        if isinstance(product, ReleasedVariants):
            seen.update(_of_variants(product.names, product.offsets, product.codes, product.counts))
            seen["total",] = float(product.counts.sum())
        elif isinstance(product, ReleasedGraph):
            labels = product.labels
            rows = zip(product.sources, product.targets, product.counts.tolist(), strict=True)
            seen.update({("pair", labels[a], labels[b]): float(count) for a, b, count in rows})
            seen["total",] = float(product.counts.sum())
            seen["activities",] = float(len(product.names))
        elif isinstance(product, NoisySums):
            seen.update(_of_sums(product))
    for batch in log:
        counted = VariantHistogram.from_traces(batch)
        names = batch.vocabulary.names
        for key, count in _of_variants(
            names, counted.offsets, counted.codes, counted.counts
        ).items():
            seen[key] = seen.get(key, 0.0) + count
        seen["total",] = seen.get(("total",), 0.0) + batch.n_cases
    return seen


def _of_variants(
    names: pa.StringArray, offsets: np.ndarray, codes: np.ndarray, counts: np.ndarray
) -> dict[Key, float]:
    words = names.to_pylist()
    text = [words[code] for code in codes.tolist()]
    bounds = offsets.tolist()
    return {
        ("variant", *text[first:last]): float(count)
        for first, last, count in zip(bounds[:-1], bounds[1:], counts.tolist(), strict=True)
    }


def _of_sums(sums: NoisySums) -> dict[Key, float]:
    labels = sums.vocabulary.labels
    n_bins = 1 if sums.borders_us is None else len(sums.borders_us) + 1
    n_codes = sums.vocabulary.end + 1
    cells = sums.noisy.astype(float)
    pairs, first = np.unique(sums.domain // n_bins, return_index=True)
    totals = np.add.reduceat(cells, first)
    names = [(labels[pair // n_codes], labels[pair % n_codes]) for pair in pairs.tolist()]
    seen: dict[Key, float] = {
        ("pair", *name): total for name, total in zip(names, totals.tolist(), strict=True)
    }
    seen["total",] = float(cells.sum())
    seen["width",] = sums.noise.width
    seen["activities",] = float(len(sums.vocabulary))
    if sums.borders_us is not None:
        step = int(np.searchsorted(sums.borders_us, STEP_US, side="right"))
        inner = {*labels[: sums.vocabulary.start]}
        for name, at in zip(names, first.tolist(), strict=True):
            if inner.issuperset(name):
                seen["pair in its bin", *name] = float(cells[at + step])
    return seen


@dataclass(frozen=True)
class Watch:
    """What is looked at in each release of a pair of logs: the variants of a unit, and their pairs.

    Attributes:
        variants: As they are within the method's bounds.
    """

    variants: tuple[Variant, ...]

    @cached_property
    def keys(self) -> list[Key]:
        """The numbers that are features, in order."""
        steps = [
            pair
            for variant in self.variants
            for pair in zip(("▶", *variant), (*variant, "■"), strict=True)
        ]
        distinct = list(dict.fromkeys(steps))
        return [
            ("total",),
            ("width",),
            ("activities",),
            *(("variant", *variant) for variant in self.variants),
            *(("pair", *pair) for pair in distinct),
            *(("pair in its bin", *pair) for pair in distinct),
        ]

    @property
    def names(self) -> list[str]:
        """What the features are called; no activity is named."""
        texts = {
            "total": "total of all counts",
            "width": "scale of the noise",
            "activities": "number of activities",
        }
        names, numbers = (
            ["the release was refused"],
            {"variant": 0, "pair": 0, "pair in its bin": 0},
        )
        for kind, *_ in self.keys:
            if kind in texts:
                names.append(texts[kind])
            else:
                numbers[kind] += 1
                names.append(f"count of the unit's {kind} {numbers[kind]}")
        return names

    def features(self, seen: Mapping[Key, float] | None) -> list[float]:
        """Returns the features of a release, NaN where it lacks one; None is a refused release."""
        if seen is None:
            return [1.0] + [math.nan] * len(self.keys)
        return [0.0, *(seen.get(key, math.nan) for key in self.keys)]


# --- many releases --------------------------------------------------------------------------------


def fresh_keys() -> Iterator[ReleaseKey]:
    """Yields keys from the operating system, without an end."""
    while True:
        yield ReleaseKey.generate()


class _Noticing(Randomness):
    """Notes whether it was asked for anything."""

    was_asked = False

    @cached_property
    def of_units(self) -> Randomness:
        return self

    def identify(self, kind: str, names: pa.Array) -> np.ndarray:
        self.was_asked = True
        return super().identify(kind, names)

    def words(self, purpose: str, cells: np.ndarray, counter: np.ndarray | int = 0) -> np.ndarray:
        self.was_asked = True
        return super().words(purpose, cells, counter)


class _Remembering:
    """Parameters whose derived numbers, such as a threshold, are computed once."""

    def __init__(self, params: Any) -> None:
        self._params = params

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._params, name)
        if callable(value):
            value = functools.cache(value)
        self.__dict__[name] = value
        return value


class Releases:
    """Independent releases of one log, each under the next of some keys.

    The input's digest, which under a fresh key changes the law of nothing, is left out.

    Args:
        traces: Batches of complete cases, of one vocabulary; complete individuals where they count.
        method: The method.
        params: Its parameters.
        keys: One for each release.
    """

    def __init__(
        self,
        traces: Sequence[TraceBatch],
        method: Anonymizer,
        params: Any,
        keys: Iterator[ReleaseKey],
    ) -> None:
        self._traces = list(traces)
        self._method = method
        self._params = _Remembering(params)
        self._keys = keys
        probe = self._probe()
        self._bounded: list[TraceBatch] | None = bound(self._traces, method, self._params, probe)
        if probe.was_asked:  # which cases of an individual count depends on the key
            self._bounded = None
        self._counted: dict[tuple[tuple[str, str], tuple[bytes, ...]], Any] = {}
        self._asking: set[tuple[str, str]] = set()

    def _probe(self) -> _Noticing:
        return _Noticing(next(self._keys), "audit", "", "")

    def _statistic(
        self,
        name: tuple[str, str],
        counter: Any,
        traces: Sequence[TraceBatch],
        decisions: Mapping[str, Any],
        randomness: Randomness,
        is_first_round: bool,
    ) -> Any:
        """Counts, unless the same was counted under the same decisions and no key was asked."""

        def counted(keyed: Randomness) -> Any:
            pieces = Pieces(counter.kind)
            for batch in traces:
                pieces.add(counter.count(batch, decisions, keyed))
            return pieces.result()

        def counted_anew() -> Any:
            return counted(randomness.of_units if is_first_round else randomness)

        if self._bounded is None or name in self._asking:
            return counted_anew()
        place = name, tuple(encode(value) for value in decisions.values())
        if place not in self._counted:
            probe = self._probe()
            found = counted(probe)
            if probe.was_asked or len(self._counted) >= _MAX_REMEMBERED:
                self._asking.add(name)
                return counted_anew()
            self._counted[place] = found
        return self._counted[place]

    def make(
        self, release_id: str = "audit", also: Anonymizer | None = None
    ) -> tuple[dict[Key, float] | None, dict[Key, float] | None]:
        """Makes one release; returns what is seen in it, or None if the method refused.

        Args:
            release_id: Its name.
            also: Another form of the method; it decides the last round of the same release too,
                and what would be seen then is returned as well.
        """
        method, params = self._method, self._params
        randomness = Randomness(next(self._keys), release_id, "", "")
        traces = self._bounded
        if traces is None:
            traces = bound(self._traces, method, params, randomness)
        decisions: dict[str, Any] = {}
        try:
            for i, round_name in enumerate(method.rounds(params)):
                statistics = {
                    name: self._statistic(
                        (round_name, name), counter, traces, decisions, randomness, i == 0
                    )
                    for name, counter in method.requires(round_name, params).items()
                }
                before = dict(decisions)
                decisions[round_name] = method.decide(
                    round_name, statistics, before, params, randomness
                )
        except GuaranteeError:
            return None, None
        log = []
        if method.log == "transformed":
            log = [method.apply(batch, decisions, params, randomness) for batch in traces]
        seen = seen_in(method.products(decisions, params).by_name, log)
        if also is None:
            return seen, None
        before[round_name] = also.decide(round_name, statistics, before, params, randomness)
        return seen, seen_in(also.products(before, params).by_name, [])

    def sample(self, n: int, watch: Watch) -> np.ndarray:
        """Returns float64[n, n_features], the features of n releases."""
        return np.array([watch.features(self.make()[0]) for _ in range(n)])
