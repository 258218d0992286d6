"""Who hands over to whom: values of an attribute of events, given the value of the event before.

For an attribute whose declaration asks for it. A step is an event and its predecessor in the case;
it is in the cell (activity of the event, value before, value of the event), value being a cell of
the public declaration, 0 for none. Noise goes on every cell of the public domain, so this is for
attributes of few values: n activities and k cells of values have n k^2 cells, at most
`cells.MAX_CELLS`.

The value of a case's first event is drawn by its activity alone (`attributes`), that of any other
by its activity and the value drawn before it. So a case's values are a chain, of which what came
before the last event is not kept.

Sensitivity, for adding or removing a unit of m cases, each cut at L events:

Delta above 0. A case is the vector of its counts over the cells, scaled down to an L2 norm of at
most C steps of a lattice of 1/1024 occurrence, as attributes of events are and at the same clip
(`value_clip`). The sums change by at most m C in L2, and by exactly that if all steps of a case
share one cell and are at least C / 1024. Discrete Gaussian noise.

Delta 0. A case has at most L - 1 steps, each in one cell, so the sums change by at most m (L - 1)
in L1: discrete Laplace noise. Where L is 1 nothing changes, and any noise will do.

The values of attributes in a log that was drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.accounting.sensitivity import Sensitivity, of_clipped_cells, of_events
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.logs.attributes import (
    AttributeDecision,
    CellLaws,
    attribute_of_traces,
    clip_of_values,
    noise_for_values,
    part_name,
    values_of_events,
    words_of_values,
)
from tracecloak.anonymizers.noise.randomness import Randomness, uniform
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_counts, variance_of
from tracecloak.anonymizers.rigorous.bought import (
    recode_to_selected,
    truncate_to_selected,
    vocabulary_in_effect,
)
from tracecloak.anonymizers.rigorous.budget import UNITS, Allowances, Sums
from tracecloak.anonymizers.rigorous.clips import clipped_need
from tracecloak.anonymizers.rigorous.names import MAX_CELLS
from tracecloak.anonymizers.rigorous.parts_method import Given, Part
from tracecloak.anonymizers.times.case_classes import CaseClasses
from tracecloak.anonymizers.times.time_bins import estimated_shares, largest_noise
from tracecloak.schemas.events.declarations import Attribute
from tracecloak.schemas.events.events import OTHER
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.clipped_flows import CaseCells, ClippedCells

if TYPE_CHECKING:
    from tracecloak.anonymizers.logs.params import PrivateLogParams


def most_names_of_handovers(attribute: Attribute) -> int:
    """Returns how many names, OTHER included, a vocabulary can have beside an attribute."""
    return MAX_CELLS // attribute.n_cells**2


def excess_of_handovers(attribute: Attribute, n_names: int) -> str:
    """Returns what is wrong with so many names, OTHER included; empty if nothing is."""
    most = most_names_of_handovers(attribute)
    if n_names <= most:
        return ""
    return (
        f"handovers of {attribute.name}: noise is drawn for every activity and pair of its "
        f"{attribute.n_cells - 1:,} values, or none, so for {most:,} activities at most, {OTHER} "
        "included; declare fewer values, give a smaller vocabulary, or declare the attribute "
        "without handovers"
    )


@dataclass(frozen=True)
class HandoverCounter:
    """Sums over the cases of their vectors over the cells of steps; see the module.

    Looks at the traces in the vocabulary and within the length that were decided, if they were.

    Attributes:
        attribute: Whose values.
        is_pure: Whether delta is 0.
        clip_units: The L2 norm in steps of 1/1024, or, if pure, the public maximum length in
            events. None: as `value_clip` says.
    """

    attribute: Attribute
    is_pure: bool
    clip_units: int | None
    kind: ClassVar[type[ClippedCells]] = ClippedCells

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> ClippedCells:
        """Counts a batch."""
        traces = truncate_to_selected(recode_to_selected(traces, decisions), decisions)
        clip = clip_of_values(self.clip_units, decisions)
        return handover_cells(traces, self.attribute, clip, is_pure=self.is_pure)


def handover_cells(
    traces: TraceBatch, attribute: Attribute, clip_units: int, *, is_pure: bool
) -> ClippedCells:
    """Returns the sums of the cases' bounded vectors over the cells of steps.

    With k cells of values, the cell of an event of activity a and value v after one of value u has
    the key (a k + u) k + v.

    Args:
        traces: Complete cases.
        attribute: The attribute.
        clip_units: The bound, see `HandoverCounter`.
        is_pure: Whether vectors are bounded in L1, by cutting the cases; else in L2.
    """
    if is_pure:
        traces = traces.truncate(clip_units)
    k = attribute.n_cells
    values = values_of_events(traces, attribute)
    events = np.flatnonzero(~traces.is_first)
    rows = traces.activities[events].astype(np.int64) * k + values[events - 1]
    cases = np.repeat(np.arange(traces.n_cases), traces.lengths)[events]
    n_keys = len(traces.vocabulary) * k * k
    cells = CaseCells.of(cases, rows * k + values[events], traces.n_cases, n_keys)
    # The L2 norm of fewer than `clip_units` steps is below that, so pure counts are not scaled.
    return ClippedCells.of_cases(cells, clip_units, 1 if is_pure else UNITS)


def changed_handovers(
    clip_units: int, max_units: int, *, is_pure: bool
) -> tuple[Sensitivity, int | None]:
    """Returns what one unit changes of the sums, and the lattice steps of an occurrence.

    Args:
        clip_units: See `HandoverCounter`.
        max_units: Cases of one unit.
        is_pure: Whether delta is 0.

    Returns:
        Steps of None where the sums are whole counts.
    """
    if is_pure:
        return of_events(max(clip_units - 1, 1), max_units), None
    return of_clipped_cells(clip_units, max_units), UNITS


@dataclass(frozen=True)
class HandoverCounts(contract.Decision):
    """Noisy counts.

    Attributes:
        counts: float64[n_activities, k, k], by activity, value before and value.
        deviation: Of the noise of each.
    """

    wire_name: ClassVar[str] = "handover-counts"

    counts: np.ndarray
    deviation: float


@dataclass(frozen=True)
class HandoverDecision(contract.Decision):
    """How values are distributed given the one before.

    Attributes:
        shares: float64[n_activities * k, k]; row a k + u has the probability of each cell in events
            of activity a after one of value u.
    """

    wire_name: ClassVar[str] = "handover-shares"

    shares: np.ndarray


def count_handovers(
    attribute: Attribute,
    counted: ClippedCells,
    n_activities: int,
    noise: SumNoise,
    randomness: Randomness,
) -> HandoverCounts:
    """Adds the noise.

    Args:
        attribute: The attribute.
        counted: What `HandoverCounter` counted, over the whole log.
        n_activities: At most `most_names_of_handovers`.
        noise: Of one cell; made for `changed_handovers`.
        randomness: The release's.
    """
    k = attribute.n_cells
    purpose = f"handover/{attribute.name}"
    noisy = noisy_counts(counted, n_activities * k * k, noise, purpose, randomness)
    return HandoverCounts(noisy.reshape(n_activities, k, k), math.sqrt(variance_of(noise)))


def decide_handovers(counts: HandoverCounts, attribute: AttributeDecision) -> HandoverDecision:
    """Estimates the distribution of the value for each activity and value before.

    Each count is drawn towards what its activity lets one expect by as much as it may be noise, and
    taken as it is where it is beyond all noise (`time_bins.estimated_shares`, as bins of steps
    are). Rows are long and have few values, which cells of their own bring out: at epsilon 1 and 5
    on the logs of 1,050 to 13,000 cases that have resources, releases were nearer to the log than
    where whole rows are drawn towards their activity (`noise.sums.backed_off`).

    Args:
        counts: With noise.
        attribute: How values are distributed by activity alone.
    """
    n, k, _ = counts.counts.shape
    beyond_noise = largest_noise(counts.counts.size) * counts.deviation
    # One activity after the other: memory for one copy of the cells is enough.
    shares = np.empty((n, k, k))
    for activity in range(n):
        rows = counts.counts[activity]
        shares[activity] = estimated_shares(
            rows, counts.deviation, attribute.shares[activity], rows > beyond_noise
        )
    return HandoverDecision(shares.reshape(n * k, k))


def decided_handovers(
    attributes: Sequence[Attribute], decided: Mapping[str, Any]
) -> dict[str, HandoverDecision]:
    """Returns how handovers are distributed, by the names of their parts, in place of the counts.

    Args:
        attributes: The declared ones.
        decided: What the parts of attributes and of handovers decided, by name.
    """
    return {
        handovers_name(attribute): decide_handovers(
            decided[handovers_name(attribute)], decided[part_name(attribute)]
        )
        for attribute in attributes
        if attribute.has_handovers
    }


def handed_over(
    decision: HandoverDecision,
    of_activities: AttributeDecision,
    attribute: Attribute,
    traces: TraceBatch,
    cases: np.ndarray,
    randomness: Randomness,
) -> pa.Array:
    """Draws the values of generated traces: what goes into `TraceBatch.attributes`.

    What is drawn at an event depends on its case's number, its position and the values before it.

    Args:
        decision: How values are distributed given the one before.
        of_activities: How they are by activity alone.
        attribute: The attribute.
        traces: Generated cases, in the vocabulary that it was decided in.
        cases: int64[n_cases], their numbers in the whole release.
        randomness: The release's.

    Returns:
        An array of the attribute's type, one value an event.
    """
    k = attribute.n_cells
    row = np.repeat(np.arange(traces.n_cases), traces.lengths)
    positions = np.arange(traces.n_events) - traces.offsets[row]
    words = words_of_values(attribute, cases[row], positions, randomness)
    uniforms = uniform(words[:, 0])
    activities = traces.activities.astype(np.int64)
    cells = np.zeros(traces.n_events, np.int64)
    events = traces.offsets[:-1].astype(np.int64)
    cells[events] = CellLaws.of(of_activities.shares).draw(activities[events], uniforms[events])
    laws = CellLaws.of(decision.shares)
    lasts = traces.offsets[1:] - 1
    while len(events):  # position by position, for all cases that have one there
        goes_on = events < lasts
        events, lasts = events[goes_on] + 1, lasts[goes_on]
        rows = activities[events] * k + cells[events - 1]
        cells[events] = laws.draw(rows, uniforms[events])
    return attribute.values_of(cells, uniform(words[:, 1]))


def handovers_part(attribute: Attribute, params: PrivateLogParams, share: Fraction) -> Part:
    """Returns the part of `private-log`; what it decides is still to be brought to the attribute's.

    See `decided_handovers`.
    """
    is_pure, name = params.delta == 0, handovers_name(attribute)
    clip = params.max_trace_length if is_pure else params.public_clip_units

    def changed(clip_units: int) -> tuple[Sensitivity, int | None]:
        return changed_handovers(clip_units, params.max_units, is_pure=is_pure)

    def sentence(means: Allowances) -> str:
        noise = means[name].noise(*changed(clip or UNITS))
        return (
            "counts steps by the activity of the event and the values before and at it, "
            f"{noise_for_values(noise, clip)}"
        )

    def decide(given: Given) -> HandoverCounts:
        noise = given.means[name].noise(*changed(clip_of_values(clip, given.decisions)))
        n_activities = len(vocabulary_in_effect(params.words, given.decisions))
        counted: ClippedCells = given.statistics[name]
        return count_handovers(attribute, counted, n_activities, noise, given.randomness)

    if is_pure:
        assert clip is not None
        need = Sums(name, share, *changed(clip))
    else:
        need = clipped_need(name, share, clip, lambda units: changed(units)[0])
    counters = {name: HandoverCounter(attribute, is_pure, clip)}
    return Part(name, (need,), sentence, decide, counters)


def handovers_name(attribute: Attribute) -> str:
    """Returns the name of the part of an attribute's handovers."""
    return f"handovers {attribute.name}"


def generated_values(
    attributes: Sequence[Attribute],
    drawn: Mapping[str, Any],
    traces: TraceBatch,
    classes: CaseClasses,
    cases: np.ndarray,
    randomness: Randomness,
) -> dict[str, pa.Array]:
    """Returns the values of every event, by attribute.

    Args:
        attributes: The declared ones.
        drawn: What their parts, and those of handovers, decided, by name.
        traces: The released cases, with their times.
        classes: Of the released cases.
        cases: int64[n_cases], their numbers among all released ones.
        randomness: The release's.
    """
    values = {}
    for attribute in attributes:
        decision, given = drawn[part_name(attribute)], (cases, randomness)
        if attribute.has_handovers:
            following = drawn[handovers_name(attribute)]
            values[attribute.name] = handed_over(following, decision, attribute, traces, *given)
        else:
            values[attribute.name] = attribute_of_traces(
                decision, attribute, traces, classes, *given
            )
    return values
