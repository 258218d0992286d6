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
L2 norm of at most C steps of a lattice of 1/1024 occurrence (`clip_in_effect` says which C),
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

from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import Counted
from tracecloak.anonymizers.contract.sentences import told
from tracecloak.anonymizers.noise.randomness import CellLaws, Randomness, cell_numbers, uniform
from tracecloak.anonymizers.noise.sums import SumNoise, backed_off, noisy_counts, variance_of
from tracecloak.anonymizers.rigorous.bought import vocabulary_in_effect
from tracecloak.anonymizers.rigorous.budget import Sums
from tracecloak.anonymizers.rigorous.names import MAX_CELLS
from tracecloak.anonymizers.rigorous.parts_method import Given, Part, noisy_part
from tracecloak.anonymizers.times.case_classes import MOST_VARIANTS, CaseClasses
from tracecloak.anonymizers.times.step_durations import clipped_sums, vectors_part
from tracecloak.anonymizers.times.time_bins import estimated_shares, largest_noise
from tracecloak.schemas.events.declarations import Attribute
from tracecloak.schemas.events.events import OTHER
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.clipped_flows import CaseCells, ClippedCells

if TYPE_CHECKING:
    from tracecloak.anonymizers.logs.params import PrivateLogParams

# Of vectors of values: the clip that was bought for steps is divided by the root of this.
SQUARE = 2


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


class AttributeDecision(contract.Decision, wire_name="attribute-shares"):
    """How an attribute is distributed.

    Attributes:
        shares: float64[n_rows, n_cells], the probability of each cell: for each activity, or, of an
            attribute of cases, for each class of cases.
    """

    shares: np.ndarray


def decide_attribute(
    given: Given, noise: SumNoise, attribute: Attribute, params: PrivateLogParams
) -> AttributeDecision:
    """Adds the noise, and estimates the distribution of the attribute for each activity or class.

    A row is drawn towards that of the whole log by as much as it is noise, and the row of the whole
    log towards declared values that are equally likely (`noise.sums.backed_off`). A log with times
    has at most some 2,000 names and an attribute some 1,000 cells, so noise can be drawn for all of
    them.

    Args:
        given: With what was counted of the attribute, exactly, over the whole log.
        noise: Of one cell.
        attribute: The attribute.
        params: The method's.
    """
    vocabulary = vocabulary_in_effect(params.words, given.decisions)
    n_rows, n_cells = len(vocabulary), attribute.n_cells
    if attribute.is_of_case:
        n_rows += CaseClasses.of(given.decisions["variants"], vocabulary).n_variants
    counted, own = given.statistics[part_name(attribute)], given.randomness
    purpose, is_whole = f"attribute/{attribute.name}", attribute.is_of_case
    noisy = noisy_counts(counted, n_rows * n_cells, noise, purpose, own, is_whole=is_whole)
    rows = noisy.reshape(n_rows, n_cells)
    variance = variance_of(noise)
    nothing_known = np.full(n_cells, 1 / (n_cells - 1))
    nothing_known[0] = 0
    whole_log = backed_off(rows.sum(axis=0, keepdims=True), n_rows * variance, nothing_known)
    return AttributeDecision(backed_off(rows, variance, whole_log[0]))


def attribute_part(attribute: Attribute, params: PrivateLogParams, share: Fraction) -> Part:
    """Returns the part of `private-log` that one declared attribute is."""
    name, most = part_name(attribute), params.max_trace_length or 1
    decide = partial(decide_attribute, attribute=attribute, params=params)
    if not attribute.is_of_case:
        sentence, cells = "counts events by activity and value", (cells_of_events, attribute)
        return vectors_part(name, params, share, cells, sentence, decide, most, square=SQUARE)
    return noisy_part(
        Sums(name, share, of_one_cell(params.max_units)),
        {name: Counted(ClippedCells, clipped_sums, (cells_of_cases, attribute, 1, 1))},
        told("private-log", "attributes", params, most_variants=MOST_VARIANTS),
        decide,
    )


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


class HandoverDecision(contract.Decision, wire_name="handover-shares"):
    """How values are distributed given the one before.

    Attributes:
        shares: float64[n_activities * k, k]; row a k + u has the probability of each cell in events
            of activity a after one of value u.
    """

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
    name, k = handovers_name(attribute), attribute.n_cells

    def decide(given: Given, noise: SumNoise) -> HandoverDecision:
        n_names = len(vocabulary_in_effect(params.words, given.decisions))
        n_cells, purpose = n_names * k * k, f"handover/{attribute.name}"
        noisy = noisy_counts(given.statistics[name], n_cells, noise, purpose, given.randomness)
        by_activity = given.decisions[part_name(attribute)].shares
        return decide_handovers(noisy.reshape(n_names, k, k), noise.deviation, by_activity)

    sentence = "counts steps by the activity of the event and the values before and at it"
    cells, most = (cells_of_handovers, attribute), max((params.max_trace_length or 1) - 1, 1)
    return vectors_part(name, params, share, cells, sentence, decide, most, square=SQUARE)


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
