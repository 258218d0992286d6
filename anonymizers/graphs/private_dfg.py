"""`private-dfg`: the directly-follows graph with noise, (epsilon, delta) for the whole release.

Every case's vector of directly-follows counts, START and END included, is scaled down to a public
or privately chosen L2 norm and put on an integer lattice; the sums of all possible pairs get
discrete Gaussian noise, those below a threshold are not shown, and the others are fitted in their
intervals: as much into each activity as out of it, up to what is not shown. With delta 0, cases are
cut off at a public length instead, and the noise is discrete Laplace. Where most long cases repeat
their pairs, cases are scaled down to an L1 norm, with Laplace noise; where nearly all cases are of
a few variants, the graph is that of a noisy histogram of these: noisy numbers choose.
Optionally pairs are counted once more by public bins of the time since the predecessor, and each
count is spread over them. Intervals allow for what scaling down takes from the sums, which is
counted as well (`count_intervals`).

The domain of pairs is that of a public vocabulary, so which pairs occur is protected as well.
Canonne, Kamath and Steinke (NeurIPS 2020) for the noise; Balle and Wang (ICML 2018) for its scale.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting.sensitivity import (
    Sensitivity,
    of_clipped_flows,
    of_count,
    of_directly_follows,
)
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.sentences import told
from tracecloak.anonymizers.graphs import graph_kinds, noisy_graph
from tracecloak.anonymizers.graphs.noisy_graph import ONE_SIDED, norms_beyond
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_sums, variance_of
from tracecloak.anonymizers.rigorous import names
from tracecloak.anonymizers.rigorous.bought import recode_to_selected, vocabulary_in_effect
from tracecloak.anonymizers.rigorous.budget import UNITS, Budget, Sums, budget_of
from tracecloak.anonymizers.rigorous.clips import clipped_need
from tracecloak.anonymizers.rigorous.params import VOCABULARY_SHARE, Exact
from tracecloak.anonymizers.rigorous.parts_method import Given, Part, PartsMethod, budget_of_parts
from tracecloak.schemas.arrays.merging import sum_groups
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.clipped_flows import ClippedCells, cells_of_flows

# How the graph's budget is divided: the sums, the choice of their clip, and the count of what the
# clip takes away.
_SHARES: Mapping[str, int | Fraction] = {"edges": 83, "edges clip": 10, "edges beyond": 7}
_SHARES_WITH_DURATIONS: Mapping[str, int | Fraction] = {
    **{"edges": 30, "edges clip": 5, "edges beyond": Fraction(7, 2)},
    **{"durations": 53, "durations clip": 5, "durations beyond": Fraction(7, 2)},
}


class PrivateDfgParams(names.ListedParams):
    """Parameters of `private-dfg`."""

    l2_clip: Exact | None = Field(default=None, ge=1, le=100_000)
    """Largest L2 norm of one case's counts, public; a case beyond it is scaled down. Without it,
    one is bought that takes about as much from the counts as noise adds, with a tenth of the
    Gaussian budget. Noise is proportional to it."""
    durations: bool = False
    """Spread each pair's count over bins of the time since the predecessor, and release them."""
    n_duration_bins: int = Field(default=24, ge=3, le=200)
    """Number of these bins: below a second, evenly in the logarithm, from ten years on."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> PrivateDfgParams:
        if self.delta == 0 and self.max_trace_length is None:
            raise ValueError("delta 0 needs a public max_trace_length")
        if self.delta == 0 and self.l2_clip is not None:
            raise ValueError("l2_clip is for delta above 0; with delta 0 leave it out")
        most = names.most_names_of_pairs(self.n_bins)
        if excess := names.excess_of_names(self.n_words, most, self.n_bins):
            raise ValueError(excess)
        self.check_names()
        return self

    @property
    def n_bins(self) -> int:
        """Duration bins of a pair, 1 without durations."""
        return self.n_duration_bins if self.durations else 1

    @property
    def shares(self) -> dict[str, Fraction]:
        """What each sum of the graph has of the budget, by the name of its need."""
        left = 1 - VOCABULARY_SHARE * (self.vocabulary is None)
        if self.is_whole:
            return {"edges": left}
        return _shares(left, durations=self.durations, buys_clip=self.l2_clip is None)

    @cached_property
    def is_whole(self) -> bool:
        """Whether pairs are counted whole, with Laplace noise, and not clipped in L2.

        With delta 0; else where cases are so short that the noise is then less, which is compared
        at the clip that just reaches a case of max_trace_length distinct pairs; with durations, of
        which the whole counts are the sums, by the pairs and the bins together.
        """
        if self.delta == 0:
            return True
        if self.max_trace_length is None or self.vocabulary is None or self.l2_clip is not None:
            return False
        epsilon, delta = self.budget
        whole = of_directly_follows(self.max_trace_length, self.max_units)
        clip = math.isqrt((self.max_trace_length + 1) * UNITS**2)
        clipped = of_clipped_flows(clip, self.max_units)
        shares = _shares(Fraction(1), durations=self.durations, buys_clip=True)
        needs = (Sums(name, share, clipped, UNITS, is_l2=True) for name, share in shares.items())
        sums = [name for name in ("edges", "durations") if name in shares]
        try:
            laplace = budget_of(epsilon, Fraction(0), (Sums("edges", Fraction(1), whole),)).means
            gaussian = budget_of(epsilon, delta, tuple(needs)).means
            laplace_variance = variance_of(laplace["edges"].noise(whole))
            others = [variance_of(gaussian[name].noise(clipped, UNITS)) for name in sums]
        except UsageError:  # spends says which noise cannot be drawn
            return False
        return laplace_variance ** len(others) * self.n_bins <= math.prod(others)

    @property
    def may_choose(self) -> bool:
        """Whether there is another kind of noise than that of pairs clipped in L2.

        Not where their vocabulary or their clip is no choice, or bins are counted as well.
        """
        chosen = self.vocabulary is None or self.l2_clip is not None
        return not (self.is_whole or chosen or self.durations)

    @property
    def buys_clip(self) -> bool:
        """Whether the clip is chosen on the log, and paid for."""
        return not self.is_whole and self.l2_clip is None

    @property
    def parts(self) -> tuple[Part, ...]:
        """What the budget is divided among: a round each."""
        bought = []
        if self.vocabulary is None:
            from tracecloak.anonymizers.rigorous.bought import vocabulary_part

            other = "; all others count as __other__"
            most = names.most_names_of_pairs(self.n_bins)
            bought.append(vocabulary_part(self, other, most_names=most))
        if self.buys_clip:
            bought.append(graph_kinds.clips_part(self))
        return (*bought, edges_part(self))

    @property
    def spending(self) -> Budget:
        """What each need may spend."""
        return budget_of_parts(self.parts, *self.budget)

    @property
    def borders_us(self) -> np.ndarray | None:
        """Borders of the duration bins, or None without durations."""
        if not self.durations:
            return None
        from tracecloak.schemas.statistics.durations import duration_borders

        return duration_borders(self.n_duration_bins)

    def sensitivity(self, clip_units: int) -> Sensitivity:
        """How far one unit moves the sums, if they are not clipped in L1.

        Args:
            clip_units: Largest norm of a case in lattice steps: L2, or L1 where they are whole.
        """
        if self.is_whole:  # the L1 norm is the number of pairs of a case
            return of_directly_follows(clip_units - 1, self.max_units)
        return of_clipped_flows(clip_units, self.max_units)

    def sensitivity_beyond(self, clip_units: int) -> Sensitivity:
        """How far one unit moves what clipping takes, or sums that are clipped in L1.

        Args:
            clip_units: Largest norm of a case in lattice steps.
        """
        return of_count(clip_units).of_cases(self.max_units)

    def noise(self, clip_units: int) -> SumNoise:
        """The noise of one sum, see `sensitivity`.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        return self.spending.means["edges"].noise(self.sensitivity(clip_units), self.units)

    @property
    def public_clip_units(self) -> int | None:
        """The clip in lattice steps where it is public."""
        if self.is_whole:
            assert self.max_trace_length is not None
            return self.max_trace_length + 1  # pairs of a case; one step is one occurrence
        return None if self.l2_clip is None else int(Fraction(self.l2_clip) * UNITS)

    @property
    def units(self) -> int:
        """Lattice steps of one occurrence."""
        return 1 if self.is_whole else UNITS


@dataclass(frozen=True)
class Flows:
    """Sums of the cases' clipped vectors; the cell after all others has what clipping takes.

    Attributes:
        params: The method's.
        name: Of the sums: edges or durations.
    """

    params: PrivateDfgParams
    name: str
    kind: ClassVar[type[ClippedCells]] = ClippedCells

    def reads(self, decisions: contract.Decisions) -> contract.Decisions:
        """Returns what of the decisions a count can depend on: not what a clip takes."""
        clips: graph_kinds.ClipsDecision | None = decisions.get("clip")
        if clips is None:
            return decisions
        most_lost = None if clips.most_lost is None else 0
        return {**decisions, "clip": replace(clips, lost=0, most_lost=most_lost, released=None)}

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> ClippedCells:
        """Counts a batch."""
        params, clip = self.params, clip_of(decisions, self.params, self.name)
        has_bins = self.name == "durations" or params.is_whole
        cells = cells_of_flows(
            recode_to_selected(traces, decisions), params.borders_us if has_bins else None
        )
        is_l1 = params.buys_clip and decisions["clip"].most_lost is not None
        if is_l1:  # the square of the L1 norm, to which cases are scaled down then
            norms = sum_groups(cells.rows, cells.counts, len(cells.squares))
            cells = replace(cells, squares=norms**2)
        clipped = ClippedCells.from_cases(cells, clip, params.units)
        if params.is_whole or is_l1:
            return clipped
        each = np.ones(len(cells.squares), np.int64)
        beyond = norms_beyond(cells.squares, each, clip, UNITS)
        last = ClippedCells(np.array([cells.n_keys]), np.array([beyond]))
        return ClippedCells.merge([clipped, last])


def clip_of(decisions: contract.Decisions, params: PrivateDfgParams, name: str) -> int:
    """Returns a clip in lattice steps, public or bought.

    Args:
        decisions: What was decided before.
        params: The method's.
        name: Of the sums: edges or durations.
    """
    public = params.public_clip_units
    if public is not None:
        return public
    clips: graph_kinds.ClipsDecision = decisions["clip"]
    clip = clips.edges if name == "edges" else clips.durations
    assert clip is not None
    return clip


def _shares(whole: Fraction, *, durations: bool, buys_clip: bool) -> dict[str, Fraction]:
    """What each sum has of all of them; without the choice of a clip the others have its share."""
    table = _SHARES_WITH_DURATIONS if durations else _SHARES
    used = {name: share for name, share in table.items() if buys_clip or "clip" not in name}
    total = sum(used.values(), Fraction(0))
    return {name: whole * share / total for name, share in used.items()}


class PrivateDfg(PartsMethod, name="private-dfg"):
    """The method; see the module."""

    Params: ClassVar[type[PrivateDfgParams]] = PrivateDfgParams

    def moves_by_case(self, params: PrivateDfgParams) -> bool:
        """Every case is cut or scaled down by itself, and what that takes is counted by case."""
        return True

    def writes(self, params: PrivateDfgParams) -> tuple[str, ...]:
        """Returns the names of the products."""
        return ("dfg", "durations", "figures") if params.durations else ("dfg", "figures")


def edges_part(params: PrivateDfgParams) -> Part:
    """Returns the part that the sums of pairs are."""
    clip, shares = params.public_clip_units, params.shares  # None while it is to be bought
    counters: dict[str, contract.Counter] = {
        name: Flows(params, name) for name in ("edges", "durations") if name in shares
    }
    changed = {True: params.sensitivity_beyond, False: params.sensitivity}
    needs = tuple(
        clipped_need(name, share, clip, changed["beyond" in name], params.units)
        for name, share in shares.items()
        if "clip" not in name
    )

    def decide(given: Given) -> graph_kinds.GraphDecision:
        from tracecloak.anonymizers.graphs.graph_figures import figures_of_graph
        from tracecloak.schemas.published.figures import ReleasedFigures

        clips: graph_kinds.ClipsDecision | None = given.decisions.get("clip")
        if clips is not None and clips.released is not None:
            return clips.released
        vocabulary = vocabulary_in_effect(params.words, given.decisions)
        borders = params.borders_us
        if params.is_whole:
            bins = _cells(params, given, vocabulary, "edges", params.n_bins)
            arcs = bins.over_bins(params.n_bins)
        else:
            # The durations come first: an audit looks at the first of the sums.
            if borders is not None:
                bins = _cells(params, given, vocabulary, "durations", params.n_bins)
            arcs = _cells(params, given, vocabulary, "edges", 1)
        graph = noisy_graph.released_graph(arcs, vocabulary)
        figures = figures_of_graph(arcs, graph, vocabulary)
        if borders is None:
            return graph_kinds.GraphDecision(graph, None, ReleasedFigures.from_noisy(figures))
        from tracecloak.anonymizers.graphs.graph_figures import median_times

        durations = noisy_graph.released_durations(bins, graph, borders)
        figures += median_times(None if params.is_whole else arcs, bins, graph, durations)
        return graph_kinds.GraphDecision(graph, durations, ReleasedFigures.from_noisy(figures))

    does = told("private-dfg", "edges", params, units=UNITS)
    return Part("edges", needs, does, decide, counters, "edges", _reality(params))


def _reality(params: PrivateDfgParams) -> str:
    noise = "discrete Laplace" if params.is_whole else "discrete Gaussian"
    instead = (
        " Noisy numbers of cases may choose Laplace noise, for a bounded L1 norm or on variants; "
        "then delta covers those of one case."
    )
    return (
        "One case changes the sums by an integer vector of bounded norm, which exact "
        f"{noise} noise on every pair covers.{instead * params.may_choose} The rest looks "
        "at noisy sums only."
    )


def _cells(
    params: PrivateDfgParams, given: Given, vocabulary: ActivityVocabulary, name: str, n_bins: int
) -> noisy_graph.NoisyCells:
    """The noisy sums, and what clipping takes from them."""
    domain, clip = names.possible_pairs(vocabulary, n_bins), clip_of(given.decisions, params, name)
    clips: graph_kinds.ClipsDecision = given.decisions.get("clip", graph_kinds.ClipsDecision(clip))
    is_l1 = clips.most_lost is not None
    changed = params.sensitivity_beyond(clip) if is_l1 else params.sensitivity(clip)
    noise = given.means["pairs" if is_l1 else name].noise(changed, params.units)
    purpose = "edge sum" if name == "edges" else "duration sum"
    beyond = np.array([(vocabulary.end + 1) ** 2 * n_bins])
    sums = given.statistics[name].dense(np.append(domain, beyond))
    own = domain, given.randomness, vocabulary.names
    measured = domain, noisy_sums(sums[:-1], noise, purpose, *own), noise
    if params.is_whole:
        return noisy_graph.NoisyCells.measured(*measured)
    if clips.most_lost is not None:
        return noisy_graph.NoisyCells.measured(*measured, clips.most_lost, clip / UNITS, clips.lost)
    beyond_noise = given.means[f"{name} beyond"].noise(params.sensitivity_beyond(clip), UNITS)
    [lost] = noisy_sums(sums[-1:], beyond_noise, f"{purpose} beyond", beyond, given.randomness)
    most_lost = (int(lost) + ONE_SIDED * beyond_noise.width) / UNITS
    return noisy_graph.NoisyCells.measured(*measured, most_lost, clip / UNITS)
