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

from datetime import UTC, datetime, timedelta
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.amun.case_moves import (
    draw_gains_and_losses,
    forecast_size,
    moves_per_transition,
)
from tracecloak.anonymizers.amun.params import (
    DAY_US,
    AmunParams,
    CompressionDecision,
    DafsaDecision,
    FilterDecision,
    PriorKnowledge,
    Released,
    SamplingDecision,
    SelectionDecision,
    advantage_of_oversampling,
    epsilon_of_counts,
    epsilon_of_oversampling,
    kept_cases,
    ticks_of,
)
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import RANGE_OF_STARTS, Batch, Counted
from tracecloak.anonymizers.contract.sentences import promise, sentence
from tracecloak.anonymizers.noise.randomness import Randomness, below, cell_numbers, hex_ids
from tracecloak.anonymizers.rigorous.parts_method import Given, Part, step
from tracecloak.schemas.arrays.merging import offsets_of, ranges
from tracecloak.schemas.arrays.sequences import CaseRanks, case_bytes
from tracecloak.schemas.errors import GuaranteeError, UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.manifest import Guarantee
from tracecloak.schemas.statistics.durations import DurationTable
from tracecloak.schemas.statistics.log_times import StartRange, cumulated_stamps
from tracecloak.schemas.statistics.variants import Dafsa, VariantHistogram


@contract.declared("amun")
class Amun(contract.Anonymizer):
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
        return (forecast_size(Dafsa.from_variants(variants), params).sentence,)

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


def _microseconds(stamp: datetime) -> int:
    return (stamp - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


# --- Rounds -----------------------------------------------------------------------------------


def _decide_dafsa(given: Given, params: AmunParams) -> DafsaDecision:
    variants: VariantHistogram = given.statistics["variants"]
    starts: StartRange = given.statistics["starts"]
    if variants.n_variants == 0:
        raise GuaranteeError("the log has no events, so there is nothing to anonymise")
    first, last = params.log_start, params.log_end
    first_us = starts.first_us if first is None else _microseconds(first)
    last_us = starts.last_us if last is None else _microseconds(last)
    if first_us > last_us:
        raise UsageError(
            "log_start and log_end must enclose the log, but all cases start before log_start, "
            "or all after log_end; correct them"
        )
    dafsa = Dafsa.from_variants(variants)
    if params.mode == "oversampling" and params.max_growth is not None:
        # The message does not say by how much: that is a number of the data, which `foretold` shows
        # to the operator alone.
        if forecast_size(dafsa, params).growth > params.max_growth:
            raise UsageError(
                f"max_growth={params.max_growth:g} is exceeded: the release would have more cases "
                "for each one of the log. Use mode sampling, a larger guessing_advantage or "
                "oversampling_epsilon epsilon_d, or raise max_growth"
            )
    return DafsaDecision(dafsa, first_us, last_us)


def _decide_filter(given: Given, params: AmunParams) -> FilterDecision:
    times: DurationTable = given.statistics["times"]
    dafsa = given.decisions["dafsa"].dafsa
    dropped = _prior(times, dafsa, params).exceeds(params.guessing_advantage)
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
    scales = _scales(times, dafsa, params, longest=int(np.diff(variants.offsets).max()))
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


# --- Priors and scales of noise ---------------------------------------------------------------


def _prior(times: DurationTable, dafsa: Dafsa, params: AmunParams) -> PriorKnowledge:
    choices = params.choices
    n_groups = dafsa.n_transitions + 1
    smallest, largest = times.extremes(n_groups)
    widths = largest - smallest
    # Section 3.3: a precision is a share of the range, so at most all of it.
    precision, unit = choices.time_precision_us, choices.time_unit_us
    under, over = np.minimum(-(-precision // unit), widths), np.minimum(precision // unit, widths)
    days = choices.start_precision_days
    reach = 1 / max(int(widths[-1]), 1) if days == "authors" else min(float(days), widths[-1])
    under[-1], over[-1] = int(np.ceil(reach)), int(np.floor(reach))
    clamped = np.full(n_groups, choices.prior == "clamped")
    clamped[-1] = False
    return PriorKnowledge.of(times, under, over, clamped)


def _scales(times: DurationTable, dafsa: Dafsa, params: AmunParams, longest: int) -> np.ndarray:
    choices = params.choices
    g = params.guessing_advantage
    prior = _prior(times, dafsa, params)
    saturated = choices.saturated_epsilon
    epsilons = prior.epsilons(
        g,
        epsilon_of_counts(g) if saturated == "epsilon_d" else float(saturated),
        params.zero_prior_epsilon,
    )
    if params.correlated_times:
        epsilons = epsilons / longest
    tick = np.where(times.groups == dafsa.n_transitions, DAY_US, choices.time_unit_us)
    return prior.widths * tick / epsilons


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
