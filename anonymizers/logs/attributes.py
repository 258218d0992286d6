"""Declared attributes from noisy marginals, conditioned on the activity.

An attribute of events is a histogram over the cells (activity of the event, value), an attribute of
cases one over the cells (activity of the first event, value), value being a cell of the public
declaration (`schemas.events.attributes`; 0 is no value). Noise goes on every cell of the public
domain. What is released of an event or case depends on its generated activity and on the noisy
histogram alone; no value is copied. Attributes are drawn independently of each other, given the
activity.

Sensitivity, for adding or removing a unit of m cases, each cut at L events:

Event attributes, delta above 0. A case is the vector of its counts over the cells, brought to an L2
norm of at most C steps of a lattice of 1/1024 occurrence, floored entry by entry
(`schemas.statistics.clipped_cells.clipped_counts`, without a rounding of the norm). The sums change
by the sum of m such vectors, so by at most m C in L2, and by exactly that if all its events share
one cell and are at least C / 1024. Discrete Gaussian noise (Canonne, Kamath, Steinke 2020).

Event attributes, delta 0. Each event is in one cell, so a case adds at most L to all cells together
and the sums change by at most m L in L1: discrete Laplace noise of scale m L / epsilon.

Case attributes. A case is in one cell, so the sums change by at most m, in L1 as in L2.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers import contract
from tracecloak.anonymizers.accounting.sensitivity import (
    Sensitivity,
    of_clipped_cells,
    of_events,
    of_one_cell,
)
from tracecloak.anonymizers.logs.step_durations import noise_text
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers, uniform
from tracecloak.anonymizers.noise.sums import SumNoise, backed_off, noisy_counts, variance_of
from tracecloak.anonymizers.rigorous.bought import (
    in_vocabulary,
    known_vocabulary,
    within_length,
)
from tracecloak.anonymizers.rigorous.budget import UNITS, Means, Sums
from tracecloak.anonymizers.rigorous.clips import clipped_need
from tracecloak.anonymizers.rigorous.parts import Given, Part
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.attributes import Attribute
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.clipped_cells import CaseCells, ClippedCells

if TYPE_CHECKING:
    from tracecloak.anonymizers.logs.params import PrivateLogParams


@dataclass(frozen=True)
class AttributeCounter:
    """Sums over the cases of their vectors over the cells of an attribute; see the module.

    Looks at the traces in the vocabulary and within the length that were decided, if they were.

    Attributes:
        attribute: Whose cells.
        is_pure: Whether delta is 0. Of no importance to an attribute of cases.
        clip_units: What an attribute of events is clipped at: the L2 norm in steps of 1/1024, or,
            if pure, the public maximum length in events. None: as `decisions["clip"].clip_units`
            says. Of no importance to an attribute of cases.
    """

    attribute: Attribute
    is_pure: bool
    clip_units: int | None
    kind: ClassVar[type[ClippedCells]] = ClippedCells

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> ClippedCells:
        """Counts a batch."""
        traces = within_length(in_vocabulary(traces, decisions), decisions)
        clip = self.clip_units
        if clip is None and not self.attribute.is_of_case:
            clip = decisions["clip"].clip_units
        return attribute_cells(traces, self.attribute, self.is_pure, clip)


def attribute_cells(
    traces: TraceBatch, attribute: Attribute, is_pure: bool, clip_units: int | None
) -> ClippedCells:
    """Returns the sums of the cases' bounded vectors over the cells of an attribute.

    Cell (a, v) has the key a * n_cells + v. Traces that do not carry the attribute have no values.

    Args:
        traces: Complete cases.
        attribute: The attribute.
        is_pure: Whether vectors of events are bounded in L1, by cutting the cases; else in L2.
        clip_units: The bound, see `AttributeCounter`; None for an attribute of cases.
    """
    units = 1
    if attribute.is_of_case:
        traces = traces.truncate(1)  # it has the same value in all events of the case
        clip_units = 1
    elif clip_units is None:
        raise UsageError("an attribute of events needs clip_units")
    elif is_pure:
        traces = traces.truncate(clip_units)
    else:
        units = UNITS
    n_cells = attribute.n_cells
    values = np.zeros(traces.n_events, np.int32)
    if attribute.name in traces.attributes:
        values = attribute.cells(traces.attributes[attribute.name])
    keys = traces.activities.astype(np.int64) * n_cells + values
    cases = np.repeat(np.arange(traces.n_cases), traces.lengths)
    n_keys = len(traces.vocabulary) * n_cells
    cells = CaseCells.of(cases, keys, traces.n_cases, n_keys)
    # Of at most `clip_units` events the L2 norm is no more, so pure counts pass as they are.
    return ClippedCells.of_cases(cells, clip_units, units)


def changed_values(
    attribute: Attribute, clip_units: int | None, max_units: int, *, is_pure: bool
) -> tuple[Sensitivity, int | None]:
    """Returns what one unit changes of an attribute's sums, and the lattice steps of an occurrence.

    Args:
        attribute: The attribute.
        clip_units: See `AttributeCounter`; None for an attribute of cases.
        max_units: Cases of one unit.
        is_pure: Whether delta is 0.

    Returns:
        Steps of None where the sums are whole counts.
    """
    if attribute.is_of_case:
        return of_one_cell(max_units), None
    if clip_units is None:
        raise UsageError("an attribute of events needs clip_units")
    if is_pure:
        return of_events(clip_units, max_units), None
    return of_clipped_cells(clip_units, max_units), UNITS


@dataclass(frozen=True)
class AttributeDecision(contract.Decision):
    """How an attribute is distributed.

    Attributes:
        shares: float64[n_activities, n_cells], for each activity the probability of each cell.
    """

    shares: np.ndarray


def decide_attribute(
    attribute: Attribute,
    counted: ClippedCells,
    n_activities: int,
    noise: SumNoise,
    randomness: Randomness,
) -> AttributeDecision:
    """Adds the noise, and estimates the distribution of the attribute for each activity.

    An activity's row is drawn towards that of the whole log by as much as it is noise, and the row
    of the whole log towards declared values that are equally likely (`noisy_cells.backed_off`).

    Args:
        attribute: The attribute.
        counted: What `AttributeCounter` counted, over the whole log.
        n_activities: Size of the public or bought vocabulary. A log with times has at most some
            2,000 names and an attribute some 1,000 cells, so noise can be drawn for all of them.
        noise: Of one cell; made for `changed_values`.
        randomness: The release's.
    """
    n_cells = attribute.n_cells
    purpose, is_whole = f"attribute/{attribute.name}", attribute.is_of_case
    noisy = noisy_counts(
        counted, n_activities * n_cells, noise, purpose, randomness, is_whole=is_whole
    )
    rows = noisy.reshape(n_activities, n_cells)
    variance = variance_of(noise)
    nothing_known = np.full(n_cells, 1 / (n_cells - 1))
    nothing_known[0] = 0
    whole_log = backed_off(rows.sum(axis=0, keepdims=True), n_activities * variance, nothing_known)
    return AttributeDecision(backed_off(rows, variance, whole_log[0]))


def sample_attribute(
    decision: AttributeDecision,
    attribute: Attribute,
    activities: np.ndarray,
    cases: np.ndarray,
    positions: np.ndarray,
    randomness: Randomness,
) -> pa.Array:
    """Draws values given activities; what is drawn depends on the case's number and the position.

    Args:
        decision: How the attribute is distributed.
        attribute: The attribute.
        activities: int32[n], codes of the vocabulary that it was decided in.
        cases: int64[n], numbers of the cases in the whole release.
        positions: int64[n], places in the case; each pair comes once.
        randomness: The release's.

    Returns:
        An array of the attribute's type and length n; null for no value.
    """
    purpose = f"value of attribute/{attribute.name}"
    words = randomness.words(purpose, cell_numbers(cases), positions)
    cells = _drawn(decision.shares, activities, uniform(words[:, 0]))
    return attribute.values_of(cells, uniform(words[:, 1]))


def _drawn(shares: np.ndarray, rows: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """int64[n]: a cell of each row by its shares; never one that has none."""
    sums = np.cumsum(shares, axis=1)
    sums /= sums[:, -1:]
    cells = np.zeros(len(rows), np.int64)
    order = np.argsort(rows, kind="stable")
    used, first = np.unique(rows[order], return_index=True)
    for row, events in zip(used.tolist(), np.split(order, first)[1:], strict=True):
        cells[events] = np.searchsorted(sums[row], uniforms[events], side="right")
    return cells


def attribute_of_traces(
    decision: AttributeDecision,
    attribute: Attribute,
    traces: TraceBatch,
    cases: np.ndarray,
    randomness: Randomness,
) -> pa.Array:
    """Draws the values of generated traces: what goes into `TraceBatch.attributes`.

    Args:
        decision: How the attribute is distributed.
        attribute: The attribute.
        traces: Generated cases, in the vocabulary that it was decided in.
        cases: int64[n_cases], their numbers in the whole release.
        randomness: The release's.

    Returns:
        An array of the attribute's type, one value an event; one of cases is the same in all
        events of the case.
    """
    row = np.repeat(np.arange(traces.n_cases), traces.lengths)
    if not attribute.is_of_case:
        positions = np.arange(traces.n_events) - traces.offsets[row]
        return sample_attribute(
            decision, attribute, traces.activities, cases[row], positions, randomness
        )
    first = traces.activities[traces.offsets[:-1]]
    nowhere = np.zeros(len(cases), np.int64)
    of_cases = sample_attribute(decision, attribute, first, cases, nowhere, randomness)
    return of_cases.take(pa.array(row))


def attribute_part(attribute: Attribute, params: PrivateLogParams, share: Fraction) -> Part:
    """Returns the part of `private-log` that one declared attribute is."""
    is_pure, name = params.delta == 0, part_name(attribute)
    clip = params.max_trace_length if is_pure else params.public_clip_units

    def changed(clip_units: int | None) -> tuple[Sensitivity, int | None]:
        return changed_values(attribute, clip_units, params.max_units, is_pure=is_pure)

    def sentence(means: Means) -> str:
        noise = means[name].noise(*changed(clip or UNITS))
        if attribute.is_of_case:
            within = noise.half_width
            return f"counts cases by first activity and value, each within {within:,} (95 %)"
        return f"counts events by activity and value, {noise_text(noise, clip)}"

    def decide(given: Given) -> AttributeDecision:
        chosen = clip
        if clip is None and not attribute.is_of_case:
            chosen = given.decisions["clip"].clip_units
        noise = given.means[name].noise(*changed(chosen))
        n_activities = len(known_vocabulary(params.words, given.decisions))
        counted: ClippedCells = given.statistics[attribute.name]
        return decide_attribute(attribute, counted, n_activities, noise, given.randomness)

    if attribute.is_of_case or is_pure:
        need = Sums(name, share, *changed(clip))
    else:
        need = clipped_need(name, share, clip, lambda units: changed(units)[0])
    counters = {attribute.name: AttributeCounter(attribute, is_pure, clip)}
    return Part(name, (need,), sentence, decide, counters)


def part_name(attribute: Attribute) -> str:
    """Returns the name of an attribute's part."""
    return f"attribute {attribute.name}"
