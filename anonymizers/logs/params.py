"""How many cases are released: about as many as the log has, with noise.

A case adds 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal

import numpy as np
import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.contract.sentences import told
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_sums, note
from tracecloak.anonymizers.rigorous.bought import LENGTHS_OF_CASES, length_part, vocabulary_part
from tracecloak.anonymizers.rigorous.budget import UNITS, Budget, Sums
from tracecloak.anonymizers.rigorous.clips import RANKS_SHARE
from tracecloak.anonymizers.rigorous.names import GroupedParams, excess_of_names
from tracecloak.anonymizers.rigorous.params import (
    LONGEST_CASE,
    VOCABULARY_SHARE,
    DateText,
    Exact,
    RigorousParams,
)
from tracecloak.anonymizers.rigorous.parts_method import Given, Part, budget_of_parts, noisy_part
from tracecloak.anonymizers.times import step_durations
from tracecloak.anonymizers.times.case_classes import BY_ACTIVITY, Detail, times_by
from tracecloak.anonymizers.times.case_spans import granularity_part, pair_times_part, spans_part
from tracecloak.anonymizers.times.case_starts import starts_part
from tracecloak.anonymizers.times.case_times import n_periods_of, tables_part
from tracecloak.anonymizers.times.time_bins import MIN_BINS, MOST_BINS, TimeBins, n_bins_of
from tracecloak.anonymizers.times.time_range import LogTime, TimeRange, time_range_part
from tracecloak.anonymizers.variants.generator import (
    VariantGenerator,
    variants_part,
)
from tracecloak.schemas.calendar.working_time import Granularity, WorkingCalendar
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.declarations import Attribute, HandoverDeclarations, declared
from tracecloak.schemas.plugins import NotOfferedError, Plugins
from tracecloak.schemas.published.figures import CASES

# --- How many cases are released: about as many as the log has, with noise. -----------------------


def sizes_part(params: RigorousParams, share: Fraction, round_name: str) -> Part:
    """Returns the part of `private-log`; it decides a whole number of cases, at least 0."""

    def decide(given: Given, noise: SumNoise) -> int:
        exact = np.array([given.statistics["lengths"].n_cases * noise.units], np.int64)
        cell = np.zeros(1, np.int64)
        noisy = noisy_sums(exact, noise, "number of cases", cell, given.randomness)
        number = noisy / noise.units
        note(given.randomness, CASES, lambda: [("sizes",)], number, noise.deviation)
        return max(round(float(number[0])), 0)

    return noisy_part(
        Sums("sizes", share, of_one_cell(params.max_units)),
        {"lengths": LENGTHS_OF_CASES},
        told("private-log", "sizes", params),
        decide,
        round_name,
    )


# --- The parameters of `private-log` and how they divide the budget. ------------------------------


GENERATORS: Plugins[VariantGenerator] = Plugins(
    "variants",
    "tracecloak.generators",
    {
        "variant-histogram": "tracecloak.anonymizers.variants.generator:StableVariants",
        "sparse-histogram": "tracecloak.anonymizers.variants.sparse_histogram:SparseHistogram",
        "privtree": "tracecloak.anonymizers.variants.privtree:PrivTree",
        "markov-log": "tracecloak.anonymizers.variants.markov:MarkovVariants",
        "markov-log-pure": "tracecloak.anonymizers.variants.markov:MarkovVariantsPure",
        "joint-variants": "tracecloak.anonymizers.variants.joint_variants:JointVariants",
    },
    make=lambda kind: kind(),
    removed={"hybrid-log": "joint-variants", "prefix-tree": "joint-variants or privtree"},
    own_name="name",
)

# The first round counts what must be known before anything else. The second one chooses the clip
# and counts the variants, when cases start and how long they take. The third one counts all that
# depends on these.
KNOWN, CLIP, LOG = ROUNDS = ("known", "clip", "log")

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
_DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOURS = re.compile(r"^(\d{1,2})-(\d{1,2})$")


def _listed(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _texts(value: Any) -> Any:
    """YAML reads an unquoted date as one."""
    listed = _listed(value)
    return tuple(str(item) for item in listed) if isinstance(listed, list | tuple) else listed


def _weights(value: Any) -> Any:
    """`variants=0.5,starts=0.2` as a flag."""
    if not isinstance(value, str):
        return value
    parts = [part.partition("=") for part in value.split(",") if part.strip()]
    return {name.strip(): weight.strip() for name, _, weight in parts}


class PrivateLogParams(GroupedParams):
    """Parameters of `private-log`."""

    products: Literal["log", "variants"] = "log"
    """log: a log with times, and attributes if any are declared. variants: all of the budget is for
    the variants, whose log has positions for times."""
    variants: str = "auto"
    """How variants are made: a method that releases variants, or auto: auto-variants, and at delta
    0 privtree."""
    length_quantile: Exact = Field(default=Decimal("0.95"), gt=0, lt=1, decimal_places=3)
    """Share of the cases that a bought max_trace_length shall not cut, at most three decimals. One
    is bought where variants are made by a method that needs a length, such as privtree."""
    first_date: DateText | None = None
    """First date of the log, public, such as 2026-01-01; without it the range of time is bought."""
    last_date: DateText | None = None
    """Last date of the log, public; every released stamp lies in the range. Without it, as without
    first_date, the range is bought."""
    calendar_time_zone: str = "UTC"
    """IANA time zone of dates, hours and weekdays; public."""
    working_days: Annotated[tuple[Day, ...] | None, pydantic.BeforeValidator(_listed)] = None
    """Days of the week on which work is done, public, such as mon,tue,wed,thu,fri; by default every
    day. Times are counted in working time, and every released stamp lies in it, but those of
    which only the date is released stand at midnight."""
    working_hours: str | None = None
    """Hours between which it is done, such as 8-18; by default all."""
    holidays: Annotated[tuple[str, ...], pydantic.BeforeValidator(_texts)] = ()
    """Dates without work, such as 2026-12-25; by default none."""
    granularity: Granularity | None = None
    """How fine stamps are, public: microsecond, millisecond, second, minute, hour or day. All that
    are released are whole multiples of it by the clock of calendar_time_zone. By default it is
    bought."""
    service_times: bool = False
    """Whether it is released how long events are worked on, and not only when they end. Follows
    from start_timestamp and lifecycle; events without a start have none in the release either."""
    n_duration_bins: int | None = Field(default=None, ge=MIN_BINS, le=200)
    """Bins of the time between two events: none, then evenly in the logarithm up to the length of
    the range. More are finer and have more noise. By default 12 to 48, by the noisy number of
    cases."""
    times_by: Literal["auto", "activity", "case"] = "auto"
    """activity: times are counted by pair of activities and by variant. case: of all cases alike,
    and the variants have what that leaves of the budget. auto: by activity, unless more than a
    hundred activities are declared, or expected_cases is, and noise would hide the times of most
    pairs."""
    l2_clip: Exact | None = Field(default=None, ge=1, le=100_000)
    """Largest L2 norm of one case's counts of steps and of values, public; a case beyond it weighs
    less. Without it, one is bought that takes about as much from the counts as noise adds, with a
    twentieth of what they have. Noise is proportional to it."""
    attributes: HandoverDeclarations = Field(default_factory=dict)
    """Attributes to release, by name, each with all its values or its bounds; a name that begins
    with case: is one of the case. With handovers: true the log keeps which value of events follows
    which, for attributes of events with values. By default none is released."""
    budget_split: Annotated[dict[str, Exact], pydantic.BeforeValidator(_weights)] = Field(
        default_factory=dict
    )
    """Weights of the parts, as a flag also variants=0.5,starts=0.2. By default variants 0.4,
    durations (between events) 0.25, pair times (sums of these) 0.16, spans (of whole cases) 0.18,
    starts 0.12, tables (of both by variant) 0.15, sizes 0.02, attributes (all together) 0.2,
    service times (where events have starts) 0.15,
    handovers (where declared) 0.1, and where they are bought, granularity 0.02 and
    vocabulary 0.15. Where times are counted by case: variants 0.5, spans 0.24, pair times 0.14,
    starts 0.05, durations 0.03, no tables, and the others as before.
    With delta 0 they divide epsilon, else a Gaussian budget. A length that is bought has 0.03 of
    that, too, and a bought range of time takes 0.05 of epsilon."""

    # The same calendar must give the same text, since releases are told apart by it.

    @pydantic.field_validator("working_days")
    @classmethod
    def _days_in_order(cls, days: tuple[Day, ...] | None) -> tuple[Day, ...] | None:
        known = tuple(day for day in _DAYS if day in (days or _DAYS))
        return None if known == _DAYS else known

    @pydantic.field_validator("working_hours")
    @classmethod
    def _hours_as_numbers(cls, hours: str | None) -> str | None:
        match = _HOURS.match(hours or "")
        text = f"{int(match[1])}-{int(match[2])}" if match else hours
        return None if text == "0-24" else text

    @pydantic.field_validator("holidays")
    @classmethod
    def _holidays_in_order(cls, dates: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(dates)))

    @pydantic.model_validator(mode="after")
    def _check(self) -> PrivateLogParams:
        if self.variants != "auto" and self.variants not in GENERATORS:
            raise NotOfferedError(GENERATORS.why_not(self.variants, "auto"))
        if self.grouping is not None and self.variants not in ("auto", "joint-variants"):
            raise ValueError(
                "groups are counted by joint-variants: leave variants out, or take that one"
            )
        if self.delta == 0:
            self._check_pure()
        if (self.first_date is None) != (self.last_date is None):
            raise ValueError("first_date and last_date go together")
        for name, weight in self.budget_split.items():
            if name not in default_split():
                raise ValueError(
                    f"budget_split has parts {', '.join(default_split())}, not {name!r}"
                )
            if not weight > 0:
                raise ValueError(f"budget_split: the weight of {name} must be above 0")
        others = self.attributes or self.budget_split or self.service_times
        if self.products == "variants" and others:
            raise ValueError("attributes, service_times and budget_split are for products: log")
        try:
            _ = self.log_time
        except UsageError as error:
            raise ValueError(str(error)) from None
        if self.split["variants"] < sum(self.split.values(), Fraction(0)) / 1000:
            raise ValueError("budget_split leaves too little for the variants: raise their weight")
        if self.n_words is not None and self.is_timed:
            n_names = 1 if self.detail.is_of_all else self.n_words
            most = step_durations.most_names_of_durations(self.most_bins)
            if excess := excess_of_names(n_names, most, self.most_bins):
                raise ValueError(excess)
            if self.handed_over:
                from tracecloak.anonymizers.logs.attributes import excess_of_handovers

                for attribute in self.handed_over:
                    if excess := excess_of_handovers(attribute, self.n_words):
                        raise ValueError(excess)
        if excess := excess_of_names(self.n_words, self.generator.most_names):
            raise ValueError(f"{self.generator.name}: {excess}")
        self.check_names()
        return self

    @property
    def longest_case(self) -> int | None:
        """Events of a case that can count, public; None: as many as are bought."""
        if self.max_trace_length is None and self.generator.takes_whole_cases:
            return LONGEST_CASE
        return self.max_trace_length

    def _check_pure(self) -> None:
        if not self.generator.is_pure:
            names = ", ".join(["auto", *sorted(n for n, g in GENERATORS.items() if g.is_pure)])
            raise ValueError(f"variants must work without delta where it is 0: take one of {names}")
        if self.max_trace_length is None:
            raise ValueError("delta 0 needs a public max_trace_length")
        if self.l2_clip is not None:
            raise ValueError("l2_clip is for delta above 0; with delta 0 leave it out")

    @property
    def is_timed(self) -> bool:
        """Whether a log with times is released, and not its variants alone."""
        return self.products == "log"

    @property
    def shows_sums(self) -> bool:
        """Whether the noisy sums are released, from which figures and a graph of groups follow."""
        return self.is_timed or self.grouping is not None

    @property
    def generator(self) -> VariantGenerator:
        """What makes the variants."""
        if self.grouping is not None:
            from tracecloak.anonymizers.variants.grouped_variants import GroupedVariants

            return GroupedVariants(self.grouping)
        if self.variants == "auto":
            if self.delta == 0:
                return GENERATORS["privtree"]
            if self.is_timed:
                return GENERATORS["joint-variants"]  # what auto takes where times are counted, too
            from tracecloak.anonymizers.variants.auto import AutoVariants  # loaded on use

            return AutoVariants()
        return GENERATORS[self.variants]

    @property
    def most_names(self) -> int | None:
        """Activities, OTHER included, that all parts can count by; None: any number."""
        by_pair = self.is_timed and not self.detail.is_of_all
        durations = step_durations.most_names_of_durations(self.most_bins) if by_pair else None
        each = [self.generator.most_names, durations]
        if self.handed_over:
            from tracecloak.anonymizers.logs.attributes import most_names_of_handovers

            each += map(most_names_of_handovers, self.handed_over)
        return min((most for most in each if most is not None), default=None)

    @property
    def most_bins(self) -> int:
        """Bins of the time between two events that there can be."""
        return self.n_duration_bins or MOST_BINS

    def time_bins(self, n_cases: int) -> TimeBins:
        """Returns how many bins times are counted in, for a noisy number of cases."""
        means = self.spending.means
        steps, spans = (
            n_bins_of(n_cases, means[name], self.max_units, is_of_cases=name == "spans")
            for name in ("durations", "spans")
        )
        return TimeBins(self.n_duration_bins or steps, spans)

    def n_periods(self, n_cases: int) -> int:
        """Returns in how many periods starts are tied to variants, for a noisy number of cases."""
        if self.detail.is_of_all:
            return 1
        return n_periods_of(n_cases, self.spending.means["tables"], self.max_units)

    @property
    def log_time(self) -> LogTime:
        """When the log takes place.

        Raises:
            UsageError: The dates, the zone or the working time make no sense.
        """
        hours = _HOURS.match(self.working_hours or "0-24")
        if hours is None:
            raise UsageError(f"working_hours must be like 8-18, got {self.working_hours!r}")
        calendar = WorkingCalendar(
            self.calendar_time_zone,
            tuple(sorted({_DAYS.index(day) for day in self.working_days or _DAYS})),
            int(hours[1]),
            int(hours[2]),
            self.holidays,
        )
        span = None
        if self.first_date is not None and self.last_date is not None:
            span = TimeRange.from_dates(self.first_date, self.last_date, self.calendar_time_zone)
        return LogTime(calendar, span, self.granularity)

    @property
    def declared(self) -> tuple[Attribute, ...]:
        """The declared attributes."""
        if not self.attributes:
            return ()
        return declared(self.attributes)

    @property
    def handed_over(self) -> tuple[Attribute, ...]:
        """Those of which it is kept which value follows which."""
        return tuple(attribute for attribute in self.declared if attribute.has_handovers)

    @property
    def buys_clip(self) -> bool:
        """Whether the clip is chosen on the log, and paid for."""
        return self.is_timed and self.delta > 0 and self.l2_clip is None

    @property
    def public_clip_units(self) -> int | None:
        """The clip where it is public: an L2 norm in lattice steps; None at delta 0 as well."""
        return None if self.l2_clip is None else int(Fraction(self.l2_clip) * UNITS)

    @property
    def detail(self) -> Detail:
        """By what times are counted; follows from public numbers."""
        return Detail(self._times_by(None) if self.times_by == "auto" else self.times_by)

    def _times_by(self, n_cases: int | None) -> Literal["activity", "case"]:
        if self.n_words is None or self.delta == 0:
            return "activity"
        return times_by(self.n_words, n_cases, self.max_trace_length, self.budget, self.max_units)

    def expecting(self, n_cases: int) -> PrivateLogParams:
        """Returns the parameters for a declared number of cases, which decides on the times.

        Raises:
            pydantic.ValidationError: That way to count times takes no such parameters.
        """
        by = self._times_by(n_cases)
        if self.times_by != "auto" or by == self.detail.by:
            return self
        # Made anew, so that what holds for the one way to count times is checked.
        return type(self)(**{**self.resolved(), "times_by": by})

    @property
    def split(self) -> dict[str, Fraction]:
        """The weights in effect."""
        return {
            **default_split(self.detail),
            **{n: Fraction(w) for n, w in self.budget_split.items()},
        }

    @property
    def parts(self) -> tuple[Part, ...]:
        """What the budget is divided among, and in which rounds."""
        return tuple(replace(part, round=part.round or LOG) for part in _parts(self))

    @property
    def spending(self) -> Budget:
        """What each need may spend."""
        return budget_of_parts(self.parts, *self.budget)


def _parts(params: PrivateLogParams) -> Iterator[Part]:
    """Yields all that a release counts, in the order in which it is decided.

    What depends on everything that is bought has no round of its own yet: it is in the last one.
    """
    split, max_units = params.split, params.max_units
    if params.vocabulary is None:
        yield vocabulary_part(params, "", split["vocabulary"], KNOWN, params.most_names)
    if params.longest_case is None:
        quantile = Fraction(params.length_quantile)
        yield length_part(quantile, max_units, "does not exceed", KNOWN)
    if not params.is_timed:  # the variants have all that the vocabulary leaves
        yield variants_part(params.generator, params, 1 - VOCABULARY_SHARE, LOG)
        return
    if params.first_date is None:
        zone = params.calendar_time_zone
        yield time_range_part(params.log_time.calendar, zone, max_units, KNOWN)
    if params.granularity is None:
        yield granularity_part(params, split["granularity"], KNOWN)
    if params.buys_clip:
        yield step_durations.steps_clip_part(params, _weight_of_clipped(params) * RANKS_SHARE)
    yield sizes_part(params, split["sizes"], KNOWN)
    yield variants_part(params.generator, params, split["variants"], CLIP)
    for part_of, name in ((spans_part, "spans"), (starts_part, "starts")):
        yield replace(part_of(params, split[name]), round=CLIP)
    clipped = 1 - RANKS_SHARE * params.buys_clip  # what the choice of the clip leaves
    yield step_durations.durations_part(params, split["durations"] * clipped)
    yield pair_times_part(params, split["pair times"])
    if not params.detail.is_of_all:
        yield tables_part(params, split["tables"])
    if params.declared:
        from tracecloak.anonymizers.logs.attributes import attribute_part, handovers_part

        each = split["attributes"] / len(params.declared)
        for attribute in params.declared:
            share = each if attribute.is_of_case else each * clipped
            yield attribute_part(attribute, params, share)
        each = split["handovers"] * clipped / max(len(params.handed_over), 1)
        for attribute in params.handed_over:
            yield handovers_part(attribute, params, each)
    if params.service_times:
        from tracecloak.anonymizers.logs.service_times import service_part

        yield service_part(params, split["service times"] * clipped)


def _weight_of_clipped(params: PrivateLogParams) -> Fraction:
    """The weight of all counts of cases that are scaled down to the clip."""
    split, n = params.split, len(params.declared)
    weight = split["durations"]
    weight += split["attributes"] * sum(not a.is_of_case for a in params.declared) / max(n, 1)
    weight += split["handovers"] * bool(params.handed_over)
    return weight + split["service times"] * params.service_times


_SPLIT = {
    "vocabulary": VOCABULARY_SHARE,
    "granularity": Fraction(2, 100),
    "sizes": Fraction(2, 100),
    "variants": Fraction(40, 100),
    "spans": Fraction(18, 100),
    "starts": Fraction(12, 100),
    "durations": Fraction(25, 100),
    "pair times": Fraction(16, 100),
    "tables": Fraction(15, 100),
    "attributes": Fraction(20, 100),
    "handovers": Fraction(10, 100),
    "service times": Fraction(15, 100),
}

OF_ALL = {
    "variants": Fraction(50, 100),
    "spans": Fraction(24, 100),
    "starts": Fraction(5, 100),
    "durations": Fraction(3, 100),
    "pair times": Fraction(14, 100),
}
"""The weights that are other ones where times are counted of all cases alike."""


def default_split(detail: Detail = BY_ACTIVITY) -> dict[str, Fraction]:
    """Returns the weights in `budget_split` where none are given, relative to each other."""
    return {**_SPLIT, **OF_ALL} if detail.is_of_all else dict(_SPLIT)
