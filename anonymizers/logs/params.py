"""The parameters of `private-log` and how they divide the budget."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field

from tracecloak.anonymizers import contract
from tracecloak.anonymizers.logs.attributes import UNITS, attribute_part
from tracecloak.anonymizers.logs.case_spans import spans_part
from tracecloak.anonymizers.logs.case_starts import starts_part
from tracecloak.anonymizers.logs.sizes import sizes_part
from tracecloak.anonymizers.logs.step_durations import (
    DEFAULT_BINS,
    durations_part,
    excess_of_durations,
    most_names_of_durations,
    steps_clip_part,
)
from tracecloak.anonymizers.logs.time_bins import MIN_BINS
from tracecloak.anonymizers.logs.time_range import LogTime, TimeRange, time_range_part
from tracecloak.anonymizers.rigorous.bought import (
    known_vocabulary,
    length_part,
    vocabulary_part,
)
from tracecloak.anonymizers.rigorous.names import ListedParams
from tracecloak.anonymizers.rigorous.params import BOUGHT_SHARE, Exact
from tracecloak.anonymizers.rigorous.parts import Part
from tracecloak.anonymizers.variants.generator import (
    Domain,
    VariantGenerator,
    excess_of_names,
    variants_part,
)
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.attributes import Attribute, Declarations, declared
from tracecloak.schemas.events.working_time import WorkingCalendar
from tracecloak.schemas.plugins import Plugins

GENERATORS: Plugins[VariantGenerator] = Plugins(
    "variants",
    "tracecloak.generators",
    {
        "variant-histogram": "tracecloak.anonymizers.variants.stable_variants:StableVariants",
        "sparse-histogram": "tracecloak.anonymizers.variants.sparse_histogram:SparseHistogram",
        "prefix-tree": "tracecloak.anonymizers.variants.prefix_tree:PrefixTree",
        "privtree": "tracecloak.anonymizers.variants.privtree:PrivTree",
        "markov-log": "tracecloak.anonymizers.variants.markov:MarkovVariants",
        "markov-log-pure": "tracecloak.anonymizers.variants.markov:MarkovVariantsPure",
        "hybrid-log": "tracecloak.anonymizers.variants.hybrid:HybridVariants",
    },
    make=lambda kind: kind(),
)

# The rounds: what is known of the log before anything else is counted, the clip, and the log.
KNOWN, CLIP, LOG = ROUNDS = ("known", "clip", "log")

# Shares are decimals of so many places, so that every part's epsilon is a finite decimal.
_PLACES = 10**6
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
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


Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


class PrivateLogParams(ListedParams):
    """Parameters of `private-log`."""

    products: Literal["log", "variants"] = "log"
    """log: a log with times, and attributes if any are declared. variants: all of the budget is for
    the variants, whose log has positions for times."""
    variants: str = "auto"
    """How variants are made: a method that releases variants, or auto: auto-variants, and at delta
    0 privtree."""
    length_quantile: Exact = Field(Decimal("0.95"), gt=0, lt=1, decimal_places=3)
    """Share of the cases that a bought max_trace_length shall not cut, at most three decimals."""
    first_date: str | None = None
    """First date of the log, public, such as 2026-01-01; without it the range of time is bought."""
    last_date: str | None = None
    """Last date of the log, public; every released stamp lies in the range. Without it, as without
    first_date, the range is bought."""
    calendar_time_zone: str = "UTC"
    """IANA time zone of dates, hours and weekdays; public."""
    working_days: Annotated[tuple[Day, ...] | None, pydantic.BeforeValidator(_listed)] = None
    """Days of the week on which work is done, public, such as mon,tue,wed,thu,fri; by default every
    day. Times are counted in working time, and every released stamp lies in it."""
    working_hours: str | None = None
    """Hours between which it is done, such as 8-18; by default all."""
    holidays: Annotated[tuple[str, ...], pydantic.BeforeValidator(_texts)] = ()
    """Dates without work, such as 2026-12-25; by default none."""
    n_duration_bins: int = Field(DEFAULT_BINS, ge=MIN_BINS, le=200)
    """Bins of the time between two events: none, below a second, evenly in the logarithm, from ten
    years on. More are finer and have more noise."""
    l2_clip: Exact | None = Field(None, ge=1, le=100_000)
    """Largest L2 norm of one case's counts of steps and of values, public; without it, a quantile
    of the norms is bought. Noise is proportional to it."""
    clip_quantile: Exact = Field(Decimal("0.5"), gt=0, lt=1, decimal_places=3)
    """Share of the cases whose norm the bought clip shall reach; others weigh less."""
    attributes: Declarations = Field(default_factory=dict)
    """Attributes to release, by name, each with all its values or its bounds; a name that begins
    with case: is one of the case. By default none is released."""
    budget_split: Annotated[dict[str, Exact], pydantic.BeforeValidator(_weights)] = Field(
        default_factory=dict
    )
    """Weights of the parts, as a flag also variants=0.5,starts=0.2. By default variants 0.42,
    durations (between events) 0.28, spans (of whole cases) 0.1, starts 0.1, sizes 0.05, attributes
    (all together) 0.2, and bought (each thing that is not public) 0.05."""

    @pydantic.field_validator("first_date", "last_date", mode="before")
    @classmethod
    def _dates_are_texts(cls, date: Any) -> Any:
        return None if date is None else str(date)

    @pydantic.model_validator(mode="after")
    def _check(self) -> PrivateLogParams:
        if self.variants != "auto" and self.variants not in GENERATORS:
            names = ", ".join(["auto", *sorted(GENERATORS)])
            raise ValueError(f"variants must be one of {names}, got {self.variants!r}")
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
        if self.products == "variants" and (self.attributes or self.budget_split):
            raise ValueError("attributes and budget_split are for products: log")
        try:
            _ = self.log_time
        except UsageError as error:
            raise ValueError(str(error)) from None
        if self.shares["variants"][0] < self.budget[0] / 1000:
            raise ValueError("budget_split leaves too little for the variants: raise their weight")
        if self.n_words is not None and self.is_timed:
            if excess := excess_of_durations(self.n_words, self.n_duration_bins):
                raise ValueError(excess)
        if excess := excess_of_names(self.generator, self.n_words):
            raise ValueError(excess)
        self.check_names()
        return self

    def _check_pure(self) -> None:
        if not self.generator.is_pure:
            names = ", ".join(["auto", *sorted(n for n, g in GENERATORS.items() if g.is_pure)])
            raise ValueError(f"delta 0 needs variants that do without: one of {names}")
        if self.max_trace_length is None:
            raise ValueError("delta 0 needs a public max_trace_length")
        if self.l2_clip is not None:
            raise ValueError("l2_clip is for delta above 0; with delta 0 max_trace_length bounds")

    @property
    def is_timed(self) -> bool:
        """Whether a log with times is released, and not its variants alone."""
        return self.products == "log"

    @property
    def generator(self) -> VariantGenerator:
        """What makes the variants."""
        if self.variants == "auto":
            if self.delta == 0:
                return GENERATORS["privtree"]
            from tracecloak.anonymizers.variants.auto import AutoVariants  # lazy, as those are

            return AutoVariants()
        return GENERATORS[self.variants]

    @property
    def most_names(self) -> int | None:
        """Activities, OTHER included, that all parts can count by; None: any number."""
        durations = most_names_of_durations(self.n_duration_bins) if self.is_timed else None
        known = [most for most in (self.generator.most_names, durations) if most is not None]
        return min(known, default=None)

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
            span = TimeRange.of_dates(self.first_date, self.last_date, self.calendar_time_zone)
        return LogTime(calendar, span)

    @property
    def declared(self) -> tuple[Attribute, ...]:
        """The declared attributes."""
        return declared(self.attributes)

    @property
    def buys_clip(self) -> bool:
        """Whether the clip is chosen on the log, and paid for."""
        return self.is_timed and self.delta > 0 and self.l2_clip is None

    @property
    def public_clip_units(self) -> int | None:
        """The clip where it is public: an L2 norm in lattice steps; None at delta 0 as well."""
        return None if self.l2_clip is None else int(Fraction(self.l2_clip) * UNITS)

    @property
    def parts(self) -> tuple[Part, ...]:
        """What epsilon is divided among, and in which rounds."""
        split = {**default_split(), **{n: Fraction(w) for n, w in self.budget_split.items()}}
        made = (part for kind in KINDS for part in kind.parts(self, split[kind.split]))
        return tuple(replace(part, round=part.round or LOG) for part in made)

    @property
    def bought(self) -> tuple[str, ...]:
        """What is not public, by the names of its parts."""
        kinds = (kind for kind in KINDS if kind.split == BOUGHT)
        return tuple(part.name for kind in kinds for part in kind.parts(self, Fraction(1)))

    @property
    def shares(self) -> dict[str, tuple[Fraction, Fraction]]:
        """(epsilon, delta) of each part; they add up to those of the release exactly.

        Of delta, parts that need none have 0. Where no part does, it is spent on the variants.
        """
        epsilon, delta = self.budget
        parts = self.parts
        weights = {part.name: part.weight for part in parts}
        if not self.is_timed:  # weights are shares then
            weights["variants"] += 1 - sum(weights.values(), Fraction(0))
        share = _rounded(weights)
        takers = {part.name: share[part.name] for part in parts if part.takes_delta}
        of_delta = _rounded(takers or {"variants": share["variants"]})
        return {
            name: (epsilon * own, delta * of_delta.get(name, Fraction(0)))
            for name, own in share.items()
        }


@dataclass(frozen=True)
class Kind:
    """Parts that have one weight in `budget_split`.

    Attributes:
        split: Its name there.
        weight: By default.
        parts: Those that parameters have, given the weight.
    """

    split: str
    weight: Fraction
    parts: Callable[[PrivateLogParams, Fraction], tuple[Part, ...]]


def _where(
    holds: Callable[[PrivateLogParams], bool], part: Callable[[PrivateLogParams, Fraction], Part]
) -> Callable[[PrivateLogParams, Fraction], tuple[Part, ...]]:
    return lambda params, weight: (part(params, weight),) if holds(params) else ()


def _timed(
    part: Callable[[PrivateLogParams, Fraction], Part],
) -> Callable[[PrivateLogParams, Fraction], tuple[Part, ...]]:
    return _where(lambda params: params.is_timed, part)


def _bought(
    holds: Callable[[PrivateLogParams], bool], part: Callable[[PrivateLogParams, Fraction], Part]
) -> Kind:
    return Kind(BOUGHT, BOUGHT_SHARE, _where(holds, part))


def _vocabulary(params: PrivateLogParams, weight: Fraction) -> Part:
    of_unit = params.max_activities, params.max_units
    return vocabulary_part(*of_unit, "", weight, KNOWN, params.most_names)


def _length(params: PrivateLogParams, weight: Fraction) -> Part:
    quantile = Fraction(params.length_quantile)
    return length_part(quantile, params.max_units, "does not exceed", weight, KNOWN)


def _variants(params: PrivateLogParams, weight: Fraction) -> tuple[Part, ...]:
    def domain_of(decisions: contract.Decisions) -> Domain:
        length = params.max_trace_length or decisions["length"].max_trace_length
        return Domain(known_vocabulary(params.words, decisions), length, params.max_units)

    if not params.is_timed:
        weight = Fraction(0)  # and then what the others leave
    part = variants_part(params.generator, domain_of, params.max_units, weight)
    return (replace(part, round=LOG),)


def _attributes(params: PrivateLogParams, weight: Fraction) -> tuple[Part, ...]:
    each = weight / max(len(params.declared), 1)
    return tuple(attribute_part(attribute, params, each) for attribute in params.declared)


BOUGHT = "bought"
# All that a release can have.
KINDS: tuple[Kind, ...] = (
    _bought(lambda params: params.vocabulary is None, _vocabulary),
    _bought(lambda params: params.max_trace_length is None, _length),
    _bought(
        lambda params: params.is_timed and params.first_date is None,
        lambda params, weight: time_range_part(params, weight, KNOWN),
    ),
    _bought(lambda params: params.buys_clip, steps_clip_part),
    Kind("sizes", Fraction(5, 100), _timed(lambda params, own: sizes_part(params, own, KNOWN))),
    Kind("variants", Fraction(42, 100), _variants),
    Kind("durations", Fraction(28, 100), _timed(durations_part)),
    Kind("spans", Fraction(10, 100), _timed(spans_part)),
    Kind("starts", Fraction(10, 100), _timed(starts_part)),
    Kind("attributes", Fraction(20, 100), _attributes),
)


def default_split() -> dict[str, Fraction]:
    """Returns the weights in `budget_split` where none are given, relative to each other."""
    return {kind.split: kind.weight for kind in KINDS}


def _rounded(weights: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """The shares that weights stand for, rounded down but for that of one part; they sum to 1.

    That is the variants, or without them the last. None is 0, so long as no weight is below a
    millionth of all together.
    """
    total = sum(weights.values(), Fraction(0))
    rest = "variants" if "variants" in weights else list(weights)[-1]
    shares = {
        name: Fraction(max(int(weight / total * _PLACES), 1), _PLACES)
        for name, weight in weights.items()
        if name != rest
    }
    return {**shares, rest: 1 - sum(shares.values(), Fraction(0))}
