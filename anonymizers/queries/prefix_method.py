"""What the published queries by levels of prefixes have in common: parameters, costs and release.

Mannhardt et al. ("Privacy-Preserving Process Mining", 2019) and Fahrenkrog-Petersen et al.
("Semantics-aware Mechanisms for Control-flow Anonymization in Process Mining", 2023) give the count
of every prefix Laplace noise of scale 1 / epsilon and say that this is epsilon-differentially
private. A case is in one prefix of every level, so k levels cost k times as much, or more where the
noise is no plain discrete Laplace noise.

Two profiles: `paper` is the algorithm as it is printed, with exact discrete Laplace noise for the
Laplace noise on counts, which the papers do not say how to make whole. `reference` is the authors'
code: noise cut off towards 0, negative counts set to 0, and neither ended prefixes nor those of the
last level are ever pruned.

`laplace-variants`: the Laplace trace-variant query of Mannhardt et al., as published or honest.

Mannhardt, Koschmider, Baracaldo, Weidlich and Michael ("Privacy-Preserving Process Mining", 2019),
the baseline of Fahrenkrog-Petersen et al. ("Semantics-aware Mechanisms for Control-flow
Anonymization in Process Mining", 2023): level by level the number of cases of every continuation of
a surviving prefix, with noise; those below `p_harmful` are pruned. See
`anonymizers.queries.prefix_query`.

As published each level has all of epsilon, so k levels cost k epsilon; and the activities are the
log's own, so that no epsilon is finite. The budget `honest` divides epsilon among the levels and
takes a public vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting.calibration import laplace_interval
from tracecloak.anonymizers.accounting.composition import Spend, decimal_text
from tracecloak.anonymizers.accounting.sensitivity import Sensitivity, of_count, of_distinct_cells
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import variants_and_names
from tracecloak.anonymizers.contract.sentences import sentence, told
from tracecloak.anonymizers.noise.published import positive_excess, truncated_laplace
from tracecloak.anonymizers.noise.samplers import LARGEST_TERM, draw_laplace
from tracecloak.anonymizers.queries import prefix_query
from tracecloak.anonymizers.queries.pair_query import QueryMethod, QueryParams
from tracecloak.anonymizers.rigorous.budget import Need, Pure
from tracecloak.anonymizers.rigorous.params import Exact, published_guarantee
from tracecloak.anonymizers.rigorous.parts_method import Given, Part
from tracecloak.anonymizers.variants.generator import VariantsDecision, fitting, released
from tracecloak.anonymizers.variants.method import CasesOfVariants
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.published.manifest import Guarantee
from tracecloak.schemas.statistics.variants import VariantHistogram

Profile = Literal["paper", "reference"]
Form = Literal["discrete", "truncated", "positive"]

# At most so many events are released: it bounds memory, and is far above the public logs.
MAX_EVENTS = 1 << 26

# Epsilons that are no decimals are rounded up to so many places.
_PLACES = 10**6


class LevelParams(QueryParams):
    """Parameters of the published queries by levels of prefixes."""

    epsilon: Exact = Field(gt=0, le=100)
    """As published: Laplace noise of scale 1 / epsilon on each count, whatever it adds up to. With
    budget honest: privacy loss of the whole release. A decimal above 0; smaller protects more."""
    max_prefix_length: int = Field(ge=1, le=1000)
    """Levels of prefixes, at least 1; the end of a case counts as a symbol. Of longer cases a
    beginning of so many events comes out."""
    profile: Profile = "reference"
    """reference: the authors' code, to which the published thresholds belong: noise is cut off
    towards 0, and ended prefixes and the last level are never pruned. paper: the printed algorithm,
    which with the same thresholds may have far more prefixes."""
    budget: Literal["published", "honest"] = "published"
    """published: every level has all of epsilon. honest: the levels share it, with exact discrete
    Laplace noise, so that epsilon holds for the whole release."""
    max_cases_per_individual: int | None = Field(default=None, ge=1, le=1000)
    """Cases of one individual that count, a random choice of them; epsilon is divided by it. Makes
    the individual the unit of privacy. By default 1 if individual_id is mapped; if it is not, the
    unit is the case."""

    @pydantic.model_validator(mode="after")
    def _honest_needs_a_vocabulary(self) -> LevelParams:
        if self.budget == "honest" and self.vocabulary is None:
            raise ValueError("budget honest needs a public vocabulary")
        return self

    @property
    def is_finite(self) -> bool:
        """Whether an epsilon holds as published: nothing is read from the log but noisy counts."""
        return self.vocabulary is not None

    @property
    def when_full(self) -> Literal["refuse", "keep largest"]:
        """What happens where prefixes have too many continuations; noise must not refuse."""
        return "keep largest" if self.is_honest else "refuse"

    @property
    def form(self) -> Form:
        """The law of the noise."""
        return "discrete" if self.is_honest or self.profile == "paper" else "truncated"

    @property
    def noise_factor(self) -> int:
        """By how much the noise is widened beyond that of one count that a unit changes by 1."""
        return 1

    @property
    def changed(self) -> Sensitivity:
        """What the noise is made for: the counts of all levels, or as published, of one alone."""
        if self.is_honest:
            return of_distinct_cells(self.max_prefix_length, self.max_units)
        return of_count(self.noise_factor).of_cases(self.max_units)

    @property
    def needs(self) -> tuple[Need, ...]:
        """What the levels have to spend, and what else is paid for."""
        return (Pure("levels", Fraction(1), largest=self.changed),)

    @property
    def spends_as_published(self) -> tuple[Spend, ...]:
        """The levels, where their epsilon is finite."""
        if not self.is_finite:
            return ()
        return (Spend("levels", "pure", epsilon_in_all(self), Fraction(0)),)

    def level_query(self, threshold: int, **more: Any) -> prefix_query.LevelQuery:
        """Returns the query; the printed algorithm prunes ended prefixes and the last level, too.

        Args:
            threshold: Smallest noisy count that is not pruned, in cases.
            more: As of `LevelQuery`.
        """
        return prefix_query.LevelQuery(
            self.max_prefix_length,
            self.scale,
            threshold,
            prunes_last=self.profile == "paper",
            when_full=self.when_full,
            draw=truncated_laplace if self.form == "truncated" else draw_laplace,
            **more,
        )


class LevelMethod(CasesOfVariants, QueryMethod):
    """The part of a query's method that does not depend on which query it is."""

    has_error_bars: ClassVar[bool] = True

    def guarantee_as_published(self, params: LevelParams) -> Guarantee:
        """Returns the published claim and what holds."""
        in_all = epsilon_in_all(params)
        epsilon = in_all if params.is_finite else None
        return published_guarantee(self.name, params, epsilon, in_all=text_of(in_all))

    def not_covered(self, params: LevelParams) -> tuple[str, ...]:
        """Returns what the honest form does not cover."""
        return (
            "The names of the public vocabulary, the pruning thresholds and a process model, if "
            "one is given, are taken to be public: they must not be chosen by looking at the log.",
        )

    def levels_part(
        self,
        params: Any,
        passing: float,
        judge_of: Callable[[Given, ActivityVocabulary], Any] = lambda *_: None,
        said: Mapping[str, Any] | None = None,
        more: Mapping[str, contract.Counter] | None = None,
    ) -> Part:
        """Returns the part that all levels are.

        Args:
            params: The parameters.
            passing: With what chance a count of nothing is kept.
            judge_of: Returns what judges prefixes by rules.
            said: What else its sentences print.
            more: What else is counted.
        """
        said = {"scale": float(Fraction(*params.scale)), "passing": passing, **(said or {})}
        does, reality = told(self.name, "levels", params, **said), ""
        if params.is_honest:
            reality = sentence(self.name, "levels_reality", params, **said)

        def decide(given: Given) -> VariantsDecision:
            vocabulary = params.names_in_effect(given.statistics["names"])
            judge, own = judge_of(given, vocabulary), (given.randomness, self.name)
            counted, n = given.statistics["variants"], len(vocabulary)
            answer = prefix_query.trace_variant_query(counted, n, params.query, *own, judge)
            return decision_of(answer, vocabulary, params)

        counters = {**variants_and_names(), **(more or {})}
        return Part("variants", params.needs[-1:], does, decide, counters, "variants", reality)


def decision_of(
    answer: VariantHistogram, vocabulary: ActivityVocabulary, params: LevelParams
) -> VariantsDecision:
    """Returns what is released of an answer: ended prefixes, and those of the last level.

    With an honest budget the noise does not decide whether there is a release: of more cases than
    there is room for, so many come out, in proportion. Intervals are those of discrete Laplace
    noise; noise of the same scale that is cut off towards 0 is no wider. In the form "positive" a
    small count was made positive, and says little about the true one, so it gets none.

    Args:
        answer: The noisy counts of prefixes.
        vocabulary: The alphabet.
        params: The method's parameters.

    Raises:
        UsageError: As published, the cases would have more than MAX_EVENTS events together.
    """
    # In floats, as a sum of so many counts could pass int64.
    n_events = float((np.diff(answer.offsets).astype(float) * answer.counts).sum())
    if n_events > MAX_EVENTS and not params.is_honest:
        raise UsageError(
            f"the noisy counts are those of more than {MAX_EVENTS:,} events, which is the most "
            "that is released: raise the pruning thresholds or epsilon, or lower max_prefix_length"
        )
    half = None if params.form == "positive" else laplace_interval(Fraction(*params.scale))
    variants = released(answer, vocabulary, half)
    return VariantsDecision(fitting(variants, None) if params.is_honest else variants)


def epsilon_in_all(params: LevelParams) -> Fraction:
    """Returns an epsilon that really holds for all counts of all levels, if all else is public.

    A unit of m cases changes the counts of a level by at most m in total. Plain discrete Laplace
    noise of scale b costs m / b a level. Noise cut off towards 0 costs ln 2 more for every count
    that changes, as P(0) / P(±1) is twice that of discrete Laplace noise; and noise on condition
    that the count comes out positive costs ln(1 + a - a²) more for every case, a = e^(-1/b), as 1
    is rather reached from 2 than from 1. Levels add up. Numbers that are no decimals are rounded
    up.
    """
    scale = Fraction(*params.scale)
    per_case = 1 / scale
    if params.form != "discrete":
        extra = math.log(2) if params.form == "truncated" else positive_excess(float(per_case))
        # A unit of the last place is far more than the floats are off.
        per_case += Fraction(math.floor(extra * _PLACES) + 1, _PLACES)
    return per_case * params.max_units * params.max_prefix_length


def chance_of_nothing(params: LevelParams, threshold: int) -> float:
    """Returns the probability that a candidate without cases reaches a threshold of at least 1."""
    decay = math.exp(-1 / Fraction(*params.scale))
    return decay**threshold / (1 + decay)


def text_of(epsilon: Fraction) -> str:
    """Returns an epsilon as a decimal of at most six places, rounded up."""
    return decimal_text(Fraction(math.ceil(epsilon * _PLACES), _PLACES))


class LaplaceVariantsParams(LevelParams):
    """Parameters of `laplace-variants`."""

    p_harmful: int = Field(ge=1, le=LARGEST_TERM)
    """Smallest noisy count that is not pruned, in cases; higher loses more, lower invents more."""

    @property
    def query(self) -> prefix_query.LevelQuery:
        """The query of the prefixes, level by level."""
        return self.level_query(self.p_harmful, named="p_harmful")


class LaplaceVariants(LevelMethod, name="laplace-variants"):
    """The method; see the module."""

    Params: ClassVar[type[LaplaceVariantsParams]] = LaplaceVariantsParams

    def parts(self, params: LaplaceVariantsParams) -> tuple[Part, ...]:
        """Returns the one part, all levels."""
        passing = chance_of_nothing(params, params.p_harmful)
        return (self.levels_part(params, passing),)
