"""To what norm the values of a case's events are scaled down: a public clip, or a bought one.

The clip that is bought is one for steps (`times.step_durations`): it was chosen as if each of the
m - 1 steps of a case of m events counted in three cells, so a case whose cells are all distinct has
the norm root(3 (m - 1)) there. Its values count in one cell an event, or one a step: the norm is at
most root(m). So the clip of values is the bought one divided by the root of 2, because
3 (m - 1) / 2 >= m for m >= 3: such a case that keeps its steps keeps its values, but for what is
rounded down. Noise is in proportion to the clip, and with it smaller by the root of 2.

The clip is a number that was decided before and may be any: what follows from it is private as it
is. A public clip is meant for values, too, and stays as it was given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.accounting import sensitivity
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers, uniform
from tracecloak.anonymizers.noise.sums import SumNoise, backed_off, noisy_counts, variance_of
from tracecloak.anonymizers.rigorous.bought import (
    recode_to_selected,
    truncate_to_selected,
    vocabulary_in_effect,
)
from tracecloak.anonymizers.rigorous.budget import UNITS, Allowances, Sums
from tracecloak.anonymizers.rigorous.clips import clipped_need
from tracecloak.anonymizers.rigorous.parts_method import Given, Part
from tracecloak.anonymizers.times.case_classes import MOST_VARIANTS, CaseClasses
from tracecloak.anonymizers.times.step_durations import noise_text
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.declarations import Attribute
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.clipped_flows import CaseCells, ClippedCells

if TYPE_CHECKING:
    from tracecloak.anonymizers.logs.params import PrivateLogParams


# --- To what norm the values of a case's events are scaled down: a public clip, or a bought one. --


_SQUARE = 2  # the bought clip is divided by the root of this


def clip_of_values(public_units: int | None, decisions: contract.Decisions) -> int:
    """Returns the clip of attributes of events and of handovers, in lattice steps.

    Args:
        public_units: The public one; None: it follows from `decisions["clip"].clip_units`, rounded
            down, and is at least one occurrence.
        decisions: What was decided before.
    """
    if public_units is not None:
        return public_units
    bought: int = decisions["clip"].clip_units
    return max(UNITS, math.isqrt(bought**2 // _SQUARE))


def noise_for_values(noise: SumNoise, public_units: int | None) -> str:
    """Returns what noise means for a sum, in words.

    Args:
        noise: Of one sum; of a clip of one occurrence where none is public.
        public_units: See `clip_of_values`.
    """
    return noise_text(noise, public_units, 1 / math.sqrt(_SQUARE))


# --- Declared attributes from noisy marginals, given the activity or the class of the case. -------
# An attribute of events is a histogram over the cells (activity of the event, value), an
# attribute of cases one over the cells (class of the case, value), value being a cell of the
# public declaration (`schemas.events.declarations`; 0 is no value). A class is a frequent
# released variant, else the last activity (`times.case_classes`): it follows from the variants,
# which were decided before. Noise goes on every cell of the public domain. What is released of an
# event or case depends on its generated activity or class and on the noisy histogram alone; no
# value is copied. Attributes are drawn independently of each other, given these. Which value of
# events follows which, `handovers` can keep.
#
# Sensitivity, for adding or removing a unit of m cases, each cut at L events:
#
# Event attributes, delta above 0. A case is the vector of its counts over the cells, brought to an
# L2
# norm of at most C steps of a lattice of 1/1024 occurrence (`value_clip` says which C), floored
# entry
# by entry (`schemas.statistics.clipped_flows.clipped_counts`, without a rounding of the norm). The
# sums change by the sum of m such vectors, so by at most m C in L2, and by exactly that if all its
# events share one cell and are at least C / 1024. Discrete Gaussian noise (Canonne, Kamath, Steinke
# 2020).
#
# Event attributes, delta 0. Each event is in one cell, so a case adds at most L to all cells
# together and the sums change by at most m L in L1: discrete Laplace noise of scale m L /
# epsilon.
#
# Case attributes. A case is of one class and has one value, so it is in one cell and the sums
# change by at most m, in L1 as in L2. Which class it is of depends on the case and on what was
# decided before, and on no other case.


@dataclass(frozen=True)
class AttributeCounter:
    """Sums over the cases of their vectors over the cells of an attribute; see the module.

    Looks at the traces in the vocabulary and within the length that were decided, if they were, and
    for an attribute of cases at `decisions["variants"]`.

    Attributes:
        attribute: Whose cells.
        is_pure: Whether delta is 0; it does not matter for an attribute of cases.
        clip_units: What an attribute of events is clipped at: the L2 norm in steps of 1/1024, or,
            if pure, the public maximum length in events; None if `value_clip` decides. It does not
            matter for an attribute of cases.
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
        if self.attribute.is_of_case:
            classes = CaseClasses.of(decisions["variants"], traces.vocabulary)
            return cells_of_cases(traces, self.attribute, classes)
        clip = clip_of_values(self.clip_units, decisions)
        return cells_of_events(traces, self.attribute, clip, is_pure=self.is_pure)


def values_of_events(traces: TraceBatch, attribute: Attribute) -> np.ndarray:
    """Returns int32[n_events], the cell of each event's value; 0 where traces do not have it."""
    if attribute.name not in traces.attributes:
        return np.zeros(traces.n_events, np.int32)
    return attribute.cells(traces.attributes[attribute.name])


def cells_of_events(
    traces: TraceBatch, attribute: Attribute, clip_units: int, *, is_pure: bool
) -> ClippedCells:
    """Returns the sums of the cases' bounded vectors over the cells of an attribute of events.

    Cell (a, v) has the key a * n_cells + v.

    Args:
        traces: Complete cases.
        attribute: The attribute.
        clip_units: The bound, see `AttributeCounter`.
        is_pure: Whether vectors are bounded in L1, by cutting the cases; else in L2.
    """
    if is_pure:
        traces = traces.truncate(clip_units)
    n_cells = attribute.n_cells
    keys = traces.activities.astype(np.int64) * n_cells + values_of_events(traces, attribute)
    cases = np.repeat(np.arange(traces.n_cases), traces.lengths)
    cells = CaseCells.of(cases, keys, traces.n_cases, len(traces.vocabulary) * n_cells)
    # The L2 norm of at most `clip_units` events is at most that, so pure counts are not scaled.
    return ClippedCells.of_cases(cells, clip_units, 1 if is_pure else UNITS)


def cells_of_cases(traces: TraceBatch, attribute: Attribute, classes: CaseClasses) -> ClippedCells:
    """Returns the numbers of cases over the cells of an attribute of cases.

    Cell (c, v) has the key c * n_cells + v.

    Args:
        traces: Complete cases, over the vocabulary of the classes.
        attribute: The attribute; it has the same value in all events of a case.
        classes: The classes of cases.
    """
    values = values_of_events(traces, attribute)[traces.offsets[:-1]]
    keys = classes.of_cases(traces) * attribute.n_cells + values
    n_keys = n_rows_of(attribute, classes, len(traces.vocabulary)) * attribute.n_cells
    cells = CaseCells.of(np.arange(traces.n_cases), keys, traces.n_cases, n_keys)
    return ClippedCells.of_cases(cells, 1, 1)  # norm 1: never clipped


def n_rows_of(attribute: Attribute, classes: CaseClasses, n_activities: int) -> int:
    """Returns by how many activities, or classes of cases, an attribute is counted."""
    return classes.n_variants * attribute.is_of_case + n_activities


def changed_values(
    attribute: Attribute, clip_units: int | None, max_units: int, *, is_pure: bool
) -> tuple[sensitivity.Sensitivity, int | None]:
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
        return sensitivity.of_one_cell(max_units), None
    if clip_units is None:
        raise UsageError("an attribute of events needs clip_units")
    if is_pure:
        return sensitivity.of_events(clip_units, max_units), None
    return sensitivity.of_clipped_cells(clip_units, max_units), UNITS


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
        counted: What `AttributeCounter` counted, over the whole log.
        n_rows: See `n_rows_of`. A log with times has at most some 2,000 names and an attribute some
            1,000 cells, so noise can be drawn for all of them.
        noise: Of one cell; made for `changed_values`.
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


def sample_attribute(
    decision: AttributeDecision,
    attribute: Attribute,
    rows: np.ndarray,
    cases: np.ndarray,
    positions: np.ndarray,
    randomness: Randomness,
) -> pa.Array:
    """Draws values by rows; what is drawn depends on the case's number and the position.

    Args:
        decision: How the attribute is distributed.
        attribute: The attribute.
        rows: int[n], activities or classes, as in the decision.
        cases: int64[n], numbers of the cases in the whole release.
        positions: int64[n], places in the case; each pair comes once.
        randomness: The release's.

    Returns:
        An array of the attribute's type and length n; null for no value.
    """
    words = words_of_values(attribute, cases, positions, randomness)
    cells = CellLaws.of(decision.shares).draw(rows, uniform(words[:, 0]))
    return attribute.values_of(cells, uniform(words[:, 1]))


def words_of_values(
    attribute: Attribute, cases: np.ndarray, positions: np.ndarray, randomness: Randomness
) -> np.ndarray:
    """Returns uint64[n, 2], the random bits of values: for the cell, and for the place in it.

    Args:
        attribute: The attribute.
        cases: int64[n], numbers of the cases in the whole release.
        positions: int64[n], places in the case; each pair comes once.
        randomness: The release's.
    """
    return randomness.words(f"value of attribute/{attribute.name}", cell_numbers(cases), positions)


@dataclass(frozen=True, eq=False)
class CellLaws:
    """Laws of a cell, many at once, that cells are drawn by.

    Attributes:
        ends: float64[n * n_cells], of each cell the chance of it or a lower one, plus the number of
            its row: rows lie one after the other, and each ends at a whole number.
        n_cells: Cells of a row.
    """

    ends: np.ndarray
    n_cells: int

    @classmethod
    def of(cls, shares: np.ndarray) -> CellLaws:
        """Takes float64[n, n_cells], not negative, of which no row is all zeros."""
        ends = np.cumsum(shares, axis=1)
        ends /= ends[:, -1:]
        ends += np.arange(len(ends))[:, None]
        return cls(ends.ravel(), shares.shape[1])

    def draw(self, rows: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
        """Returns int64[m], a cell by each row's law; never one that has no share.

        Args:
            rows: int[m], the row of each.
            uniforms: float64[m] in [0, 1).
        """
        at = rows + np.minimum(uniforms, 1 - 1e-9)  # a sum may be rounded up to the next row
        cells: np.ndarray = np.searchsorted(self.ends, at, side="right") - rows * self.n_cells
        return cells


def attribute_of_traces(
    decision: AttributeDecision,
    attribute: Attribute,
    traces: TraceBatch,
    classes: CaseClasses,
    cases: np.ndarray,
    randomness: Randomness,
) -> pa.Array:
    """Draws the values of generated traces: what goes into `TraceBatch.attributes`.

    Args:
        decision: How the attribute is distributed.
        attribute: The attribute.
        traces: Generated cases, in the vocabulary that it was decided in.
        classes: The classes of cases that it was decided by; an attribute of events has no use for
            them.
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
    nowhere = np.zeros(len(cases), np.int64)
    class_of_case = classes.of_cases(traces)
    of_cases = sample_attribute(decision, attribute, class_of_case, cases, nowhere, randomness)
    return of_cases.take(pa.array(row))


def attribute_part(attribute: Attribute, params: PrivateLogParams, share: Fraction) -> Part:
    """Returns the part of `private-log` that one declared attribute is."""
    is_pure, name = params.delta == 0, part_name(attribute)
    clip = params.max_trace_length if is_pure else params.public_clip_units

    def changed(clip_units: int | None) -> tuple[sensitivity.Sensitivity, int | None]:
        return changed_values(attribute, clip_units, params.max_units, is_pure=is_pure)

    def sentence(means: Allowances) -> str:
        noise = means[name].noise(*changed(clip or UNITS))
        if attribute.is_of_case:
            return (
                f"counts cases by variant, of {MOST_VARIANTS} variants, else by last activity, and "
                f"by value, each within {noise.half_width:,} (95 %)"
            )
        return f"counts events by activity and value, {noise_for_values(noise, clip)}"

    def decide(given: Given) -> AttributeDecision:
        known = given.decisions
        chosen = None if attribute.is_of_case else clip_of_values(clip, known)
        noise = given.means[name].noise(*changed(chosen))
        vocabulary = vocabulary_in_effect(params.words, known)
        classes = CaseClasses.of(known["variants"], vocabulary)
        n_rows = n_rows_of(attribute, classes, len(vocabulary))
        counted: ClippedCells = given.statistics[attribute.name]
        return decide_attribute(attribute, counted, n_rows, noise, given.randomness)

    if attribute.is_of_case or is_pure:
        need = Sums(name, share, *changed(clip))
    else:
        need = clipped_need(name, share, clip, lambda units: changed(units)[0])
    counters = {attribute.name: AttributeCounter(attribute, is_pure, clip)}
    return Part(name, (need,), sentence, decide, counters)


def part_name(attribute: Attribute) -> str:
    """Returns the name of an attribute's part."""
    return f"attribute {attribute.name}"
