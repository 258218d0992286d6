"""Many independent releases of one log, and what an attacker reads off each of them.

A release is a function of the log and a key, so independent releases are those under fresh keys.
What is counted on the log without asking the key is the same in all of them and is counted once;
all else, every decision and every draw of noise among it, is made anew by the method's own code.

A release is read as its numbers by what they count. They are those of what is released or, where
the method tells its `Noise` of them, the sums with their noise that all of it follows from.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.contract.case_digests import InputDigest
from tracecloak.anonymizers.contract.in_memory import (
    INPUT_DIGEST,
    Known,
    MethodRun,
    bound,
    execute,
)
from tracecloak.anonymizers.contract.method import Anonymizer, Decisions, Products
from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey
from tracecloak.anonymizers.noise.samplers import EXACT, Noise
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.schemas.arrays.columnar import encode
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.events.declarations import Attribute
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.models import ProcessTree
from tracecloak.schemas.published.figures import Key, ReleasedProduct
from tracecloak.schemas.published.graph import ReleasedTree
from tracecloak.schemas.statistics.variants import VariantHistogram

# --- The numbers of a release by what they count. -------------------------------------------------
# Beside the keys of products there are ("pair in its bin", a, b) and ("width",) of noisy sums;
# ("count", purpose, cell, number of cells) of a noisy histogram, and ("noise", purpose);
# ("start", month), ("step", decade), ("span", decade), ("value", attribute, cell) of a log;
# ("step in the tree", a, b) of a process tree. Before the first activity of a case comes START, and
# after the last END.

# Microseconds between the events of a case that an audit makes up.
STEP_US = 60_000_000
# Cells of one histogram that are shown where none are asked for.
_MAX_SHOWN = 1 << 12

Variant = tuple[str, ...]
START, END = ActivityVocabulary.of([]).labels

# Two activities one right after the other; None stands for the start and for the end.
Step = tuple[str | None, str | None]


def is_log_seen(method: Anonymizer, params: Any) -> bool:
    """Whether releases are told by a log.

    Else by what is released beside it or in its place: variants that a log is generated from say
    all that it says.
    """
    is_told_by_variants = "variants" in method.writes(params)
    return method.log == "transformed" or (method.log == "generated" and not is_told_by_variants)


def seen_in(
    products: Mapping[str, ReleasedProduct],
    log: TraceBatch | None = None,
    attributes: Sequence[Attribute] = (),
    watched: Sequence[Key] | None = None,
) -> dict[Key, float]:
    """Returns the numbers of a release by what they count.

    Of a log: cases by variant, by month of start and by decade of the time from first to last
    event, steps by decade of their time, and values of declared attributes by cell, of the case
    once a case. Times of generated variants are positions, and count as such.

    Args:
        products: What was released beside the log.
        log: The released log.
        attributes: The declared ones.
        watched: Which numbers of large products are wanted; None for the first of each.
    """
    seen: dict[Key, float] = {}
    for product in products.values():
        seen.update(product.numbers(watched))
        if isinstance(product, ReleasedTree):
            steps = steps_of_tree(product.tree)
            seen |= {("step in the tree", a or START, b or END): 1.0 for a, b in steps}
    if log is not None:
        for variant, count in counts_by_variant(log).items():
            seen["variant", *variant] = seen.get(("variant", *variant), 0.0) + count
        seen |= _times_and_values(log, attributes)
        seen["total",] = seen.get(("total",), 0.0) + log.n_cases
    return seen


def counts_by_variant(traces: TraceBatch) -> dict[Variant, int]:
    """Returns the cases of each variant."""
    return VariantHistogram.from_traces(traces).named(traces.vocabulary)


def _times_and_values(traces: TraceBatch, attributes: Sequence[Attribute]) -> dict[Key, float]:
    """Returns how a log's cases and events are spread over times and values; see `seen_in`."""
    last = traces.offsets[1:] - 1
    step = ~traces.is_first
    numbers: dict[Key, np.ndarray] = {
        ("start",): traces.starts.astype("datetime64[us]").astype("datetime64[M]"),
        ("step",): _decades(traces.durations[step]),
        ("span",): _decades((traces.times[last] - traces.starts)[traces.lengths > 1]),
    }
    for attribute in attributes:
        if attribute.name in traces.attributes:
            values = traces.attributes[attribute.name]
            if attribute.is_of_case:
                values = values.take(pa.array(traces.offsets[:-1]))
            if not pa.types.is_dictionary(values.type):
                values = values.cast(pa.string())
            numbers["value", attribute.name] = attribute.cells(values)
    seen: dict[Key, float] = {}
    for key, cells in numbers.items():
        distinct, counts = np.unique(cells, return_counts=True)
        for cell, count in zip(distinct.tolist(), counts.tolist(), strict=True):
            seen[*key, str(cell)] = float(count)
    return seen


def _decades(times_us: np.ndarray) -> np.ndarray:
    """int64[n]: 0 for no time, else the number of digits of the microseconds."""
    return np.searchsorted(10 ** np.arange(18, dtype=np.int64), times_us, side="right")


def steps_of_tree(tree: ProcessTree) -> frozenset[Step]:
    """Returns every step that some word of a tree takes, those from the start and to the end too.

    So it says which activities there are, which may come first and last, and which pairs follow
    each other directly. If the tree can be nothing, the step from start to end is one of them.
    These are what a difference attack compares of two models, before and after one case (Schulze,
    Zisgen, Kirschke, Mohammadi and Koschmider, "Differentially Private Inductive Miner", section
    II).
    """
    if tree.operator is None:
        name = tree.label
        return frozenset({(None, name), (name, None)})
    children = [steps_of_tree(child) for child in tree.children]
    if tree.operator == "sequence":
        return functools.reduce(_steps_in_sequence, children)
    if tree.operator == "loop":
        body, back = children
        # Going back twice shows every pair that going back any number of times can show, since
        # each pass can leave out what another pass has.
        passes = [body, back, body, back, body]
        through: frozenset[Step] = functools.reduce(_steps_in_sequence, passes)
        return body | through
    steps: frozenset[Step] = frozenset().union(*children)
    if tree.operator == "exclusive":
        return steps
    for one, other in itertools.permutations(tree.children, 2):
        steps |= set(itertools.product(one.labels, other.labels))
    nothing: Step = (None, None)
    return steps if all(nothing in child for child in children) else steps - {nothing}


def _steps_in_sequence(first: frozenset[Step], second: frozenset[Step]) -> frozenset[Step]:
    """Each step to the end of the first goes on with each step from the start of the second."""
    ends = [a for a, b in first if b is None]
    starts = [b for a, b in second if a is None]
    inside = {step for step in first if step[1] is not None}
    inside |= {step for step in second if step[0] is not None}
    return frozenset(inside | set(itertools.product(ends, starts)))


# --- The sums with their noise that all of a release follows from. --------------------------------


class _NoisySums(NamedTuple):
    """Sums that a release was made of; see `Noise.made`."""

    noisy: np.ndarray
    domain: np.ndarray
    noise: SumNoise
    names: pa.Array | None


class _Enough(Exception):  # noqa: N818  # it is no error
    """All that is wanted of a decision is known: its argument."""


@dataclass
class SumRecorder(Noise):
    """Draws exactly, and keeps the sums that it is told of.

    Attributes:
        is_enough: Whether the run ends with sums of pairs, so that nothing is made of them. Others,
            such as what a clip is chosen by, are not of pairs and have no names.
        sums: By what their noise is for.
    """

    is_enough: bool = False
    sums: dict[str, _NoisySums] = field(default_factory=dict)

    def made(
        self,
        purpose: str,
        domain: np.ndarray,
        noisy: np.ndarray,
        noise: SumNoise,
        names: pa.Array | None = None,
    ) -> None:
        """Keeps sums."""
        self.sums[purpose] = _NoisySums(noisy, domain, noise, names)
        if self.is_enough and names is not None:
            raise _Enough(self.sums[purpose])


def has_sums_to_see(method: Anonymizer) -> bool:
    """Whether the noisy sums tell more than what is released."""
    return method.sums not in ("none", "released")


def _numbers_of_pairs(sums: _NoisySums, borders_us: np.ndarray | None) -> dict[Key, float]:
    """Returns the sum of each pair, in all bins of durations and in one, and what goes with them.

    Args:
        sums: Of a directly-follows graph; for their cells see
            `anonymizers.graphs.noisy_graph.possible_pairs`.
        borders_us: Borders of the duration bins in microseconds, or None.
    """
    vocabulary = ActivityVocabulary(sums.names)
    labels = vocabulary.labels
    n_bins = 1 if borders_us is None else len(borders_us) + 1
    n_codes = vocabulary.end + 1
    cells = sums.noisy.astype(float)
    pairs, first = np.unique(sums.domain // n_bins, return_index=True)
    totals = np.add.reduceat(cells, first)
    names = [(labels[pair // n_codes], labels[pair % n_codes]) for pair in pairs.tolist()]
    seen: dict[Key, float] = {
        ("pair", *name): total for name, total in zip(names, totals.tolist(), strict=True)
    }
    seen["total",] = float(cells.sum())
    seen["width",] = sums.noise.width
    seen["activities",] = float(len(vocabulary))
    if borders_us is not None:
        step = int(np.searchsorted(borders_us, STEP_US, side="right"))
        inner = {*labels[: vocabulary.start]}
        for name, at in zip(names, first.tolist(), strict=True):
            if inner.issuperset(name):
                seen["pair in its bin", *name] = float(cells[at + step])
    return seen


def _numbers_of_cells(
    sums: Mapping[str, _NoisySums], watched: Sequence[Key] | None
) -> dict[Key, float]:
    """Returns the cells that are watched, or the first of each histogram, and their noise.

    As many cells are taken for the same ones: a histogram may be coarse in one release and fine in
    another.
    """
    seen: dict[Key, float] = {}
    for purpose, (noisy, domain, noise, _) in sums.items():
        n = str(len(domain))
        seen["noise", purpose] = noise.width / noise.units
        places = list(range(min(len(domain), _MAX_SHOWN)))
        if watched is not None:
            asked = [
                int(key[2]) for key in watched if key[:2] == ("count", purpose) and key[3] == n
            ]
            found = zip(asked, np.searchsorted(domain, asked).tolist(), strict=True)
            places = [at for cell, at in found if at < len(domain) and domain[at] == cell]
        for at in places:
            seen["count", purpose, str(domain[at]), n] = float(noisy[at] / noise.units)
    return seen


# --- What is looked at in each release of a pair of logs: a unit's variants, and their pairs. -----

# Counts that are kept for decisions that come again, such as a clip from a short grid.
_MAX_REMEMBERED = 1000
# Cells of one histogram that are watched; those that a unit changes most.
_MAX_WATCHED = 64
# The first features are of all cases: whether it was refused, total, width and activities.
N_OF_ALL = 4
_ONE_EACH = {
    "total": "total of all counts",
    "width": "scale of the noise",
    "activities": "number of activities",
    "fitness": "fitness of the tree",
    "noise": "scale of the noise of {}",
}
_SEVERAL = {
    "variant": "the unit's variants",
    "pair": "the unit's pairs",
    "pair in its bin": "the unit's pairs in their bins",
    "step in the tree": "the unit's steps in the tree",
    "count": "{}",
    "start": "the unit's months of start",
    "step": "the unit's times of steps",
    "span": "the unit's times of cases",
    "value": "the unit's values of {}",
}
_CELLS = frozenset({"count", "start", "step", "span", "value"})


def watched_keys(
    variants: Sequence[Variant], cells: Sequence[Key] = (), sees_trees: bool = False
) -> list[Key]:
    """Returns the numbers that are features, in order.

    Args:
        variants: Those of a unit, as they are within the method's bounds.
        cells: Further numbers, see `changed_cells`.
        sees_trees: Whether process trees are released, which allow steps and count none.
    """
    pairs = dict.fromkeys(pair for variant in variants for pair in pairs_of(variant))
    kinds = ("step in the tree",) if sees_trees else ("pair", "pair in its bin")
    return [
        *((kind,) for kind in _ONE_EACH if kind != "noise"),
        *(("variant", *variant) for variant in variants),
        *((kind, *pair) for kind in kinds for pair in pairs),
        *dict.fromkeys(("noise", key[1]) for key in cells if key[0] == "count"),
        *cells,
    ]


def pairs_of(variant: Variant) -> list[tuple[str, str]]:
    """Returns the steps of a variant, from START and to END."""
    return list(itertools.pairwise((START, *variant, END)))


def feature_names(keys: Sequence[Key]) -> list[str]:
    """Returns what the features are called; no activity is named."""
    names = ["the release was refused"]
    numbers: Counter[str] = Counter()
    for kind, *rest in keys:
        if kind in _ONE_EACH:
            names.append(_ONE_EACH[kind].format(*rest))
        else:
            what = _SEVERAL[kind].format(*rest)
            numbers[what] += 1
            names.append(f"count {numbers[what]} of {what}")
    return names


def changed_cells(sides: Iterable[Releases], release_key: ReleaseKey) -> tuple[Key, ...]:
    """Returns which cells of the noisy histograms, or of a released log, a unit is in.

    They are those in which the two logs differ under one key, so by the same noise: of each
    histogram those that differ most, at most 64. That they are known is no advantage: an attacker
    knows both logs.

    Args:
        sides: Of the log that has the unit, and of the one that lacks it.
        release_key: A fresh one.
    """
    more, fewer = (side.cells(release_key) for side in sides)
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
    def unit_stream(self) -> Randomness:
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


@dataclass(frozen=True)
class _Repetition(MethodRun):
    """One run of many on a log, which counts nothing that another one counted.

    The input's digest, which under a fresh key changes the law of nothing, is left out.
    """

    of: Releases = field(kw_only=True)
    noise: Noise = field(kw_only=True)

    @cached_property
    def _stream(self) -> Randomness:
        return Randomness(self._key, self.release_id, "", "").with_noise(self.noise)

    def known(
        self, input_digest: InputDigest | None = None, decisions: Decisions | None = None
    ) -> Known:
        stream = self._stream.unit_stream if input_digest is None else self._stream
        return Known(stream, decisions or {})

    def count(self, round_name: str, traces: TraceBatch, known: Known) -> dict[str, Any]:
        bounded, before = self._bounded(traces, known), self.method.known(known.decisions)
        return {INPUT_DIGEST: _NO_DIGEST} | {
            name: self.of.counted((round_name, name), counter, bounded, before, known)
            for name, counter in self.method.requires(round_name, self.params).items()
        }

    def _bounded(self, traces: TraceBatch, known: Known) -> TraceBatch:
        bounded = self.of.bounded
        return super()._bounded(traces, known) if bounded is None else bounded


_NO_DIGEST = InputDigest(np.zeros(2, np.uint64), 0)


class Releases:
    """Independent releases of one log, each under the next of some keys.

    What is counted on the log without asking the key is counted once.

    Args:
        traces: Complete cases; complete individuals where they count.
        method: The method.
        params: Its parameters.
        keys: One for each release.
        shows_sums: Whether the noisy sums are seen in place of what is made of them, if the method
            tells of any.

    Attributes:
        bounded: The log within the public caps; None: which cases of an individual count may depend
            on the key.
    """

    def __init__(
        self,
        traces: TraceBatch,
        method: Anonymizer,
        params: Any,
        keys: Iterator[ReleaseKey],
        shows_sums: bool = False,
    ) -> None:
        self.method, self.params = method, _CachedParams(params)
        self._traces, self._keys = traces, keys
        self._shows_sums = shows_sums and has_sums_to_see(method)
        probe = self._probe()
        [bounded] = bound([traces], method, self.params, probe)
        self.bounded = None if probe.was_asked else bounded
        self._counted: dict[tuple[tuple[str, str], tuple[bytes, ...]], Any] = {}
        self._asking: set[tuple[str, str]] = set()

    def _probe(self) -> _KeyUseProbe:
        return _KeyUseProbe(next(self._keys), "audit", "", "")

    def counted(
        self,
        name: tuple[str, str],
        counter: Any,
        traces: TraceBatch,
        decisions: Mapping[str, Any],
        known: Known,
    ) -> Any:
        """Counts, unless the same was counted under the same decisions and no key was asked."""
        if self.bounded is None or name in self._asking:
            return counter.count(traces, decisions, known.randomness)
        # A count that tells what it depends on is kept although other decisions differ.
        read = {name: value for name, value in decisions.items() if name != "sizes"}
        if hasattr(counter, "reads"):
            read = counter.reads(decisions)
        place = name, tuple(encode(value) for value in read.values())
        if place not in self._counted:
            probe = self._probe()
            statistic = counter.kind.merge([counter.count(traces, decisions, probe)])
            if probe.was_asked or len(self._counted) >= _MAX_REMEMBERED:
                self._asking.add(name)
                return counter.count(traces, decisions, known.randomness)
            self._counted[place] = statistic
        return self._counted[place]

    def release(
        self, release_id: str, noise: Noise = EXACT, key: ReleaseKey | None = None
    ) -> tuple[Iterable[TraceBatch], Products, Known]:
        """Makes a release under a key or the next one; see `contract.in_memory.execute`.

        Raises:
            GuaranteeError: The method cannot keep its promise on this log.
        """
        key = key or next(self._keys)
        run = _Repetition(self.method, self.params, key, release_id, "", of=self, noise=noise)
        return execute(run, [self._traces])

    def cells(self, key: ReleaseKey) -> dict[Key, float]:
        """Returns what `changed_cells` compares: the noisy sums under a key, or the log itself."""
        if self._shows_sums:
            return self.make(key=key) or {}
        if is_log_seen(self.method, self.params):
            return _times_and_values(self._traces, self.method.attributes(self.params))
        return {}

    def make(
        self,
        release_id: str = "audit",
        watched: Sequence[Key] | None = None,
        key: ReleaseKey | None = None,
    ) -> dict[Key, float] | None:
        """Makes one release; returns what is seen in it, or None if the method refused.

        Of the noisy sums those of pairs are seen, or all histograms beside what is released. A log
        that is drawn from noisy histograms is not drawn: they are shown in its place, with its
        variants and their numbers of cases. A graph that is made of variants is shown with what
        they were chosen by.

        Args:
            release_id: Its name.
            watched: See `seen_in`.
            key: Its key; None: the next one.
        """
        method, params = self.method, self.params
        noise = SumRecorder(self._shows_sums and method.sums == "pairs")
        try:
            log, products, known = self.release(release_id, noise, key)
        except GuaranteeError:
            return None
        except _Enough as enough:  # no graph is made of sums, which takes longer than they do
            return _numbers_of_pairs(enough.args[0], getattr(params, "borders_us", None))
        shown = dict(products.by_name)
        if not self._shows_sums:
            is_seen = is_log_seen(method, params)
            released = next(iter(log)) if is_seen else None
            return seen_in(shown, released, method.attributes(params), watched)
        if method.log == "generated":
            parts = {n: part for one in known.decisions.values() for n, part in one.parts.items()}
            shown["variants"] = parts["variants"]
        return seen_in(shown, watched=watched) | _numbers_of_cells(noise.sums, watched)

    def sample(self, n: int, keys: Sequence[Key]) -> np.ndarray:
        """Returns float64[n, 1 + n_keys]: whether n releases were refused, and their numbers.

        NaN where a release lacks one.
        """
        cells = [key for key in keys if key[0] in _CELLS]
        rows = []
        for _ in range(n):
            seen = self.make(watched=cells)
            numbers = [math.nan if seen is None else seen.get(key, math.nan) for key in keys]
            rows.append([float(seen is None), *numbers])
        return np.array(rows)
