"""Many independent releases of one log, and what an attacker reads off each of them.

A release is a function of the log and a key, so independent releases are those under fresh keys.
What is counted on the log without asking the key is the same in all of them and is counted once;
all else, every decision and every draw of noise among it, is made anew by the method's own code.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.contract.in_memory import bound
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey
from tracecloak.examination.attack.views import (
    END,
    START,
    Variant,
    is_log_seen,
    of_times_and_values,
    seen_in,
    without_noise,
)
from tracecloak.schemas.arrays.columnar import encode
from tracecloak.schemas.arrays.merging import Pieces
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.figures import Key

# Counts that are kept for decisions that come again, such as a clip from a short grid.
_MAX_REMEMBERED = 1000
# Cells of one histogram that are watched; those that a unit changes most.
_MAX_WATCHED = 64
# The first features are of all cases: whether it was refused, total, width and activities.
N_OF_ALL = 4
_CELLS = {
    "count": "{}",
    "start": "the unit's months of start",
    "step": "the unit's times of steps",
    "span": "the unit's times of cases",
    "value": "the unit's values of {}",
}


@dataclass(frozen=True)
class Watch:
    """What is looked at in each release of a pair of logs: the variants of a unit, and their pairs.

    Attributes:
        variants: As they are within the method's bounds.
        cells: Further numbers, see `changed_cells`.
        sees_trees: Whether process trees are released, which allow steps and count none.
    """

    variants: tuple[Variant, ...]
    cells: tuple[Key, ...] = ()
    sees_trees: bool = False

    @cached_property
    def keys(self) -> list[Key]:
        """The numbers that are features, in order."""
        steps = [
            pair
            for variant in self.variants
            for pair in zip((START, *variant), (*variant, END), strict=True)
        ]
        distinct = list(dict.fromkeys(steps))
        kinds = ("step in the tree",) if self.sees_trees else ("pair", "pair in its bin")
        return [
            ("total",),
            ("width",),
            ("activities",),
            ("fitness",),
            *(("variant", *variant) for variant in self.variants),
            *((kind, *pair) for kind in kinds for pair in distinct),
            *dict.fromkeys(("noise", key[1]) for key in self.cells if key[0] == "count"),
            *self.cells,
        ]

    @property
    def names(self) -> list[str]:
        """What the features are called; no activity is named."""
        texts = {
            "total": "total of all counts",
            "width": "scale of the noise",
            "activities": "number of activities",
            "fitness": "fitness of the tree",
        }
        names = ["the release was refused"]
        numbers: Counter[str] = Counter()
        for kind, *rest in self.keys:
            if kind in texts:
                names.append(texts[kind])
            elif kind == "noise":
                names.append(f"scale of the noise of {rest[0]}")
            elif kind in _CELLS:
                what = _CELLS[kind].format(rest[0])
                numbers[what] += 1
                names.append(f"count {numbers[what]} of {what}")
            else:
                numbers[kind] += 1
                names.append(f"count of the unit's {kind} {numbers[kind]}")
        return names

    def features(self, seen: Mapping[Key, float] | None) -> list[float]:
        """Returns the features of a release, NaN where it lacks one; None is a refused release."""
        if seen is None:
            return [1.0] + [math.nan] * len(self.keys)
        return [0.0, *(seen.get(key, math.nan) for key in self.keys)]


def changed_cells(
    with_unit: TraceBatch,
    without_unit: TraceBatch,
    method: Anonymizer,
    params: Any,
    keys: Iterator[ReleaseKey],
) -> tuple[Key, ...]:
    """Returns which cells of the noisy histograms, or of a released log, a unit is in.

    They are those in which the two logs differ without noise: of each histogram those that differ
    most, at most 64. That they are known is no advantage: an attacker knows both logs.

    Args:
        with_unit: The log that has the unit.
        without_unit: The log that lacks it.
        method: The method, in the form that is looked at.
        params: Its parameters.
        keys: Fresh ones, for what keeps its noise.
    """
    silent = without_noise(method) if hasattr(method, "original") else None
    exact: list[dict[Key, float]] = []
    for traces in (with_unit, without_unit):
        if silent is not None:
            exact.append(Releases([traces], silent, params, keys).make() or {})
        elif is_log_seen(method, params):
            exact.append(of_times_and_values(traces, method.attributes(params)))
    if not exact:
        return ()
    more, fewer = exact
    changes: dict[Key, list[tuple[float, Key]]] = {}
    for key in sorted(more.keys() | fewer.keys()):
        change = abs(more.get(key, 0.0) - fewer.get(key, 0.0))
        if key[0] in _CELLS and change:
            group = key[:2] if key[0] in ("count", "value") else key[:1]
            changes.setdefault(group, []).append((-change, key))
    return tuple(key for group in changes.values() for _, key in sorted(group)[:_MAX_WATCHED])


# --- many releases --------------------------------------------------------------------------------


def fresh_keys() -> Iterator[ReleaseKey]:
    """Yields keys from the operating system, without an end."""
    while True:
        yield ReleaseKey.generate()


class _KeyUseProbe(Randomness):
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


class _CachedParams:
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
        self._params = _CachedParams(params)
        self._keys = keys
        probe = self._probe()
        self._bounded: list[TraceBatch] | None = bound(self._traces, method, self._params, probe)
        if probe.was_asked:  # which cases of an individual count depends on the key
            self._bounded = None
        self._counted: dict[tuple[tuple[str, str], tuple[bytes, ...]], Any] = {}
        self._asking: set[tuple[str, str]] = set()

    def _probe(self) -> _KeyUseProbe:
        return _KeyUseProbe(next(self._keys), "audit", "", "")

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

        def recounted() -> Any:
            return counted(randomness.of_units if is_first_round else randomness)

        if self._bounded is None or name in self._asking:
            return recounted()
        # A count that tells what it depends on is kept although other decisions differ.
        read = counter.reads(decisions) if hasattr(counter, "reads") else decisions
        place = name, tuple(encode(value) for value in read.values())
        if place not in self._counted:
            probe = self._probe()
            statistic = counted(probe)
            if probe.was_asked or len(self._counted) >= _MAX_REMEMBERED:
                self._asking.add(name)
                return recounted()
            self._counted[place] = statistic
        return self._counted[place]

    def make(
        self,
        release_id: str = "audit",
        watched: Sequence[Key] | None = None,
    ) -> dict[Key, float] | None:
        """Makes one release; returns what is seen in it, or None if the method refused.

        Args:
            release_id: Its name.
            watched: See `seen_in`.
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
                decisions[round_name] = method.decide(
                    round_name, statistics, dict(decisions), params, randomness
                )
        except GuaranteeError:
            return None
        log = []
        if method.log == "transformed":
            log = [method.apply(batch, decisions, params, randomness) for batch in traces]
        elif is_log_seen(method, params):
            log = [method.generate(0, 1, decisions, params, randomness)]
        shown = method.products(decisions, params).by_name
        return seen_in(shown, log, method.attributes(params), watched)

    def sample(self, n: int, watch: Watch) -> np.ndarray:
        """Returns float64[n, n_features], the features of n releases."""
        rows = [watch.features(self.make(watched=watch.cells)) for _ in range(n)]
        return np.array(rows)
