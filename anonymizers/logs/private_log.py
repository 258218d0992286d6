"""`private-log`: a whole log with times and attributes, (epsilon, delta) for everything in it.

Nothing of any case is copied. Variants come from a generator (anonymizers.variants.generator), as
many cases of them as a noisy number says. When these take place comes from noisy counts, of which
most are by class, that is by released variant or last activity (anonymizers.times). Attributes of
events come from noisy marginals by activity, and where they are declared with handovers by the
value before; attributes of cases from marginals by class. Each has its own share of the budget, and
so has whatever is not public and must be chosen on the log: vocabulary, length, range of time,
granularity of stamps, clip. Given class and activities, times and attributes are drawn
independently of each other: what else they have in common is not kept.

Three rounds: what is bought without looking at anything else, with the number of cases; the clip,
the variants, and when cases start and how long they take; and all that depends on these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting.calibration import epsilon_of_guessing_advantage
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.sentences import sentences
from tracecloak.anonymizers.logs.params import KNOWN, LOG, ROUNDS, PrivateLogParams
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.samplers import LARGEST_TERM
from tracecloak.anonymizers.noise.sums import MeasureRecorder
from tracecloak.anonymizers.rigorous.bought import vocabulary_in_effect
from tracecloak.anonymizers.rigorous.params import Exact
from tracecloak.anonymizers.rigorous.parts_method import Given, PartsMethod
from tracecloak.anonymizers.times.case_classes import CaseClasses
from tracecloak.anonymizers.times.case_starts import periods_of
from tracecloak.anonymizers.times.fitted_times import fitted, fitted_of_all, timed
from tracecloak.anonymizers.variants.generator import fitting, log_of
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.figures import ReleasedMeasures, ReleasedProduct
from tracecloak.schemas.published.manifest import SUPPRESSED_TIMES, Operation, Yield
from tracecloak.schemas.published.variants import ReleasedVariants, most_frequent_first

# --- `private-log`: a whole log with times and attributes, (epsilon, delta) for everything in it. -


MEASURES = "measures"
"""Among what a round decided: the noisy sums of its parts that are published."""


class PrivateLog(PartsMethod, name="private-log"):
    """The method; see the module."""

    Params: ClassVar[type[PrivateLogParams]] = PrivateLogParams
    between_chosen: ClassVar[str] = ", "

    def operations_of(self, params: PrivateLogParams) -> tuple[Operation, ...]:
        """Returns what it does to a log, of whose times nothing remains with variants alone."""
        operations = super().operations_of(params)
        return operations if params.is_timed else (*operations[:-1], SUPPRESSED_TIMES)

    def releases_starts(self, params: PrivateLogParams) -> bool:
        """Returns whether events have starts."""
        return params.service_times

    def inner_versions(self, params: PrivateLogParams) -> Mapping[str, int]:
        """Returns the version of the generator of variants, if it is above 1."""
        version = params.generator.version
        return {} if version == 1 else {params.generator.name: version}

    def rounds(self, params: PrivateLogParams) -> tuple[str, ...]:
        """Returns the rounds, those that have something to do."""
        rounds = super().rounds(params)
        return tuple(name for name in ROUNDS if name in rounds)

    def moves_by_case(self, params: PrivateLogParams) -> bool:
        """Returns whether they do of the generator of variants, as they do of all else.

        All histograms are of cases, or of vectors that are cut or scaled down case by case; the
        choice of a range of time is by numbers that a case raises by at most 1.
        """
        return params.generator.shares_by_case

    def reality(self, params: PrivateLogParams) -> str:
        """Returns why the promise holds, of times and sizes too where they are released."""
        reality = super().reality(params)
        if not params.is_timed:
            return reality
        return (
            "All counts that times, sizes and attributes are drawn from have exact noise that "
            f"covers what one case changes; nothing of a case is copied. {reality}"
        )

    def time_caveats(self, params: PrivateLogParams) -> tuple[str, ...]:
        """Returns that a bought range is made up at its ends, and which steps are too short."""
        return sentences("private-log", "time_caveats", params) if params.is_timed else ()

    def notes(self, round_name: str, params: PrivateLogParams) -> bool:
        """Returns whether noisy sums are published."""
        return params.shows_sums

    def combined(
        self, round_name: str, decided: dict[str, Any], given: Given, params: PrivateLogParams
    ) -> contract.PartsDecision:
        """Returns what the parts of a round decided, and what follows from it for later ones."""
        parts, known = dict(decided), given.decisions
        if round_name == KNOWN and params.is_timed:
            parts["bins"] = params.time_bins(parts["sizes"])
        if "variants" in parts:
            variants: ReleasedVariants = parts["variants"]
            n_drawn = variants.n_cases
            wanted = min(known.get("sizes", n_drawn), params.max_cases or LARGEST_TERM)
            sized = fitting(variants.resized(wanted), params.max_cases)
            n_cases = sized.n_cases or wanted
            parts["variants"] = sized
            parts["case_share"] = min(1.0, n_drawn / n_cases) if n_cases else 1.0
        if "starts" in parts:
            parts["periods"] = periods_of(parts["starts"], params.n_periods(known["sizes"]))
        if round_name == LOG and params.is_timed:
            together = {**known, **parts}
            vocabulary = vocabulary_in_effect(params.words, together)
            if params.detail.is_of_all:
                parts |= fitted_of_all(together, vocabulary, given.randomness, params.detail)
            else:
                parts |= fitted(together, vocabulary, given.randomness)
        if isinstance(noting := given.randomness.noise, MeasureRecorder):
            parts[MEASURES] = noting.measures
        return contract.PartsDecision(parts)

    def writes(self, params: PrivateLogParams) -> tuple[str, ...]:
        """Returns the names of the products."""
        variants = () if params.is_timed else ("variants",)
        return (*variants, *((MEASURES,) if params.shows_sums else ()))

    def products(
        self, decisions: contract.Decisions, params: PrivateLogParams
    ) -> contract.Products:
        """Returns the noisy sums beside a log; or the variants, where they are all there is.

        With groups both are released, as the graph of the groups follows from the sums.
        """
        sums: dict[str, ReleasedProduct] = {}
        if params.shows_sums:
            noted = (decided.parts[MEASURES] for decided in decisions.values())
            sums[MEASURES] = ReleasedMeasures.joined(noted)
        if params.is_timed:
            came_out = Yield(case_share=self.known(decisions)["case_share"])
            return contract.Products(sums, came_out)
        return contract.Products({"variants": self.known(decisions)["variants"], **sums})

    def generate(
        self,
        piece: int,
        n_pieces: int,
        decisions: contract.Decisions,
        params: PrivateLogParams,
        randomness: Randomness,
    ) -> TraceBatch:
        """Returns every `n_pieces`-th of the released cases."""
        drawn = self.known(decisions)
        variants: ReleasedVariants = drawn["variants"]
        traces = log_of(variants, piece, n_pieces, randomness)
        if not params.is_timed:
            return traces
        cases = np.arange(piece, variants.n_cases, n_pieces, dtype=np.int64)
        traces = traces.recode(vocabulary_in_effect(params.words, drawn))
        grid = params.log_time.grid(drawn)
        classes = params.detail.classes(variants, traces.vocabulary)
        counted = params.detail.cases(traces)
        stamps = timed(counted, cases, grid, classes, drawn, randomness).times
        traces = replace(traces, times=stamps, attributes={})
        if params.declared:
            from tracecloak.anonymizers.logs.attributes import generated_values

            released = drawn, traces, CaseClasses.of(variants, traces.vocabulary), cases
            values = {a.name: generated_values(a, *released, randomness) for a in params.declared}
            traces = replace(traces, attributes=values)
        if params.service_times:
            from tracecloak.anonymizers.logs.service_times import NAME, with_starts

            traces = with_starts(traces, cases, drawn[NAME], grid, randomness)
        return traces


# --- `pripel-rigorous`: PRIPEL's parameters and kind of release, by `private-log`. ----------------
# PRIPEL (Fahrenkrog-Petersen, van der Aa, Weidlich, 2020) releases sequences from a noisy query
# with times and attribute values that stem from single cases of the log. Here nothing of a case
# is copied or matched: variants, times and values come from noisy counts, and epsilon and delta
# hold for all of them together (`anonymizers.logs.private_log`). `max_prefix_length` is the
# number of events of a case that count, and `p_harmful` prunes as in PRIPEL: a released variant
# with fewer cases is left out. That looks at what is released alone and costs nothing.
#
# `amun-rigorous`: Amun's one parameter, kept: `private-log` at the epsilon that it asks for.
#
# Amun (Elkoumy, Pankova and Dumas) asks how much a release may raise the probability that an
# attacker guesses which course a case took: its guessing advantage g. That is a question about
# replacing a case, and a release that is epsilon-DP for adding or removing one is 2 epsilon-DP for
# it. A prior guess p then rises to at most p e^E / (p e^E + 1 - p) with E = 2 epsilon, which is
# most above p at p = 1 / (1 + e^(E/2)), by tanh(E / 4). So epsilon = ln((1 + g) / (1 - g)) keeps
# the rise at g or less, whatever the prior, for all that is released: 0.405, 0.619 and 0.847 for g
# of 0.2, 0.3 and 0.4. With delta above 0 it is as if, with the delta that the statement names for
# this question, the guess were told.
#
# Unlike Amun nothing is filtered, copied or deleted by what the log says, and no epsilon is
# announced for single events.


class AmunRigorousParams(PrivateLogParams):
    """Parameters of `amun-rigorous`."""

    guessing_advantage: Exact = Field(ge=Decimal("0.0001"), lt=1)
    """Largest rise of the probability that a guess about one case is right, in (0, 1); smaller
    protects more and errs more."""
    epsilon: Exact = Field(gt=0, le=1000)
    """Follows from guessing_advantage, ln((1 + g) / (1 - g)); not to be given."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _derive_epsilon(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        try:
            advantage = Decimal(str(values.get("guessing_advantage")))
        except ArithmeticError:
            advantage = Decimal(0)
        if advantage.is_nan() or not 0 < advantage < 1:  # the field guessing_advantage refuses it
            return {**values, "epsilon": 1}
        epsilon = epsilon_of_guessing_advantage(advantage)
        given = values.get("epsilon")
        if given is not None and str(given) != f"{epsilon.normalize():f}":
            raise ValueError(
                f"epsilon follows from guessing_advantage and would be {epsilon}, not {given}; "
                "leave it out, or use private-log"
            )
        return {**values, "epsilon": epsilon}


class AmunRigorous(PrivateLog, name="amun-rigorous"):
    """The method; see the module."""

    Params: ClassVar[type[PrivateLogParams]] = AmunRigorousParams


class PripelRigorousParams(PrivateLogParams):
    """Parameters of `pripel-rigorous`."""

    max_prefix_length: int = Field(ge=1, le=1000)
    """Events of a case that count; what comes later is cut off. Public."""
    p_harmful: int = Field(default=1, ge=1, le=LARGEST_TERM)
    """Smallest number of cases of a released variant, noise included; others are left out, with 1
    none. Higher invents less and loses more. Few variants that are drawn from a model have many."""
    max_trace_length: int | None = Field(default=None, ge=1)
    """Not to be given; by default it is max_prefix_length."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _derive_length(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or "max_prefix_length" not in values:
            return values
        length, given = values["max_prefix_length"], values.get("max_trace_length")
        if given is not None and str(given) != str(length):
            raise ValueError(
                "max_trace_length follows from max_prefix_length; leave it out, or use private-log"
            )
        return {**values, "max_trace_length": length}


class PripelRigorous(PrivateLog, name="pripel-rigorous"):
    """The method; see the module."""

    Params: ClassVar[type[PrivateLogParams]] = PripelRigorousParams

    def combined(
        self, round_name: str, decided: dict[str, Any], given: Given, params: Any
    ) -> contract.PartsDecision:
        """Returns what `private-log` decides, without what is pruned of it."""
        parts = super().combined(round_name, decided, given, params).parts
        if "variants" not in parts:
            return contract.PartsDecision(parts)
        variants = pruned(parts["variants"], params.p_harmful)
        return contract.PartsDecision({**parts, "variants": variants})


def pruned(variants: ReleasedVariants, least: int) -> ReleasedVariants:
    """Returns the variants of at least so many cases, without intervals."""
    counts = np.where(variants.counts >= least, variants.counts, 0)
    return most_frequent_first(variants.names, variants.offsets, variants.codes, counts)
