"""Amun: a log released by sampling its cases and adding noise to its times.

Elkoumy, Pankova, Dumas: Differentially Private Release of Event Logs for Process Mining. Sections
3.2 to 3.7, Algorithm 1, Propositions A.6 and A.7. One parameter, the guessing advantage, sets all
noise. As published; `guarantee` says what really holds, which is no finite epsilon.

Readings that the paper leaves open, fixed here: a relative time is the difference to the
predecessor; a start is counted in whole days since the log's first; no relative time becomes
negative, so the order of a case's events never changes and no new variant appears (R1). The
profiles `paper`, `reference` and `tables` fix the rest (`anonymizers.amun.params.PROFILES`).

Section 3.7 multiplies "relative time values" by Equation 4. Table 5, which the paper made that way,
shows which values: steps of 120 and of 30 minutes in groups without noise are 157.55 and 39.38
minutes there, each 1.3128 times as long as before, because the authors' code adds a group's
smallest time to its noise. So what is multiplied by .3128 is the noise and not the step, whose
factor would be below 1/2. Equation 4 gives .3128 if the anonymised range is the largest shift of a
start, 1.90 days of 3.18; the range of the noised starts, 4.09 days, which the text names, would
give .219. `shifts` is that reading, and `equation_4` the text's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.amun.case_moves import (
    draw_gains_and_losses,
    forecast_size,
    moves_per_transition,
)
from tracecloak.anonymizers.amun.params import (
    DAY_US,
    AmunParams,
    advantage_of_oversampling,
    epsilon_of_counts,
    epsilon_of_oversampling,
    laplace_by_inversion,
    prior_of,
    scales_of,
)
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import RANGE_OF_STARTS, Batch, Counted
from tracecloak.anonymizers.contract.sentences import promise, sentence
from tracecloak.anonymizers.noise.randomness import Randomness, below, cell_numbers, hex_ids
from tracecloak.anonymizers.rigorous.parts_method import Given, Part, step
from tracecloak.schemas.arrays.merging import offsets_of, ranges
from tracecloak.schemas.arrays.sequences import CaseRanks, case_bytes
from tracecloak.schemas.calendar.local_time import microseconds_at
from tracecloak.schemas.errors import GuaranteeError, UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.manifest import Guarantee
from tracecloak.schemas.statistics.durations import DurationIndex, DurationTable
from tracecloak.schemas.statistics.log_times import StartRange, cumulated_stamps
from tracecloak.schemas.statistics.variants import Dafsa, VariantHistogram

# --- What rounds decide, and the transformation: cases copied, deleted and noised, under new ids. -
# A time is looked at as (group, ticks): the group is the DAFSA transition of its event, or one
# group of its own for all starts; ticks are relative times in units of `time_unit_us`, or days
# since the log's first start.
#
# Algorithm 1, lines 26 to 28, and section 3.7. Sees one batch at a time; all it draws is keyed by
# the case, so a case's noise is the same in whichever batch it lies.


class DafsaDecision(contract.Decision, wire_name="amun-dafsa"):
    """Round `dafsa`.

    Attributes:
        dafsa: The automaton of the whole log's variants.
        log_start_us: Public start of the first case.
        log_end_us: Public start of the last case.
    """

    dafsa: Dafsa
    log_start_us: int
    log_end_us: int


class FilterDecision(contract.Decision, wire_name="amun-filter"):
    """Round `prior-knowledge`: the filter of section 3.4 on distinct (group, ticks) pairs.

    Attributes:
        times: The pairs of all cases.
        is_dropped: bool[n_pairs], those whose cases are dropped.
    """

    times: DurationIndex
    is_dropped: np.ndarray


class SamplingDecision(contract.Decision, wire_name="amun-sampling"):
    """Round `sampling`.

    Attributes:
        times: The (group, ticks) pairs of the kept cases; the last group is the starts'.
        scales: float32[n_pairs], Laplace scale of each pair in microseconds, before replication.
        gains: int64[n_variants], cases to copy.
        losses: int64[n_variants], cases to delete.
    """

    times: DurationIndex
    scales: np.ndarray
    gains: np.ndarray
    losses: np.ndarray


class SelectionDecision(contract.Decision, wire_name="amun-selection"):
    """Round `selection`.

    Attributes:
        changed: fixed_size_binary(16)[n], identities of the cases released other than once.
        copies: int64[n], how often each of them is released.
    """

    changed: pa.Array
    copies: np.ndarray


class CompressionDecision(contract.Decision, wire_name="amun-compression"):
    """Round `compression`.

    Attributes:
        noised_starts: Range of the noised starts; with the compression `shifts` that of the noise
            which they got, as if it were stamps.
    """

    noised_starts: StartRange


def ticks_of(
    traces: TraceBatch, decisions: contract.Decisions, params: AmunParams
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns (variant int64[n_cases], group int32[n_events], ticks int64[n_events])."""
    known: DafsaDecision = decisions["dafsa"]
    variant, group = known.dafsa.annotate(traces)
    ticks = traces.durations // params.choices.time_unit_us
    group[traces.is_first] = known.dafsa.n_transitions
    ticks[traces.is_first] = start_days(traces, decisions)
    return variant, group, ticks


def start_days(traces: TraceBatch, decisions: contract.Decisions) -> np.ndarray:
    """Returns int64[n_cases], whole days from the log's first start to each case's."""
    known: DafsaDecision = decisions["dafsa"]
    return (traces.starts - known.log_start_us) // DAY_US


def kept_cases(batch: Batch, params: AmunParams) -> TraceBatch:
    """Returns the cases that the filter leaves."""
    traces = batch.traces
    dropped: FilterDecision | None = batch.decisions.get("prior-knowledge")
    if dropped is None or traces.n_cases == 0:
        return traces
    _, group, ticks = ticks_of(traces, batch.decisions, params)
    drops = dropped.is_dropped[dropped.times.find(group, ticks)]
    return traces.take(np.flatnonzero(~np.logical_or.reduceat(drops, traces.offsets[:-1])))


@dataclass(frozen=True, eq=False)
class Released:
    """The cases of a batch as often as they are released, with their original times.

    Attributes:
        traces: The cases.
        cells: uint64[n_cases, 2], keyed identity of the original case.
        copies: int64[n_cases], how often that original is released.
        replica: int64[n_cases], which of these this is.
        batch: All cases, with what was decided and the release's randomness.
        params: Those of the method.
    """

    traces: TraceBatch
    cells: np.ndarray
    copies: np.ndarray
    replica: np.ndarray
    batch: Batch
    params: AmunParams

    @classmethod
    def of(cls, batch: Batch, params: AmunParams) -> Released:
        """Copies and deletes the cases of a batch."""
        selection: SelectionDecision = batch.decisions["selection"]
        traces = kept_cases(batch, params)
        cells = batch.randomness.identify("case", traces.case_ids)
        # The table that is searched holds the few cases of the batch, not the many changed ones.
        batch_rows = pc.index_in(selection.changed, value_set=case_bytes(cells))
        copies = np.ones(traces.n_cases, np.int64)
        copies[np.asarray(batch_rows.drop_null())] = selection.copies[
            np.asarray(batch_rows.is_valid())
        ]
        source = np.repeat(np.arange(traces.n_cases), copies)
        replica = ranges(np.zeros(traces.n_cases, np.int64), copies)
        return cls(traces.take(source), cells[source], copies[source], replica, batch, params)

    def start_noise(self) -> np.ndarray:
        """Returns int64[n_cases], microseconds to add to the starts."""
        sampling: SamplingDecision = self.batch.decisions["sampling"]
        days = start_days(self.traces, self.batch.decisions)
        group = np.full(len(days), self.batch.decisions["dafsa"].dafsa.n_transitions)
        scales = sampling.scales[sampling.times.find(group, days)]
        if self.params.choices.divided_epsilons == "all":
            scales = scales * self.copies
        return self._drawn(slice(None), 0, scales)

    def noise(self) -> np.ndarray:
        """Returns int64[n_events], microseconds to add to the durations; 0 at first events.

        With `negative_steps` mirrored none makes a duration negative.
        """
        sampling: SamplingDecision = self.batch.decisions["sampling"]
        later = np.flatnonzero(~self.traces.is_first)
        _, group, ticks = ticks_of(self.traces, self.batch.decisions, self.params)
        row = np.repeat(np.arange(self.traces.n_cases), self.traces.lengths)[later]
        scales = sampling.scales[sampling.times.find(group[later], ticks[later])]
        noise = np.zeros(self.traces.n_events, np.int64)
        place = later - self.traces.offsets[row]
        noise[later] = self._drawn(row, place, scales * self.copies[row])
        if self.params.choices.negative_steps == "mirrored":
            return np.where(self.traces.durations + noise < 0, np.abs(noise), noise)
        return noise

    def _drawn(
        self, cases: np.ndarray | slice, place: np.ndarray | int, scales: np.ndarray
    ) -> np.ndarray:
        """One draw a scale, keyed by case, replica and place of the event in the case."""
        counter = (self.replica[cases] << 32) + place
        words = self.batch.randomness.words("amun/time", self.cells[cases], counter)
        return laplace_by_inversion(words, scales)

    def retimed(self) -> tuple[np.ndarray, np.ndarray]:
        """Adds the noise and compresses (section 3.7).

        Returns:
            (starts int64[n_cases], durations int64[n_events]) in microseconds.
        """
        start_noise, noise = self.start_noise(), self.noise()
        starts = self.traces.starts + start_noise
        durations = np.maximum(self.traces.durations + noise, 0)
        decided: CompressionDecision | None = self.batch.decisions.get("compression")
        if decided is None or decided.noised_starts.is_empty:
            return starts, durations
        noised = decided.noised_starts
        known: DafsaDecision = self.batch.decisions["dafsa"]
        first, last = known.log_start_us, known.log_end_us
        compression = self.params.choices.compression
        if compression == "starts":
            low = max(first, min(noised.first_us, last))
            high = min(last, max(noised.last_us, first))
            factor = (high - low) / max(noised.width_us, 1)
            starts = low + _scaled(starts - noised.first_us, factor)
            return np.clip(starts, low, high), durations  # floats are inexact over centuries
        anonymised_range = noised.width_us
        if compression == "shifts":
            anonymised_range = max(abs(noised.first_us), abs(noised.last_us))
        factor = equation_4(last - first, anonymised_range)
        if compression == "equation_4":
            return first + _scaled(starts - first, factor), _scaled(durations, factor)
        starts = self.traces.starts + _scaled(start_noise, factor)
        return starts, np.maximum(self.traces.durations + _scaled(noise, factor), 0)


def equation_4(original_range: int, anonymised_range: int) -> float:
    """The compression factor; 1/4, its value for equal ranges, where both are 0."""
    both = original_range + anonymised_range
    return 0.5 * original_range / both if both else 0.25


def _scaled(values: np.ndarray, factor: float) -> np.ndarray:
    return np.rint(values * factor).astype(np.int64)


class Amun(contract.Anonymizer, name="amun"):
    """The method; see the module."""

    Params: ClassVar[type[AmunParams]] = AmunParams

    def guarantee(self, params: AmunParams) -> Guarantee:
        """Returns the published claim, and why no finite epsilon holds."""
        said = promise(
            self.name,
            params,
            allowed=advantage_of_oversampling(params.epsilon_d),
            needed=epsilon_of_oversampling(params.guessing_advantage),
        )
        return Guarantee.without_epsilon("published", **said)

    def parts(self, params: AmunParams) -> tuple[Part, ...]:
        """Returns the rounds: one more to filter by, and one less without compression."""
        c, given = params.choices, (params,)
        variants = {"variants": Counted(VariantHistogram, _variants, given)}
        times = {"times": Counted(DurationTable, _times, given)}
        is_filtered = params.mode == "filtering"
        filtering = step(
            "prior-knowledge",
            "counts the times of all cases, and drops the cases with P + g >= 1",
            times,
            lambda given: _decide_filter(given, params),
        )
        compression = step(
            "compression",
            f"brings times back towards the public range ({c.compression})",
            {"starts": Counted(StartRange, _noised_starts, given)},
            lambda given: CompressionDecision(given.statistics["starts"]),
        )
        return (
            step(
                "dafsa",
                "counts variants and builds their minimal DAFSA",
                {**variants, "starts": RANGE_OF_STARTS},
                lambda given: _decide_dafsa(given, params),
            ),
            *((filtering,) if is_filtered else ()),
            step(
                "sampling",
                sentence(self.name, "sampling", params),
                {**(variants if is_filtered else {}), **times},
                lambda given: _decide_sampling(given, params),
            ),
            step(
                "selection",
                "chooses which cases those are, by keyed ranks",
                {"ranks": Counted(CaseRanks, _ranks, given)},
                _decide_selection,
            ),
            *(() if c.compression == "none" else (compression,)),
        )

    def costs(self, params: AmunParams) -> tuple[str, ...]:
        """Returns what the profile and the mode cost in cases and in times."""
        # Equation 3 is smallest at the prior (1 - g) / 2, where it is epsilon_d; a time whose prior
        # plus g reaches 1 has the saturated epsilon, and one whose clamped prior is 0 has one of
        # its own. Times of a case that is released c times have c times the noise, and with
        # `correlated_times` all have the longest case's length times it.
        epsilons = [epsilon_of_counts(params.guessing_advantage)]
        if params.choices.saturated_epsilon != "epsilon_d":
            epsilons.append(float(params.choices.saturated_epsilon))
        if params.choices.prior == "clamped":
            epsilons.append(params.zero_prior_epsilon)
        said = {"moves": moves_per_transition(params), "largest": 1 / min(epsilons)}
        parts = ("cost_in_cases", "cost_in_times")
        return tuple(sentence(self.name, part, params, **said) for part in parts)

    def foretells(self, params: AmunParams) -> bool:
        """Returns whether the mode is oversampling, by which a release can grow without bound."""
        return params.mode == "oversampling"

    def foretold(self, variants: VariantHistogram, params: AmunParams) -> tuple[str, ...]:
        """Returns how many cases a release will have."""
        if not variants.n_variants:
            return ()
        growth, most = forecast_size(Dafsa.from_variants(variants), params)
        return (  # without the number of cases: it goes to logs of workers, too
            f"A release would have about {growth:.3g} times the cases of the log; 19 of 20 "
            f"releases have at most {most:.3g} times as many.",
        )

    def apply(
        self,
        traces: TraceBatch,
        decisions: contract.Decisions,
        params: AmunParams,
        randomness: Randomness,
    ) -> TraceBatch:
        """Copies, deletes and re-times the cases of one batch, under new ids."""
        released = Released.of(Batch(traces, decisions, randomness), params)
        starts, durations = released.retimed()
        ids = randomness.words("amun/case-id", released.cells, released.replica)
        return TraceBatch(
            hex_ids(ids),
            released.traces.offsets,
            released.traces.activities,
            cumulated_stamps(starts, durations, released.traces),
            traces.vocabulary,
        )


# --- Rounds -----------------------------------------------------------------------------------


def _decide_dafsa(given: Given, params: AmunParams) -> DafsaDecision:
    variants: VariantHistogram = given.statistics["variants"]
    starts: StartRange = given.statistics["starts"]
    if variants.n_variants == 0:
        raise GuaranteeError("the log has no events, so there is nothing to anonymise")
    first, last = params.log_start, params.log_end
    first_us = starts.first_us if first is None else microseconds_at(first)
    last_us = starts.last_us if last is None else microseconds_at(last)
    if first_us > last_us:
        raise UsageError(
            "log_start and log_end must enclose the log, but all cases start before log_start, "
            "or all after log_end; correct them"
        )
    dafsa = Dafsa.from_variants(variants)
    if params.mode == "oversampling" and params.max_growth is not None:
        # The message does not say by how much: that is a number of the data, which `foretold` shows
        # to the operator alone.
        if forecast_size(dafsa, params)[0] > params.max_growth:
            raise UsageError(
                f"max_growth={params.max_growth:g} is exceeded: the release would have more cases "
                "for each one of the log. Use mode sampling, a larger guessing_advantage or "
                "oversampling_epsilon epsilon_d, or raise max_growth"
            )
    return DafsaDecision(dafsa, first_us, last_us)


def _decide_filter(given: Given, params: AmunParams) -> FilterDecision:
    times: DurationTable = given.statistics["times"]
    dafsa = given.decisions["dafsa"].dafsa
    dropped = prior_of(times, dafsa, params).exceeds(params.guessing_advantage)
    return FilterDecision(times.index(dafsa.n_transitions + 1), dropped)


def _decide_sampling(given: Given, params: AmunParams) -> SamplingDecision:
    dafsa: Dafsa = given.decisions["dafsa"].dafsa
    variants: VariantHistogram = given.statistics.get("variants", dafsa.variants)
    if variants.n_variants == 0:
        raise GuaranteeError(
            "the filter dropped every case: each has a time that is too easy to guess; lower "
            "guessing_advantage or time_precision_us, or use mode sampling"
        )
    counts = dafsa.counts_of(variants)
    times: DurationTable = given.statistics["times"]
    scales = scales_of(times, dafsa, params, longest=int(np.diff(variants.offsets).max()))
    gains, losses = draw_gains_and_losses(dafsa, counts, params, given.randomness)
    index = times.index(dafsa.n_transitions + 1)
    return SamplingDecision(index, scales.astype(np.float32), gains, losses)


def _decide_selection(given: Given) -> SelectionDecision:
    """Chooses the copied and the deleted cases of each variant.

    A copy is of a case drawn uniformly from its variant's, with replacement; a deletion takes any
    of the variant's cases and copies, without replacement.
    """
    ranks: CaseRanks = given.statistics["ranks"]
    sampling: SamplingDecision = given.decisions["sampling"]
    randomness = given.randomness
    variants = np.flatnonzero(sampling.gains + sampling.losses)
    gains, losses = sampling.gains[variants], sampling.losses[variants]
    first = np.searchsorted(ranks.groups, variants)
    n_cases = np.searchsorted(ranks.groups, variants, side="right") - first

    variant_cells = cell_numbers(variants.astype(np.uint64))
    copy_number = ranges(np.zeros(len(variants), np.int64), gains)
    words = randomness.words("amun/copy", np.repeat(variant_cells, gains, axis=0), copy_number)
    copied = np.repeat(first, gains) + below(words[:, 0], np.repeat(n_cases, gains))

    n_instances = n_cases + gains
    instance_offsets = offsets_of(n_instances)
    instance = np.empty(int(instance_offsets[-1]), np.int64)  # position in ranks
    instance[ranges(instance_offsets[:-1], n_cases)] = ranges(first, n_cases)
    instance[ranges(instance_offsets[:-1] + n_cases, gains)] = copied
    number = ranges(np.zeros(len(variants), np.int64), n_instances)
    words = randomness.words("amun/delete", np.repeat(variant_cells, n_instances, axis=0), number)
    row = np.repeat(np.arange(len(variants)), n_instances)
    order = np.lexsort((words[:, 1], words[:, 0], row))
    survives = number >= losses[row]  # in the order of the keyed ranks, the first ones go
    copies = np.bincount(instance[order][survives], minlength=len(ranks.groups))
    changed = copies != 1
    return SelectionDecision(ranks.cases.filter(pa.array(changed)), copies[changed])


# --- What one batch contributes ----------------------------------------------------------------


def _variants(batch: Batch, params: AmunParams) -> VariantHistogram:
    """Variants of all cases, or of those that the filter leaves."""
    return VariantHistogram.from_traces(kept_cases(batch, params))


def _times(batch: Batch, params: AmunParams) -> DurationTable:
    """Relative times per transition and days of the starts, of the cases that the filter leaves."""
    traces = kept_cases(batch, params)
    _, group, ticks = ticks_of(traces, batch.decisions, params)
    return DurationTable.from_events(group, ticks)


def _ranks(batch: Batch, params: AmunParams) -> CaseRanks:
    """Keyed identities of the cases of the variants that gain or lose."""
    traces = kept_cases(batch, params)
    variant, _ = batch.decisions["dafsa"].dafsa.annotate(traces)
    sampling: SamplingDecision = batch.decisions["sampling"]
    moved = (sampling.gains + sampling.losses)[variant] > 0
    chosen = traces.case_ids.filter(pa.array(moved))
    return CaseRanks.of(variant[moved], case_bytes(batch.randomness.identify("case", chosen)))


def _noised_starts(batch: Batch, params: AmunParams) -> StartRange:
    """Range of the starts of the released cases after noise, or of their noise; uncompressed."""
    released = Released.of(batch, params)
    noise = released.start_noise()
    if params.choices.compression == "shifts":
        return StartRange.of(noise)
    return StartRange.of(released.traces.starts + noise)
