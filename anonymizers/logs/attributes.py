"""Attributes of a released log: noisy marginals, who hands over to whom, and draws from both.

To what norm the values of a case's events are scaled down: a public clip, or a bought one.

The clip that is bought is one for steps (`times.step_durations`): it was chosen as if each of the
m - 1 steps of a case of m events counted in three cells, so a case whose cells are all distinct has
the norm root(3 (m - 1)) there. Its values count in one cell an event, or one a step: the norm is at
most root(m). So the clip of values is the bought one divided by the root of 2, because
3 (m - 1) / 2 >= m for m >= 3: such a case that keeps its steps keeps its values, but for what is
rounded down. Noise is in proportion to the clip, and with it smaller by the root of 2.

The clip is a number that was decided before and may be any: what follows from it is private as it
is. A public clip is meant for values, too, and stays as it was given.

Sensitivity, for adding or removing a unit of m cases, each cut at L events:

Vectors of events, delta above 0. A case is the vector of its counts over the cells, brought to an
L2 norm of at most C steps of a lattice of 1/1024 occurrence (`clip_of_values` says which C),
floored entry by entry (`schemas.statistics.clipped_flows.clipped_counts`, without a rounding of the
norm). The sums change by the sum of m such vectors, so by at most m C in L2, and by exactly that if
all that is counted shares one cell and is at least C / 1024. Discrete Gaussian noise (Canonne,
Kamath, Steinke 2020).

Vectors of events, delta 0. A case has so many entries at most, so the sums change by at most m
times that in L1: discrete Laplace noise.

Attributes of cases. A case is of one class and has one value, so it is in one cell and the sums
change by at most m, in L1 as in L2. Which class it is of depends on the case and on what was
decided before, and on no other case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.accounting.sensitivity import Sensitivity, of_clipped, of_one_cell
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import Batch, Counted
from tracecloak.anonymizers.noise.randomness import CellLaws, Randomness, cell_numbers, uniform
from tracecloak.anonymizers.noise.sums import SumNoise, backed_off, noisy_counts, variance_of
from tracecloak.anonymizers.rigorous.bought import traces_in_domain, vocabulary_in_effect
from tracecloak.anonymizers.rigorous.budget import UNITS, Allowances, Sums
from tracecloak.anonymizers.rigorous.clips import clipped_need
from tracecloak.anonymizers.rigorous.names import MAX_CELLS
from tracecloak.anonymizers.rigorous.parts_method import Given, Part
from tracecloak.anonymizers.times.case_classes import MOST_VARIANTS, CaseClasses
from tracecloak.anonymizers.times.step_durations import noise_text
from tracecloak.anonymizers.times.time_bins import estimated_shares, largest_noise
from tracecloak.schemas.events.declarations import Attribute
from tracecloak.schemas.events.events import OTHER
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.clipped_flows import CaseCells, ClippedCells

if TYPE_CHECKING:
    from tracecloak.anonymizers.logs.params import PrivateLogParams

# From traces in the vocabulary and within the length in effect to the vectors of their cases.
CellsOf = Callable[..., CaseCells]


_SQUARE = 2  # the bought clip is divided by the root of this


def clip_of_values(public_units: int | None, decisions: contract.Decisions) -> int:
    """Returns the clip of vectors of a case's events, in lattice steps.

    Args:
        public_units: The public one; None: it follows from `decisions["clip"].clip_units`, rounded
            down, and is at least one occurrence.
        decisions: What was decided before.
    """
    if public_units is not None:
        return public_units
    bought: int = decisions["clip"].clip_units
    return max(UNITS, math.isqrt(bought**2 // _SQUARE))


def clipped_sums(
    batch: Batch, cells_of: CellsOf, clip: int | None, units: int, *given: Any
) -> ClippedCells:
    """Returns the sums of the cases' clipped vectors.

    Args:
        batch: Complete cases, and what was decided.
        cells_of: From these traces, the decisions and what is given to the cases' vectors.
        clip: See `clip_of_values`.
        units: Lattice steps of what the vectors count by.
        given: Further arguments of `cells_of`.
    """
    traces = traces_in_domain(batch)
    cells = cells_of(traces, batch.decisions, *given)
    return ClippedCells.from_cases(cells, clip_of_values(clip, batch.decisions), units)


def vectors_part(
    name: str,
    params: PrivateLogParams,
    share: Fraction,
    counted: tuple[CellsOf, Any],
    sentence: str,
    estimate: Callable[[ClippedCells, SumNoise, int, Given], Any],
    most: int,
    fineness: int = 1,
) -> Part:
    """Returns a part of `private-log` that is made of vectors of the events of a case.

    Args:
        name: Of the part, and of what is counted for it.
        params: The method's.
        share: See `Sums`.
        counted: What counts the vectors, and of what, see `clipped_sums`.
        sentence: What is counted, in words.
        estimate: From the exact sums, the noise of each, the number of activities and what is known
            to what is decided.
        most: How many occurrences a case has in all at most, where delta is 0.
        fineness: Into how many parts an occurrence is divided.
    """
    is_pure = params.delta == 0
    clip = most * fineness if is_pure else params.public_clip_units
    lattice = fineness if is_pure else UNITS

    def changed(clip_units: int) -> Sensitivity:
        return of_clipped(clip_units, params.max_units, is_pure=is_pure)

    def explain(means: Allowances) -> str:
        noise = means[name].noise(changed(clip or UNITS), lattice)
        return f"{sentence}, {noise_text(noise, clip, 1 / math.sqrt(_SQUARE))}"

    def decide(given: Given) -> Any:
        noise = given.means[name].noise(changed(clip_of_values(clip, given.decisions)), lattice)
        n_names = len(vocabulary_in_effect(params.words, given.decisions))
        return estimate(given.statistics[name], noise, n_names, given)

    need = clipped_need(name, share, clip, changed, lattice)
    cells_of, of = counted
    sums = Counted(ClippedCells, clipped_sums, (cells_of, clip, lattice // fineness, of))
    return Part(name, (need,), explain, decide, {name: sums})


# --- Declared attributes from noisy marginals, given the activity or the class of the case. -------
# An attribute of events is a histogram over the cells (activity of the event, value), an
# attribute of cases one over the cells (class of the case, value), value being a cell of the
# public declaration (`schemas.events.declarations`; 0 is no value). A class is a frequent
# released variant, else the last activity (`times.case_classes`): it follows from the variants,
# which were decided before. Noise goes on every cell of the public domain. What is released of an
# event or case depends on its generated activity or class and on the noisy histogram alone; no
# value is copied. Attributes are drawn independently of each other, given these.


def values_of_events(traces: TraceBatch, attribute: Attribute) -> np.ndarray:
    """Returns int32[n_events], the cell of each event's value; 0 where traces do not have it."""
    if attribute.name not in traces.attributes:
        return np.zeros(traces.n_events, np.int32)
    return attribute.cells(traces.attributes[attribute.name])


def cells_of_events(
    traces: TraceBatch, decisions: contract.Decisions, attribute: Attribute
) -> CaseCells:
    """Returns the cases' vectors over the cells (a, v), which have the keys a * n_cells + v."""
    n_cells = attribute.n_cells
    keys = traces.activities.astype(np.int64) * n_cells + values_of_events(traces, attribute)
    cases = np.repeat(np.arange(traces.n_cases), traces.lengths)
    return CaseCells.of(cases, keys, traces.n_cases, len(traces.vocabulary) * n_cells)


def cells_of_cases(
    traces: TraceBatch, decisions: contract.Decisions, attribute: Attribute
) -> CaseCells:
    """Returns a one for each case; the cell of class c and value v has the key c * n_cells + v.

    Args:
        traces: Complete cases.
        decisions: With the variants, which the classes follow from.
        attribute: The attribute; it has the same value in all events of a case.
    """
    classes = CaseClasses.of(decisions["variants"], traces.vocabulary)
    values = values_of_events(traces, attribute)[traces.offsets[:-1]]
    keys = classes.of_cases(traces) * attribute.n_cells + values
    n_keys = (classes.n_variants + len(traces.vocabulary)) * attribute.n_cells
    return CaseCells.of(np.arange(traces.n_cases), keys, traces.n_cases, n_keys)


@dataclass(frozen=True)
class AttributeDecision(contract.Decision):
    """How an attribute is distributed.

    Attributes:
        shares: float64[n_rows, n_cells], the probability of each cell: for each activity, or, of an
            attribute of cases, for each class of cases.
    """

    wire_name: ClassVar[str] = "attribute-shares"

    shares: np.ndarray


def decide_attribute(
    attribute: Attribute,
    counted: ClippedCells,
    n_rows: int,
    noise: SumNoise,
    randomness: Randomness,
) -> AttributeDecision:
    """Adds the noise, and estimates the distribution of the attribute for each activity or class.

    A row is drawn towards that of the whole log by as much as it is noise, and the row of the whole
    log towards declared values that are equally likely (`noise.sums.backed_off`).

    Args:
        attribute: The attribute.
        counted: Exactly, over the whole log.
        n_rows: Activities, or classes of cases. A log with times has at most some 2,000 names and
            an attribute some 1,000 cells, so noise can be drawn for all of them.
        noise: Of one cell.
        randomness: The release's.
    """
    n_cells = attribute.n_cells
    purpose, is_whole = f"attribute/{attribute.name}", attribute.is_of_case
    noisy = noisy_counts(counted, n_rows * n_cells, noise, purpose, randomness, is_whole=is_whole)
    rows = noisy.reshape(n_rows, n_cells)
    variance = variance_of(noise)
    nothing_known = np.full(n_cells, 1 / (n_cells - 1))
    nothing_known[0] = 0
    whole_log = backed_off(rows.sum(axis=0, keepdims=True), n_rows * variance, nothing_known)
    return AttributeDecision(backed_off(rows, variance, whole_log[0]))


def attribute_part(attribute: Attribute, params: PrivateLogParams, share: Fraction) -> Part:
    """Returns the part of `private-log` that one declared attribute is."""
    name = part_name(attribute)
    if not attribute.is_of_case:

        def estimate(
            counted: ClippedCells, noise: SumNoise, n_names: int, given: Given
        ) -> AttributeDecision:
            return decide_attribute(attribute, counted, n_names, noise, given.randomness)

        sentence = "counts events by activity and value"
        event_cells, most = (cells_of_events, attribute), params.max_trace_length or 1
        return vectors_part(name, params, share, event_cells, sentence, estimate, most)

    changed = of_one_cell(params.max_units)

    def explain(means: Allowances) -> str:
        return (
            f"counts cases by variant, of {MOST_VARIANTS} variants, else by last activity, and by "
            f"value, each within {means[name].noise(changed).half_width:,} (95 %)"
        )

    def decide(given: Given) -> AttributeDecision:
        known, noise = given.decisions, given.means[name].noise(changed)
        vocabulary = vocabulary_in_effect(params.words, known)
        n_rows = CaseClasses.of(known["variants"], vocabulary).n_variants + len(vocabulary)
        return decide_attribute(attribute, given.statistics[name], n_rows, noise, given.randomness)

    ones = Counted(ClippedCells, clipped_sums, (cells_of_cases, 1, 1, attribute))
    return Part(name, (Sums(name, share, changed),), explain, decide, {name: ones})


def part_name(attribute: Attribute) -> str:
    """Returns the name of an attribute's part."""
    return f"attribute {attribute.name}"


# --- Who hands over to whom: values of an attribute of events, given the value of the event before.
# For an attribute whose declaration asks for it. A step is an event and its predecessor in the
# case; it is in the cell (activity of the event, value before, value of the event). Noise goes on
# every cell of the public domain, so this is for attributes of few values: n activities and k cells
# of values have n k^2 cells, at most `MAX_CELLS`. A case of L events has at most L - 1 steps; where
# L is 1 nothing changes, and any noise will do.
#
# The value of a case's first event is drawn by its activity alone, that of any other by its
# activity and the value drawn before it. So a case's values are a chain, of which what came before
# the last event is not kept.


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


def cells_of_handovers(
    traces: TraceBatch, decisions: contract.Decisions, attribute: Attribute
) -> CaseCells:
    """Returns the cases' vectors over the cells of steps.

    With k cells of values, the cell of an event of activity a and value v after one of value u has
    the key (a k + u) k + v.
    """
    k = attribute.n_cells
    values = values_of_events(traces, attribute)
    events = np.flatnonzero(~traces.is_first)
    rows = traces.activities[events].astype(np.int64) * k + values[events - 1]
    cases = np.repeat(np.arange(traces.n_cases), traces.lengths)[events]
    n_keys = len(traces.vocabulary) * k * k
    return CaseCells.of(cases, rows * k + values[events], traces.n_cases, n_keys)


@dataclass(frozen=True)
class HandoverDecision(contract.Decision):
    """How values are distributed given the one before.

    Attributes:
        shares: float64[n_activities * k, k]; row a k + u has the probability of each cell in events
            of activity a after one of value u.
    """

    wire_name: ClassVar[str] = "handover-shares"

    shares: np.ndarray


def decide_handovers(
    counts: np.ndarray, deviation: float, by_activity: np.ndarray
) -> HandoverDecision:
    """Estimates the distribution of the value for each activity and value before.

    Each count is drawn towards what its activity lets one expect by as much as it may be noise, and
    taken as it is where it is beyond all noise (`time_bins.estimated_shares`, as bins of steps
    are). Rows are long and have few values, which cells of their own bring out: at epsilon 1 and 5
    on the logs of 1,050 to 13,000 cases that have resources, releases were nearer to the log than
    where whole rows are drawn towards their activity (`noise.sums.backed_off`).

    Args:
        counts: float64[n_activities, k, k], noisy, by activity, value before and value.
        deviation: Of the noise of each.
        by_activity: float64[n_activities, k], how values are distributed by activity alone.
    """
    n, k, _ = counts.shape
    beyond_noise = largest_noise(counts.size) * deviation
    # One activity after the other: memory for one copy of the cells is enough.
    shares = np.empty((n, k, k))
    for activity, rows in enumerate(counts):
        is_large = rows > beyond_noise
        shares[activity] = estimated_shares(rows, deviation, by_activity[activity], is_large)
    return HandoverDecision(shares.reshape(n * k, k))


def handovers_part(attribute: Attribute, params: PrivateLogParams, share: Fraction) -> Part:
    """Returns the part of `private-log`; it comes after that of the attribute itself."""
    k = attribute.n_cells

    def estimate(
        counted: ClippedCells, noise: SumNoise, n_names: int, given: Given
    ) -> HandoverDecision:
        purpose = f"handover/{attribute.name}"
        noisy = noisy_counts(counted, n_names * k * k, noise, purpose, given.randomness)
        counts, deviation = noisy.reshape(n_names, k, k), noise.deviation
        return decide_handovers(counts, deviation, given.decisions[part_name(attribute)].shares)

    sentence = "counts steps by the activity of the event and the values before and at it"
    most = max((params.max_trace_length or 1) - 1, 1)
    step_cells, name = (cells_of_handovers, attribute), handovers_name(attribute)
    return vectors_part(name, params, share, step_cells, sentence, estimate, most)


def handovers_name(attribute: Attribute) -> str:
    """Returns the name of the part of an attribute's handovers."""
    return f"handovers {attribute.name}"


# --- The values of attributes in a log that was drawn. --------------------------------------------


def generated_values(
    attribute: Attribute,
    drawn: Mapping[str, Any],
    traces: TraceBatch,
    classes: CaseClasses,
    cases: np.ndarray,
    randomness: Randomness,
) -> pa.Array:
    """Returns an array of the attribute's type, one value an event.

    An attribute of cases has the same in all events of a case. What is drawn depends on the case's
    number and the event's position, and with handovers on the values before it.

    Args:
        attribute: A declared one.
        drawn: What its part, and that of its handovers, decided, by name.
        traces: Generated cases, in the vocabulary that it was decided in.
        classes: Of these cases.
        cases: int64[n_cases], their numbers among all released ones.
        randomness: The release's.
    """
    purpose = f"value of attribute/{attribute.name}"
    laws = CellLaws.of(drawn[part_name(attribute)].shares)
    row = np.repeat(np.arange(traces.n_cases), traces.lengths)
    if attribute.is_of_case:
        words = randomness.words(purpose, cell_numbers(cases))
        cells = laws.draw(classes.of_cases(traces), uniform(words[:, 0]))
        return attribute.values_of(cells, uniform(words[:, 1])).take(pa.array(row))
    positions = np.arange(traces.n_events) - traces.offsets[row]
    words = randomness.words(purpose, cell_numbers(cases[row]), positions)
    uniforms = uniform(words[:, 0])
    if attribute.has_handovers:
        following = CellLaws.of(drawn[handovers_name(attribute)].shares)
        cells = _handed_over(laws, following, traces, uniforms)
    else:
        cells = laws.draw(traces.activities, uniforms)
    return attribute.values_of(cells, uniform(words[:, 1]))


def _handed_over(
    first: CellLaws, following: CellLaws, traces: TraceBatch, uniforms: np.ndarray
) -> np.ndarray:
    """int64[n_events], the cells of values that follow each other.

    Args:
        first: By activity.
        following: By activity and value before.
        traces: The cases.
        uniforms: float64[n_events] in [0, 1).
    """
    activities = traces.activities.astype(np.int64)
    cells = np.zeros(traces.n_events, np.int64)
    events = traces.offsets[:-1].astype(np.int64)
    cells[events] = first.draw(activities[events], uniforms[events])
    lasts = traces.offsets[1:] - 1
    while len(events):  # position by position, for all cases that have one there
        goes_on = events < lasts
        events, lasts = events[goes_on] + 1, lasts[goes_on]
        rows = activities[events] * following.n_cells + cells[events - 1]
        cells[events] = following.draw(rows, uniforms[events])
    return cells
