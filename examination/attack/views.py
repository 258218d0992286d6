"""What an attacker reads off a release: its numbers by what they count.

And the forms in which a method is looked at: as it is, with its noisy sums for products, and
without noise.
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.contract.method import Anonymizer, Decision, Products
from tracecloak.anonymizers.noise.drawing import Noise
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.schemas.events.declarations import Attribute
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.models import ProcessTree
from tracecloak.schemas.published.figures import Key, ReleasedProduct
from tracecloak.schemas.published.graph import ReleasedTree
from tracecloak.schemas.statistics.variants import VariantHistogram

# Microseconds between the events of a case that an audit makes up.
STEP_US = 60_000_000
# Cells of one histogram that are shown where none are asked for.
_MAX_SHOWN = 1 << 12

Variant = tuple[str, ...]
# Beside the keys of products there are ("pair in its bin", a, b) and ("width",) of noisy sums;
# ("count", purpose, cell, number of cells) of a noisy histogram, and ("noise", purpose);
# ("start", month), ("step", decade), ("span", decade), ("value", attribute, cell) of a log;
# ("step in the tree", a, b) of a process tree. Before the first activity of a case comes START, and
# after the last END.
START, END = ActivityVocabulary.of([]).labels

# Two activities one right after the other; None stands for the start and for the end.
Step = tuple[str | None, str | None]


@dataclass(frozen=True, eq=False)
class NoisySums:
    """The sums of a directly-follows graph with their noise, before they are made a graph.

    All that is released follows from them, so they tell at least as much.

    Attributes:
        noisy: int64[n_cells].
        domain: int64[n_cells], the cells, see `anonymizers.graphs.noisy_graph.possible_pairs`.
        vocabulary: What their codes mean.
        borders_us: Borders of the duration bins in microseconds, or None.
        noise: What was added.
    """

    noisy: np.ndarray
    domain: np.ndarray
    vocabulary: ActivityVocabulary
    borders_us: np.ndarray | None
    noise: SumNoise

    def numbers(self, watched: Sequence[Key] | None = None) -> dict[Key, float]:
        """Returns the sum of each pair, in all bins and in each, and what goes with them."""
        labels = self.vocabulary.labels
        n_bins = 1 if self.borders_us is None else len(self.borders_us) + 1
        n_codes = self.vocabulary.end + 1
        cells = self.noisy.astype(float)
        pairs, first = np.unique(self.domain // n_bins, return_index=True)
        totals = np.add.reduceat(cells, first)
        names = [(labels[pair // n_codes], labels[pair % n_codes]) for pair in pairs.tolist()]
        seen: dict[Key, float] = {
            ("pair", *name): total for name, total in zip(names, totals.tolist(), strict=True)
        }
        seen["total",] = float(cells.sum())
        seen["width",] = self.noise.width
        seen["activities",] = float(len(self.vocabulary))
        if self.borders_us is not None:
            step = int(np.searchsorted(self.borders_us, STEP_US, side="right"))
            inner = {*labels[: self.vocabulary.start]}
            for name, at in zip(names, first.tolist(), strict=True):
                if inner.issuperset(name):
                    seen["pair in its bin", *name] = float(cells[at + step])
        return seen


@dataclass(frozen=True, eq=False)
class NoisyCells:
    """One histogram with its noise, before shares are made of it.

    Attributes:
        noisy: float64[n_cells], in occurrences.
        domain: int64[n_cells], ascending: its cells.
        width: Scale of the noise, in occurrences.
    """

    noisy: np.ndarray
    domain: np.ndarray
    width: float


@dataclass(frozen=True, eq=False)
class NoisyHistograms:
    """All that a log with times and attributes is drawn from, but for the choice of variants.

    Attributes:
        by_purpose: The histograms by what their noise is for.
    """

    by_purpose: Mapping[str, NoisyCells]

    def numbers(self, watched: Sequence[Key] | None = None) -> dict[Key, float]:
        """Returns the cells that are watched, or the first of each histogram, and the noise."""
        seen: dict[Key, float] = {}
        for purpose, cells in self.by_purpose.items():
            n = str(len(cells.domain))
            seen["noise", purpose] = cells.width
            if watched is None:
                shown = slice(_MAX_SHOWN)
                numbers = zip(
                    cells.domain[shown].tolist(), cells.noisy[shown].tolist(), strict=True
                )
                seen |= {("count", purpose, str(cell), n): number for cell, number in numbers}
        for key in watched or ():
            if key[0] != "count" or key[1] not in self.by_purpose:
                continue
            cells, cell = self.by_purpose[key[1]], int(key[2])
            place = int(np.searchsorted(cells.domain, cell))
            # As many cells are taken for the same ones: a histogram may be coarse in one release
            # and fine in another.
            if int(key[3]) == len(cells.domain) > place and cells.domain[place] == cell:
                seen[key] = float(cells.noisy[place])
        return seen


# Noisy sums, their cells, what was added and what the codes of pairs mean.
_RecordedSums = tuple[np.ndarray, np.ndarray, SumNoise, pa.Array | None]


@dataclass(frozen=True)
class _Forwarding(Noise):
    """Draws as one does, and tells others of the sums.

    `is_given`: whether what draws was asked for; then a form within does not draw otherwise.
    """

    draws: Noise
    told: tuple[Noise, ...]
    is_given: bool

    def laplace(self, *given: Any) -> np.ndarray:
        return self.draws.laplace(*given)

    def gaussian(self, *given: Any) -> np.ndarray:
        return self.draws.gaussian(*given)

    def truncated_laplace(self, *given: Any) -> np.ndarray:
        return self.draws.truncated_laplace(*given)

    def select(self, *given: Any, **named: Any) -> int:
        return self.draws.select(*given, **named)

    def made(self, *given: Any) -> None:
        for other in self.told:
            other.made(*given)


class _RecordingDone(Exception):  # noqa: N818  # it is no error
    """All that is wanted of a decision is known."""


@dataclass(frozen=True)
class _SumRecorder(Noise):
    """Keeps the sums that it is told of, by what they are for."""

    sums: dict[str, _RecordedSums]
    is_enough: bool = False  # so that nothing is made of the sums

    def made(
        self,
        purpose: str,
        domain: np.ndarray,
        noisy: np.ndarray,
        noise: SumNoise,
        names: pa.Array | None = None,
    ) -> None:
        self.sums[purpose] = noisy, domain, noise, names
        if self.is_enough:
            raise _RecordingDone


def with_noise(
    method: Anonymizer, draws: Noise | None = None, told: Noise | None = None
) -> Anonymizer:
    """Returns the method deciding with other noise.

    Args:
        method: The method, or a form of it.
        draws: Draws the noise; by default what the method would be given. Of a form of a form it is
            the outer one that draws.
        told: Is told of the sums, beside what the method would be given.
    """
    other: Any = copy.copy(method)

    def decide(
        round_name: str,
        statistics: Mapping[str, Any],
        decisions: Mapping[str, Any],
        params: Any,
        randomness: Randomness,
    ) -> Any:
        given = randomness.noise
        is_given = isinstance(given, _Forwarding) and given.is_given
        noise = _Forwarding(
            given if draws is None or is_given else draws,
            (given,) if told is None else (given, told),
            is_given or draws is not None,
        )
        return method.decide(
            round_name, statistics, decisions, params, randomness.with_noise(noise)
        )

    other.decide = decide
    return other


class Silent(Noise):
    """Adds nothing; what is chosen is chosen as ever."""

    def laplace(self, stream: CellStream, *given: Any) -> np.ndarray:
        """Returns zeros."""
        return np.zeros(len(stream), np.int64)

    def gaussian(self, stream: CellStream, *given: Any) -> np.ndarray:
        """Returns zeros."""
        return np.zeros(len(stream), np.int64)

    def truncated_laplace(self, stream: CellStream, *given: Any) -> np.ndarray:
        """Returns zeros."""
        return np.zeros(len(stream), np.int64)


def before_publication(method: Anonymizer) -> Anonymizer:
    """Returns the method with its noisy sums for products, or as it is if it tells of none.

    A log that is drawn from noisy histograms is not drawn then: they are shown in its place, with
    its variants and their numbers of cases.
    """
    if method.sums in ("none", "released"):
        return method
    sums: dict[str, _RecordedSums] = {}
    shown: Any = with_noise(method, told=_SumRecorder(sums))
    whole, sums_alone = shown.decide, with_noise(method, told=_SumRecorder(sums, True)).decide

    def decide(
        round_name: str, statistics: Any, decisions: Any, params: Any, randomness: Randomness
    ) -> Decision:
        given = round_name, statistics, decisions, params, randomness
        if method.sums != "pairs" or round_name != method.rounds(params)[-1]:
            return whole(*given)
        # No graph is made of the sums, which takes longer than they do.
        with suppress(_RecordingDone):
            return sums_alone(*given)
        return Decision()

    def products(decisions: Mapping[str, Any], params: Any) -> Products:
        seen: dict[str, Any]
        # Others, such as what a clip is chosen by, are not of pairs and have no names.
        named = [one for one in sums.values() if one[3] is not None]
        # A graph that is made of variants instead is shown with what they were chosen by.
        if method.sums == "pairs" and named:
            [(noisy, domain, noise, names)] = named
            borders = getattr(params, "borders_us", None)
            seen = {"sums": NoisySums(noisy, domain, ActivityVocabulary(names), borders, noise)}
        else:
            seen = {**method.products(decisions, params).by_name}
            if method.log == "generated":
                parts = {n: part for one in decisions.values() for n, part in one.parts.items()}
                seen["variants"] = parts["variants"]
            histograms = {
                purpose: NoisyCells(noisy / noise.units, domain, noise.width / noise.units)
                for purpose, (noisy, domain, noise, _) in sums.items()
            }
            seen["noisy histograms"] = NoisyHistograms(histograms)
        sums.clear()  # the next release has its own
        return Products(seen)

    shown.decide, shown.products = decide, products
    shown.log, shown.original = "none", method
    return shown


def without_noise(method: Anonymizer) -> Anonymizer | None:
    """Returns the method with zeros for noise; what is chosen is chosen as ever.

    None where what it releases without noise are not the counts of the log: a log that is drawn.
    """
    original = getattr(method, "original", None)  # the method that it is a view of
    if original is not None:
        return before_publication(with_noise(original, Silent()))
    if method.sums == "none" and method.log != "none":
        return None
    return with_noise(method, Silent())


def is_log_seen(method: Anonymizer, params: Any) -> bool:
    """Whether releases are told by a log.

    Else by what is released beside it or in its place: variants that a log is generated from say
    all that it says.
    """
    is_told_by_variants = "variants" in method.writes(params)
    return method.log == "transformed" or (method.log == "generated" and not is_told_by_variants)


# --- what is seen ---------------------------------------------------------------------------------


def seen_in(
    products: Mapping[str, ReleasedProduct | NoisySums | NoisyHistograms],
    log: Sequence[TraceBatch],
    attributes: Sequence[Attribute] = (),
    watched: Sequence[Key] | None = None,
) -> dict[Key, float]:
    """Returns the numbers of a release by what they count.

    Of a log: cases by variant, by month of start and by decade of the time from first to last
    event, steps by decade of their time, and values of declared attributes by cell, of the case
    once a case. Times of generated variants are positions, and count as such.

    Args:
        products: What was released beside the log, or noisy sums or histograms in place of it.
        log: The released log.
        attributes: The declared ones.
        watched: Which cells of noisy histograms are wanted; None for the first of each.
    """
    seen: dict[Key, float] = {}
    for product in products.values():
        seen.update(product.numbers(watched))
        if isinstance(product, ReleasedTree):
            steps = steps_of_tree(product.tree)
            seen |= {("step in the tree", a or START, b or END): 1.0 for a, b in steps}
    for batch in log:
        counted = VariantHistogram.from_traces(batch)
        names = batch.vocabulary.names
        for key, count in _of_variants(
            names, counted.offsets, counted.codes, counted.counts
        ).items():
            seen[key] = seen.get(key, 0.0) + count
        for key, count in of_times_and_values(batch, attributes).items():
            seen[key] = seen.get(key, 0.0) + count
        seen["total",] = seen.get(("total",), 0.0) + batch.n_cases
    return seen


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


def of_times_and_values(traces: TraceBatch, attributes: Sequence[Attribute]) -> dict[Key, float]:
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
        rows = zip(distinct.tolist(), counts.tolist(), strict=True)
        seen |= {(*key, str(cell)): float(count) for cell, count in rows}
    return seen


def _decades(times_us: np.ndarray) -> np.ndarray:
    """int64[n]: 0 for no time, else the number of digits of the microseconds."""
    return np.searchsorted(10 ** np.arange(18, dtype=np.int64), times_us, side="right")
