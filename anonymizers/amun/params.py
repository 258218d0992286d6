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
from typing import Annotated, Any, Literal

import numpy as np
import pydantic
from pydantic import AwareDatetime, Field

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.randomness import uniform
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.statistics.durations import DurationTable
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


# Beyond this a stamp has left the calendar in any case, and sums of two stay within int64.
_LIMIT = 2.0**61


def laplace_by_inversion(words: np.ndarray, scales: np.ndarray | float) -> np.ndarray:
    """Returns int64[n], Laplace noise rounded to the nearest integer.

    Args:
        words: uint64[n, 2], random bits of each draw: the first word gives the size, the second
            the sign.
        scales: float64[n] or a scalar, the scale parameter; 0 gives 0.
    """
    size = -elementary.log(uniform(words[:, 0])) * scales
    sign = np.where(words[:, 1] >> np.uint64(63), 1.0, -1.0)
    return np.rint(np.clip(sign * size, -_LIMIT, _LIMIT)).astype(np.int64)


# --- Parameters of Amun: profiles, and what follows from them for the times of a log. ------------


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


# --- Priors and scales of noise ---------------------------------------------------------------


def prior_of(times: DurationTable, dafsa: Dafsa, params: AmunParams) -> PriorKnowledge:
    """Returns what an attacker can guess of times, by the precisions of the parameters."""
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


def scales_of(times: DurationTable, dafsa: Dafsa, params: AmunParams, longest: int) -> np.ndarray:
    """Returns float64[n_pairs], Laplace scales of times in microseconds; longest case in events."""
    choices = params.choices
    g = params.guessing_advantage
    prior = prior_of(times, dafsa, params)
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
