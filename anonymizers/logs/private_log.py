"""`private-log`: a whole log with times and attributes, (epsilon, delta) for everything in it.

Nothing of any case is copied. Variants come from a generator (anonymizers.variants.generator), as
many cases of them as a noisy number says; starts from noisy histograms over calendar buckets, the
times between events from noisy histograms by pair of activities, attributes from noisy marginals by
activity. Each spends its own share of epsilon and delta, and so does whatever is not public and
must be chosen on the log: vocabulary, length, range of time, clip. Given the variants, times and
attributes are drawn independently of each other: what they have in common is not kept.

Three rounds: what is bought without looking at anything else, with the number of cases; the clip;
and everything that is released.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from tracecloak.anonymizers import contract
from tracecloak.anonymizers.accounting.calibration import laplace_interval, laplace_scale
from tracecloak.anonymizers.accounting.composition import Mechanism, Spend, decimal_text
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.contract.bounding import ContributionBounds
from tracecloak.anonymizers.logs.attributes import (
    UNITS,
    AttributeCounter,
    AttributeDecision,
    attribute_noise,
    attribute_of_traces,
    attribute_spend,
    decide_attribute,
)
from tracecloak.anonymizers.logs.case_spans import (
    CaseSpans,
    SpansDecision,
    decide_spans,
    spans_scale,
)
from tracecloak.anonymizers.logs.case_starts import (
    CaseStarts,
    StartsDecision,
    decide_starts,
    starts_scale,
)
from tracecloak.anonymizers.logs.generated_times import timed
from tracecloak.anonymizers.logs.params import PrivateLogParams
from tracecloak.anonymizers.logs.step_durations import (
    DurationsDecision,
    StepDurations,
    StepNorms,
    decide_durations,
    durations_noise,
    whole_norm,
)
from tracecloak.anonymizers.logs.time_range import (
    MonthsOfCases,
    TimeRangeDecision,
    choose_time_range,
)
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_sums
from tracecloak.anonymizers.rigorous.bought import (
    ActivitiesOfCases,
    LengthDecision,
    LengthsOfCases,
    VocabularyDecision,
    choose_clip,
    choose_length,
    choose_vocabulary,
    in_vocabulary,
    norm_grid,
    vocabulary_scale,
    vocabulary_threshold,
    within_length,
)
from tracecloak.anonymizers.rigorous.params import drawable, guarantee_of
from tracecloak.anonymizers.rigorous.sum_noise import laplace_sums
from tracecloak.anonymizers.variants.generator import Domain, log_of
from tracecloak.schemas.events.attributes import Attribute
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.guarantee import Guarantee
from tracecloak.schemas.published.manifest import Operation
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.lengths import TraceLengths
from tracecloak.schemas.statistics.variants import VariantHistogram

KNOWN, CLIP, LOG = "known", "clip", "log"
# Cases that are released at most where no max_cases is declared: at a tiny epsilon the noise could
# ask for more than there is room for.
_MOST_CASES = 10_000_000
# `gaussian_scale` rounds up to 8 digits, by at most 1e-7; twice that covers what is rounded.
_SCALE_ROUNDING = Fraction(2, 10**7)


@dataclass(frozen=True)
class KnownDecision(contract.Decision):
    """What is known of the log before anything else is counted: paid for, each part of it.

    Attributes:
        vocabulary: The activities, or None if they are public.
        length: The length at which cases are cut, or None.
        time_range: The range of time, or None.
        n_cases: Cases to release; None where the variants decide.
    """

    vocabulary: VocabularyDecision | None
    length: LengthDecision | None
    time_range: TimeRangeDecision | None
    n_cases: int | None


@dataclass(frozen=True)
class ClipDecision(contract.Decision):
    """The clip that was bought.

    Attributes:
        clip_units: In lattice steps.
    """

    clip_units: int


@dataclass(frozen=True)
class LogDecision(contract.Decision):
    """What cases are made of.

    Attributes:
        variants: The variants, each with its number of released cases.
        durations: What times between events are drawn from; None without times.
        spans: What times of whole cases are drawn from; None without times.
        starts: What starts are drawn from; None without times.
        attributes: How each attribute is distributed, by name.
    """

    variants: ReleasedVariants
    durations: DurationsDecision | None
    spans: SpansDecision | None
    starts: StartsDecision | None
    attributes: dict[str, AttributeDecision]


def _unfolded(decisions: contract.Decisions) -> dict[str, Any]:
    """The bought parts as rounds of their own, as the counters look for them."""
    known = decisions.get(KNOWN)
    parts = dict(decisions)
    for name in ("vocabulary", "length", "time_range"):
        part = getattr(known, name, None)
        if part is not None:
            parts[name] = part
    return parts


@dataclass(frozen=True)
class _Knowing:
    """A counter that is told what was bought."""

    counter: contract.Counter

    @property
    def kind(self) -> Any:
        """The statistic's type."""
        return self.counter.kind

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> Any:
        """Counts a batch."""
        return self.counter.count(traces, _unfolded(decisions), randomness)

    def reads(self, decisions: contract.Decisions) -> contract.Decisions:
        """Returns what of the decisions a count can depend on: not the number of cases."""
        return {name: part for name, part in _unfolded(decisions).items() if name != KNOWN}


@dataclass(frozen=True)
class _Variants:
    """Cases by variant, over the vocabulary and within the length that were decided."""

    kind: ClassVar[type[VariantHistogram]] = VariantHistogram

    def count(
        self, traces: TraceBatch, decisions: contract.Decisions, randomness: Randomness
    ) -> VariantHistogram:
        return VariantHistogram.from_traces(
            within_length(in_vocabulary(traces, decisions), decisions)
        )


class PrivateLog(contract.Anonymizer):
    """The method; see the module."""

    name: ClassVar[str] = "private-log"
    summary: ClassVar[str] = "a log with times and attributes, drawn from noisy counts (rigorous)"
    log: ClassVar[Literal["generated"]] = "generated"
    Params: ClassVar[type[PrivateLogParams]] = PrivateLogParams
    operations: ClassVar[tuple[Operation, ...]] = (
        Operation("substitution", "case", "concept:name"),
        Operation("substitution", "case", "case"),
        Operation("substitution", "event", "time:timestamp"),
    )
    exact_noise: ClassVar[bool] = True
    sums: ClassVar[Literal["none", "released", "pairs", "cells"]] = "cells"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {
            "epsilon": "1",
            "vocabulary": ("A", "B", "C"),
            "max_trace_length": 4,
            "first_date": "2020-01-01",
            "last_date": "2020-12-31",
            "l2_clip": "4",
            "n_duration_bins": 4,
            "attributes": {"org:resource": {"values": ["R1", "R2"]}},
        },
        {"epsilon": "40", "delta": "1e-5", "n_duration_bins": 4},
        {
            "epsilon": "4",
            "delta": "0",
            "vocabulary": ("A", "B"),
            "max_trace_length": 3,
            "max_cases_per_individual": 2,
            "n_duration_bins": 4,
            "attributes": {"case:age": {"bounds": [0, 100], "n_bins": 2, "whole": True}},
        },
        {"epsilon": "2", "vocabulary": ("A", "B"), "max_trace_length": 4, "products": "variants"},
    )

    def bounds(self, params: PrivateLogParams) -> ContributionBounds:
        """Returns the public caps."""
        return params.bounds

    def attributes(self, params: PrivateLogParams) -> tuple[Attribute, ...]:
        """Returns the declared attributes."""
        return params.declared

    def rounds(self, params: PrivateLogParams) -> tuple[str, ...]:
        """Returns the rounds, those that have something to do."""
        known = [KNOWN] if params.is_timed or set(params.bought) - {CLIP} else []
        return (*known, *([CLIP] if params.buys_clip else []), LOG)

    def spends(self, params: PrivateLogParams) -> tuple[Spend, ...]:
        """Returns the parts.

        Raises:
            UsageError: Noise as wide as some part may need cannot be drawn.
        """
        parts: list[Spend] = []
        units = params.max_units
        attributes = {f"attribute {a.name}": a for a in params.declared}
        for name, (epsilon, delta) in params.shares.items():
            if name == "vocabulary":
                vocabulary_scale(epsilon, delta, params.max_activities, units)
                parts.append(Spend(name, "approximate", epsilon, delta))
            elif name in ("length", "time_range", "clip"):
                parts.append(Spend(name, "pure", epsilon, delta))
            elif name == "sizes":
                scale = drawable(laplace_scale(epsilon, of_one_cell(units)))
                parts.append(Spend(name, "discrete_laplace", epsilon, delta, scale, units))
            elif name == "starts":
                scale = starts_scale(epsilon, units)
                parts.append(Spend(name, "discrete_laplace", epsilon, delta, scale, 2 * units))
            elif name == "spans":
                scale, sensitivity = spans_scale(epsilon, units), 2 * units
                parts.append(Spend(name, "discrete_laplace", epsilon, delta, scale, sensitivity))
            elif name == "durations":
                parts.append(self._durations_spend(params, epsilon, delta))
            elif name in attributes:
                clip = _clip_units(params)
                parts.append(attribute_spend(attributes[name], epsilon, delta, clip, units))
            else:
                parts.extend(params.generator.spends(epsilon, delta, units))
        return tuple(parts)

    def _durations_spend(
        self, params: PrivateLogParams, epsilon: Fraction, delta: Fraction
    ) -> Spend:
        clip = _durations_clip(params, {})
        kind: Mechanism = "discrete_laplace" if delta == 0 else "discrete_gaussian"
        sensitivity = Fraction((UNITS if clip is None else clip) * params.max_units)
        if clip is None:  # of a bought clip the ratio of scale to sensitivity is known beforehand
            sensitivity *= 1 + _SCALE_ROUNDING
            largest = int(np.sqrt(norm_grid()[-1])) + 1
            durations_noise(epsilon, delta, largest * UNITS, params.max_units)  # or is refused
        noise = durations_noise(epsilon, delta, UNITS if clip is None else clip, params.max_units)
        return Spend("durations", kind, epsilon, delta, noise.scale, sensitivity)

    def guarantee(self, params: PrivateLogParams) -> Guarantee:
        """Returns the promise."""
        bought = [name.replace("_", " ") for name in params.bought]
        timed = (
            "All counts that times, sizes and attributes are drawn from have exact noise that "
            "covers what one case changes; nothing of a case is copied. "
        )
        return guarantee_of(
            params,
            self.spends(params),
            (timed if params.is_timed else "")
            + params.generator.reality
            + (f" Chosen on the log and paid for: {', '.join(bought)}." if bought else ""),
            "What is given as a parameter is taken to be public.",
        )

    def explain(self, params: PrivateLogParams) -> tuple[str, ...]:
        """Returns a sentence for each part, and the error to expect."""
        return tuple(
            f"{name}: {self._sentence(name, params, epsilon, delta)}; spends epsilon "
            f"{decimal_text(epsilon)}, delta {decimal_text(delta)}"
            for name, (epsilon, delta) in params.shares.items()
        )

    def _sentence(
        self, name: str, params: PrivateLogParams, epsilon: Fraction, delta: Fraction
    ) -> str:
        units = params.max_units
        if name == "vocabulary":
            least = vocabulary_threshold(epsilon, delta, params.max_activities, units)
            return f"chooses activities of about {least:,} cases or more"
        if name == "length":
            share = decimal_text(Fraction(params.length_quantile))
            return f"chooses the length that about a share of {share} of the cases does not exceed"
        if name == "time_range":
            return "chooses a range of months around most cases, and half of it more"
        if name == "clip":
            share = decimal_text(Fraction(params.clip_quantile))
            return f"chooses the norm that about a share of {share} of the cases reaches"
        if name == "sizes":
            within = laplace_interval(Fraction(*laplace_scale(epsilon, of_one_cell(units))))
            return f"releases as many cases as the log has, within {within:,} (95 %)"
        if name == "variants":
            return params.generator.explain(epsilon, delta, units)
        if name == "starts":
            within = laplace_interval(Fraction(*starts_scale(epsilon, units)))
            return (
                "counts starts by date and by hour of the week, in buckets as wide as the number "
                f"of cases asks for; each within {within:,} cases (95 %)"
            )
        if name == "spans":
            within = laplace_interval(Fraction(*spans_scale(epsilon, units)))
            return f"counts cases by time from first to last event, each within {within:,} (95 %)"
        clip = _durations_clip(params, {})
        if name.startswith("attribute case:"):
            within = laplace_interval(Fraction(*laplace_scale(epsilon, of_one_cell(units))))
            return f"counts cases by first activity and value, each within {within:,} (95 %)"
        what = "steps by pair of activities and time"
        if name != "durations":
            what, clip = "events by activity and value", _clip_units(params)
        if clip is None:
            fine = durations_noise(epsilon, delta, UNITS, units)
            return f"counts {what}, with noise of {fine.width / UNITS:.1f} times the bought clip"
        noise = durations_noise(epsilon, delta, clip, units)
        return f"counts {what}, each within {noise.half_width:,} of the sum (95 %)"

    def requires(self, round_name: str, params: PrivateLogParams) -> Mapping[str, contract.Counter]:
        """Returns the counters of a round."""
        if round_name == KNOWN:
            counters: dict[str, contract.Counter] = {"lengths": LengthsOfCases()}
            if "vocabulary" in params.bought:
                counters["activities"] = ActivitiesOfCases(params.max_activities)
            if "time_range" in params.bought:
                counters["months"] = MonthsOfCases(params.calendar_time_zone)
            return counters
        if round_name == CLIP:
            return {"norms": _Knowing(StepNorms(params.log_time, params.n_duration_bins))}
        needed: dict[str, contract.Counter] = {"variants": _Variants()}
        if params.is_timed:
            clip = _durations_clip(params, {})
            is_pure = params.delta == 0
            needed["durations"] = StepDurations(
                params.log_time,
                params.n_duration_bins,
                CLIP if clip is None else clip,
                1 if is_pure else UNITS,
            )
            needed["spans"] = CaseSpans(params.log_time)
            needed["starts"] = CaseStarts(params.log_time)
            for attribute in params.declared:
                needed[attribute.name] = AttributeCounter(attribute, is_pure, _clip_units(params))
        return {name: _Knowing(counter) for name, counter in needed.items()}

    def decide(
        self,
        round_name: str,
        statistics: Mapping[str, Any],
        decisions: contract.Decisions,
        params: PrivateLogParams,
        randomness: Randomness,
    ) -> contract.Decision:
        """Decides a round.

        Raises:
            UsageError: A bought vocabulary has too many cells.
        """
        if round_name == KNOWN:
            return self._decide_known(statistics, params, randomness)
        if round_name == CLIP:
            quantile = Fraction(params.clip_quantile)
            clip = choose_clip(
                statistics["norms"],
                params.shares["clip"][0],
                quantile,
                params.max_units,
                randomness,
            )
            return ClipDecision(int(clip * UNITS))
        return self._decide_log(statistics, _unfolded(decisions), params, randomness)

    def _decide_known(
        self, statistics: Mapping[str, Any], params: PrivateLogParams, randomness: Randomness
    ) -> KnownDecision:
        units, shares = params.max_units, params.shares
        vocabulary = length = span = n_cases = None
        lengths: TraceLengths = statistics["lengths"]
        if "vocabulary" in shares:
            vocabulary = choose_vocabulary(
                statistics["activities"],
                *shares["vocabulary"],
                params.max_activities,
                units,
                randomness,
            )
        if "length" in shares:
            quantile = Fraction(params.length_quantile)
            length = choose_length(lengths, shares["length"][0], quantile, units, randomness)
        if "time_range" in shares:
            calendar = params.log_time.calendar
            span = choose_time_range(
                statistics["months"], shares["time_range"][0], units, calendar, randomness
            )
        if "sizes" in shares:
            noise = laplace_sums(shares["sizes"][0], of_one_cell(units))
            exact, cell = np.array([lengths.n_cases], np.int64), np.zeros(1, np.int64)
            n_cases = int(noisy_sums(exact, noise, "number of cases", cell, randomness)[0])
            n_cases = max(n_cases, 0)
        return KnownDecision(vocabulary, length, span, n_cases)

    def _decide_log(
        self,
        statistics: Mapping[str, Any],
        decisions: Mapping[str, Any],
        params: PrivateLogParams,
        randomness: Randomness,
    ) -> LogDecision:
        units, shares = params.max_units, params.shares
        vocabulary = _vocabulary(decisions, params)
        length = params.max_trace_length or decisions["length"].max_trace_length
        variants = params.generator.answer(
            statistics["variants"],
            Domain(vocabulary, length, units),
            *shares["variants"],
            randomness,
        )
        most = params.max_cases or _MOST_CASES
        if not params.is_timed:
            return LogDecision(variants.resized(min(variants.n_cases, most)), None, None, None, {})
        n_cases = decisions[KNOWN].n_cases
        clip = _durations_clip(params, decisions)
        assert clip is not None
        noise = durations_noise(*shares["durations"], clip, units)
        time = params.log_time.working_time(decisions)
        durations = decide_durations(
            statistics["durations"],
            vocabulary,
            params.n_duration_bins,
            time.total_us,
            noise,
            randomness,
        )
        epsilon, _ = shares["spans"]
        spans = decide_spans(
            statistics["spans"], vocabulary, time.total_us, epsilon, units, randomness
        )
        epsilon, _ = shares["starts"]
        starts = decide_starts(statistics["starts"], time, n_cases, epsilon, units, randomness)
        attributes = {}
        for attribute in params.declared:
            of_cells = self._attribute_noise(attribute, params, decisions)
            attributes[attribute.name] = decide_attribute(
                attribute, statistics[attribute.name], len(vocabulary), of_cells, randomness
            )
        resized = variants.resized(min(n_cases, most))
        return LogDecision(resized, durations, spans, starts, attributes)

    def _attribute_noise(
        self, attribute: Attribute, params: PrivateLogParams, decisions: Mapping[str, Any]
    ) -> SumNoise:
        epsilon, delta = params.shares[f"attribute {attribute.name}"]
        clip = _clip_units(params)
        if clip is None and not attribute.is_of_case:
            clip = decisions[CLIP].clip_units
        return attribute_noise(attribute, epsilon, delta, clip, params.max_units)

    def writes(self, params: PrivateLogParams) -> tuple[str, ...]:
        """Returns the name of the product."""
        return () if params.is_timed else ("variants",)

    def products(
        self, decisions: contract.Decisions, params: PrivateLogParams
    ) -> contract.Products:
        """Returns the variants, where they are all that is released."""
        if params.is_timed:
            return contract.Products({})
        return contract.Products({"variants": decisions[LOG].variants})

    def generate(
        self,
        piece: int,
        n_pieces: int,
        decisions: contract.Decisions,
        params: PrivateLogParams,
        randomness: Randomness,
    ) -> TraceBatch:
        """Returns every `n_pieces`-th of the released cases."""
        decided: LogDecision = decisions[LOG]
        traces = log_of(decided.variants, piece, n_pieces, randomness)
        if decided.starts is None or decided.durations is None or decided.spans is None:
            return traces
        cases = np.arange(piece, decided.variants.n_cases, n_pieces, dtype=np.int64)
        traces = traces.recode(_vocabulary(_unfolded(decisions), params))
        traces = timed(traces, cases, decided.starts, decided.durations, decided.spans, randomness)
        values = {
            attribute.name: attribute_of_traces(
                decided.attributes[attribute.name], attribute, traces, cases, randomness
            )
            for attribute in params.declared
        }
        return replace(traces, attributes=values)


def _vocabulary(decisions: Mapping[str, Any], params: PrivateLogParams) -> ActivityVocabulary:
    if params.vocabulary is not None:
        return ActivityVocabulary.public(params.vocabulary)
    bought: VocabularyDecision = decisions["vocabulary"]
    return bought.vocabulary


def _clip_units(params: PrivateLogParams) -> int | None:
    """What attributes of events are clipped at: at delta 0 events, else the public clip or None."""
    return params.max_trace_length if params.delta == 0 else params.public_clip_units


def _durations_clip(params: PrivateLogParams, decisions: Mapping[str, Any]) -> int | None:
    """What steps are clipped at, in lattice steps; None while it is to be bought."""
    if params.delta == 0:
        assert params.max_trace_length is not None
        return whole_norm(params.max_trace_length)
    if params.public_clip_units is not None:
        return params.public_clip_units
    return decisions[CLIP].clip_units if CLIP in decisions else None
