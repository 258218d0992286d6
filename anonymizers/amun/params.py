"""From a bound on an attacker's guessing advantage to epsilons (Amun, sections 3.3 to 3.5, A).

The guessing advantage `g` (the paper's delta) bounds how much a release may raise the probability
that an attacker guesses a value within a precision. What the paper derives from it is here as
printed; what it really bounds is said by the methods that use it.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pydantic
from pydantic import AwareDatetime, Field

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import Batch
from tracecloak.anonymizers.noise.published import laplace_by_inversion
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.arrays.merging import ranges
from tracecloak.schemas.arrays.sequences import case_bytes
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.durations import DurationIndex, DurationTable
from tracecloak.schemas.statistics.log_times import StartRange
from tracecloak.schemas.statistics.variants import Dafsa

# --- From a bound on an attacker's guessing advantage to epsilons (Amun, sections 3.3 to 3.5, A). -


def epsilon_of_prior(prior: np.ndarray, guessing_advantage: float) -> np.ndarray:
    """Equation 3 with r = 1: the largest epsilon that keeps the advantage for each prior.

    Args:
        prior: float64[n], prior guessing probabilities P with 0 < P and P + g < 1.
        guessing_advantage: g in (0, 1).

    Returns:
        float64[n].
    """
    g = guessing_advantage
    return -elementary.log(prior / (1 - prior) * (1 / (g + prior) - 1))


def epsilon_of_counts(guessing_advantage: float) -> float:
    """The paper's epsilon_d: Equation 3 at the worst prior (1 - g) / 2 of Equation 2.

    Equals 2 ln((1 + g) / (1 - g)).
    """
    return 2 * float(elementary.log((1 + guessing_advantage) / (1 - guessing_advantage)))


def epsilon_of_oversampling(guessing_advantage: float) -> float:
    """Proposition A.6: the epsilon for counts that only grow.

    With u = exp(-epsilon / 2) it is the root of 2 u^3 - (1 - g) u - (1 - g) in (0, 1), which is
    what the closed form of Equation 9 evaluates to.
    """
    rest = 1 - guessing_advantage
    u = 1.0  # right of the root, where the cubic is convex: Newton's steps fall towards it
    for _ in range(64):
        u -= (2 * u * u * u - rest * u - rest) / (6 * u * u - rest)
    return -2 * float(elementary.log(u))


def advantage_of_oversampling(epsilon: float) -> float:
    """Equation 9: the guessing advantage that counts which only grow by |Laplace| noise allow.

    The inverse of `epsilon_of_oversampling`; tanh(epsilon / 4) is that of counts that also shrink.
    """
    unseen = math.exp(-epsilon)
    return unseen * math.tanh(epsilon / 4) + 1 - unseen


@dataclass(frozen=True, eq=False)
class PriorKnowledge:
    """What an attacker can guess of each distinct (group, value) pair of a duration table.

    Attributes:
        inside: int64[n_pairs], values of the group within precision of this one.
        total: int64[n_pairs], values of the group.
        is_constant: bool[n_pairs], whether all values of the group are equal, so that Equation 2's
            worst case stands in for the prior.
        widths: int64[n_pairs], largest minus smallest value of the group, in ticks.
    """

    inside: np.ndarray
    total: np.ndarray
    is_constant: np.ndarray
    widths: np.ndarray

    @classmethod
    def of(
        cls, table: DurationTable, below: np.ndarray, above: np.ndarray, is_clamped: np.ndarray
    ) -> PriorKnowledge:
        """Evaluates Equation 1 on every distinct value; linear in their number, times a search.

        A guess of x succeeds for values in (x - below, x + above], which is the difference of
        empirical distribution functions of Equation 1.

        Args:
            table: Values by group.
            below: int64[n_groups], in the ticks of the values, and so is `above`.
            above: int64[n_groups].
            is_clamped: bool[n_groups], whether the lower end stops at the group's smallest value,
                which then does not count itself (the reading of the authors' code).
        """
        n_groups = len(below)
        index = table.index(n_groups)
        offsets = index.offsets
        smallest, largest = table.extremes(n_groups)
        group, value = table.groups, table.values
        lower = value - below[group]
        lower = np.where(is_clamped[group], np.maximum(lower, smallest[group]), lower)
        cumulative = np.concatenate([[0], np.cumsum(table.counts)])
        upto = cumulative[index.search(group, value + above[group])]
        before = cumulative[index.search(group, lower)]
        total = (cumulative[offsets[1:]] - cumulative[offsets[:-1]])[group]
        widths = (largest - smallest)[group]
        return cls(upto - before, total, widths == 0, widths)

    def exceeds(self, guessing_advantage: float) -> np.ndarray:
        """Returns bool[n_pairs]: P + g >= 1 (section 3.4), decided in integers."""
        # A g with more than six decimals is compared as the nearest such fraction.
        g = Fraction(str(guessing_advantage)).limit_denominator(10**6)
        left, right = self.inside * g.denominator, self.total * (g.denominator - g.numerator)
        return ~self.is_constant & (left >= right)

    def epsilons(
        self, guessing_advantage: float, saturated: float, at_zero_prior: float
    ) -> np.ndarray:
        """Returns float64[n_pairs], Equation 3 of every pair.

        Args:
            guessing_advantage: g in (0, 1).
            saturated: Epsilon where P + g >= 1, for which the equation has no value.
            at_zero_prior: Epsilon where P = 0, for which it is infinite; a clamped rule meets it.
        """
        worst = (1 - guessing_advantage) / 2
        prior = np.where(self.is_constant, worst, self.inside / np.maximum(self.total, 1))
        over = self.exceeds(guessing_advantage)
        none = ~self.is_constant & (self.inside == 0)
        usable = np.where(over | none, worst, prior)
        epsilon = epsilon_of_prior(usable, guessing_advantage)
        return np.where(over, saturated, np.where(none, at_zero_prior, epsilon))


# --- What Amun's rounds and its transformation share: parameters, decisions, and the filter. ------
# See `anonymizers.amun.method` for the method. A time is looked at as (group, ticks): the group
# is the DAFSA transition of its event, or one group of its own for all starts; ticks are relative
# times in units of `time_unit_us`, or days since the log's first start.
#
# Amun's last step: cases copied and deleted, times noised, cumulated and compressed, new ids.
#
# Algorithm 1, lines 26 to 28, and section 3.7. Sees one batch at a time; all it draws is keyed by
# the case, so a case's noise is the same in whichever batch it lies.


DAY_US = 86_400_000_000
_MINUTE_US = 60_000_000

Profile = Literal["paper", "reference", "tables"]
Compression = Literal["starts", "equation_4", "noise", "shifts", "none"]
Moves = Literal["algorithm_1", "authors"]
NegativeSteps = Literal["zero", "mirrored"]
DividedEpsilons = Literal["all", "steps"]
OversamplingEpsilon = Literal["epsilon_d", "proposition_a6"]
# A moment is written in UTC, however it was given.
_Moment = Annotated[
    AwareDatetime, pydantic.AfterValidator(lambda moment: moment.astimezone(datetime.UTC))
]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class AmunParams(contract.Params):
    """Parameters of Amun."""

    guessing_advantage: float = Field(default=0.3, ge=1e-6, lt=1)
    """How much the release may raise an attacker's probability of guessing, from 0.000001 to below
    1; the paper uses 0.2, 0.3 and 0.4. Smaller is noisier."""

    mode: Literal["sampling", "filtering", "oversampling"] = "sampling"
    """sampling copies and deletes cases; filtering first drops the cases that are too easy to
    guess; oversampling only copies, which releases the most cases by far."""

    profile: Profile = "reference"
    """Which reading the other parameters default to: reference (the authors' code, without what it
    does against the paper), paper (the text and its example), or tables, which repeats what the
    authors' code did for the figures that the paper prints."""

    oversampling_epsilon: OversamplingEpsilon | None = None
    """Epsilon of the counts in mode oversampling: epsilon_d as in the other modes, or
    proposition_a6, which is about a fifth of it and copies about five times as many cases. By
    default that of the profile."""

    max_growth: _Positive | None = None
    """Mode oversampling stops before it draws noise if the release is to be expected to have more
    than so many times the log's cases. By default there is no limit, and a warning says how many
    cases it will have."""

    prior: Literal["equation_1", "clamped"] | None = None
    """Prior of a relative time: equation_1, or clamped, where the lower end of the window stops at
    the group's smallest value; by default that of the profile."""

    time_precision_us: int | None = Field(default=None, gt=0, le=10**17)
    """Microseconds within which a guessed relative time counts as right; by default that of the
    profile."""

    time_unit_us: int | None = Field(default=None, gt=0, le=10**17)
    """Microseconds of a tick in which relative times are compared for the prior; noise is always
    drawn in microseconds. By default that of the profile."""

    start_precision_days: _Positive | Literal["authors"] | None = None
    """Days within which a guessed start counts as right, or authors: 1 / (range of starts in
    days). By default that of the profile."""

    saturated_epsilon: _Positive | Literal["epsilon_d"] | None = None
    """Epsilon of a time whose prior plus g reaches 1, where Equation 3 has no value: a number > 0,
    or epsilon_d, that of the counts. By default that of the profile."""

    zero_prior_epsilon: _Positive = 10.0
    """Epsilon of a time whose prior is 0, where Equation 3 is infinite; only a clamped prior meets
    it."""

    compression: Compression | None = None
    """How times are brought back towards the public range: starts (affinely, durations are left),
    equation_4 (all relative times shrink by Equation 4), noise (only the noise does), shifts (only
    the noise does, and the anonymised range is the largest shift of a start), or none. By default
    that of the profile."""

    moves: Moves | None = None
    """Which cases are copied and deleted: algorithm_1, or authors, which first picks the
    transitions that were given the least, rounds the noise of counts up, leaves out variants that
    are only copied or only deleted, and deletes one case of a variant at most. By default that of
    the profile."""

    negative_steps: NegativeSteps | None = None
    """What becomes of a step that its noise makes negative: zero, or mirrored (the noise is turned
    around). By default that of the profile."""

    divided_epsilons: DividedEpsilons | None = None
    """Which epsilons of a replicated case are divided by its copies: all, or steps (the start's is
    not). By default that of the profile."""

    correlated_times: bool = False
    """Divide the epsilons of times by the length of the longest case (Proposition A.7)."""

    log_start: _Moment | None = None
    """Public start of the first case; by default it is taken from the log, as the paper does."""

    log_end: _Moment | None = None
    """Public start of the last case; by default it is taken from the log, as the paper does."""

    @pydantic.model_validator(mode="after")
    def _range_is_not_inverted(self) -> AmunParams:
        if self.log_start and self.log_end and self.log_start > self.log_end:
            raise ValueError("log_start must not be after log_end")
        return self

    @property
    def choices(self) -> Choices:
        """The profile with the parameters that were given in its place."""
        given = {name: getattr(self, name) for name in Choices.__dataclass_fields__}
        return replace(PROFILES[self.profile], **{k: v for k, v in given.items() if v is not None})

    @property
    def epsilon_d(self) -> float:
        """The epsilon that the count of each transition gets."""
        g = self.guessing_advantage
        if self.mode == "oversampling" and self.choices.oversampling_epsilon == "proposition_a6":
            return epsilon_of_oversampling(g)
        return epsilon_of_counts(g)

    def resolved(self) -> dict[str, Any]:
        """Returns the parameters in effect, with the profile's choices filled in."""
        return {**super().resolved(), **asdict(self.choices)}

    def given(self) -> dict[str, Any]:
        """Returns the parameters that are others than by default, or than the profile has them."""
        profile = asdict(PROFILES[self.profile])
        given = super().given()
        return {n: v for n, v in given.items() if n not in profile or v != profile[n]}


@dataclass(frozen=True)
class Choices:
    """The choices in which the paper, its examples and its authors' code differ."""

    oversampling_epsilon: OversamplingEpsilon
    prior: str
    time_precision_us: int
    time_unit_us: int
    start_precision_days: float | str
    saturated_epsilon: float | str
    compression: str
    moves: Moves = "algorithm_1"
    negative_steps: NegativeSteps = "zero"
    divided_epsilons: DividedEpsilons = "all"


PROFILES: dict[Profile, Choices] = {
    "paper": Choices(
        oversampling_epsilon="proposition_a6",
        prior="equation_1",
        time_precision_us=10_000_000,
        time_unit_us=1,
        start_precision_days=1.0,
        saturated_epsilon="epsilon_d",
        compression="shifts",
    ),
    "reference": Choices(
        oversampling_epsilon="epsilon_d",
        prior="clamped",
        time_precision_us=10 * _MINUTE_US,
        time_unit_us=_MINUTE_US,
        start_precision_days="authors",
        saturated_epsilon=0.7,
        compression="noise",
    ),
}
PROFILES["tables"] = replace(
    PROFILES["reference"],
    compression="shifts",
    moves="authors",
    negative_steps="mirrored",
    divided_epsilons="steps",
)


@dataclass(frozen=True, eq=False)
class DafsaDecision(contract.Decision):
    """Round `dafsa`.

    Attributes:
        dafsa: The automaton of the whole log's variants.
        log_start_us: Public start of the first case.
        log_end_us: Public start of the last case.
    """

    wire_name: ClassVar[str] = "amun-dafsa"

    dafsa: Dafsa
    log_start_us: int
    log_end_us: int


@dataclass(frozen=True, eq=False)
class FilterDecision(contract.Decision):
    """Round `prior-knowledge`: the filter of section 3.4 on distinct (group, ticks) pairs.

    Attributes:
        times: The pairs of all cases.
        is_dropped: bool[n_pairs], those whose cases are dropped.
    """

    wire_name: ClassVar[str] = "amun-filter"

    times: DurationIndex
    is_dropped: np.ndarray


@dataclass(frozen=True, eq=False)
class SamplingDecision(contract.Decision):
    """Round `sampling`.

    Attributes:
        times: The (group, ticks) pairs of the kept cases; the last group is the starts'.
        scales: float32[n_pairs], Laplace scale of each pair in microseconds, before replication.
        gains: int64[n_variants], cases to copy.
        losses: int64[n_variants], cases to delete.
    """

    wire_name: ClassVar[str] = "amun-sampling"

    times: DurationIndex
    scales: np.ndarray
    gains: np.ndarray
    losses: np.ndarray


@dataclass(frozen=True, eq=False)
class SelectionDecision(contract.Decision):
    """Round `selection`.

    Attributes:
        changed: fixed_size_binary(16)[n], identities of the cases released other than once.
        copies: int64[n], how often each of them is released.
    """

    wire_name: ClassVar[str] = "amun-selection"

    changed: pa.Array
    copies: np.ndarray


@dataclass(frozen=True, eq=False)
class CompressionDecision(contract.Decision):
    """Round `compression`.

    Attributes:
        noised_starts: Range of the noised starts; with the compression `shifts` that of the noise
            which they got, as if it were stamps.
    """

    wire_name: ClassVar[str] = "amun-compression"

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
        decisions: What was decided.
        params: Those of the method.
        randomness: The release's.
    """

    traces: TraceBatch
    cells: np.ndarray
    copies: np.ndarray
    replica: np.ndarray
    decisions: contract.Decisions
    params: AmunParams
    randomness: Randomness

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
        return cls(
            traces.take(source),
            cells[source],
            copies[source],
            replica,
            batch.decisions,
            params,
            batch.randomness,
        )

    def start_noise(self) -> np.ndarray:
        """Returns int64[n_cases], microseconds to add to the starts."""
        sampling: SamplingDecision = self.decisions["sampling"]
        days = start_days(self.traces, self.decisions)
        group = np.full(len(days), self.decisions["dafsa"].dafsa.n_transitions)
        scales = sampling.scales[sampling.times.find(group, days)]
        if self.params.choices.divided_epsilons == "all":
            scales = scales * self.copies
        return self._drawn(slice(None), 0, scales)

    def noise(self) -> np.ndarray:
        """Returns int64[n_events], microseconds to add to the durations; 0 at first events.

        With `negative_steps` mirrored none makes a duration negative.
        """
        sampling: SamplingDecision = self.decisions["sampling"]
        later = np.flatnonzero(~self.traces.is_first)
        _, group, ticks = ticks_of(self.traces, self.decisions, self.params)
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
        words = self.randomness.words("amun/time", self.cells[cases], counter)
        return laplace_by_inversion(words, scales)

    def retimed(self) -> tuple[np.ndarray, np.ndarray]:
        """Adds the noise and compresses (section 3.7).

        Returns:
            (starts int64[n_cases], durations int64[n_events]) in microseconds.
        """
        start_noise, noise = self.start_noise(), self.noise()
        starts = self.traces.starts + start_noise
        durations = np.maximum(self.traces.durations + noise, 0)
        decided: CompressionDecision | None = self.decisions.get("compression")
        if decided is None or decided.noised_starts.is_empty:
            return starts, durations
        noised = decided.noised_starts
        known: DafsaDecision = self.decisions["dafsa"]
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
