"""The parameters of `sacofa`, and what follows from them alone.

Rules between activities that are paid for: from noisy counts of what comes before what.

A case is cut off after as many events as prefixes can have, so it changes at most k (k - 1) / 2
counts of pairs, k counts of activities and one of beginnings by one each. Discrete Laplace noise of
that many times 1 / epsilon on every count makes all of them epsilon-differentially private (Dwork,
McSherry, Nissim and Smith, 2006), and the rules follow from the noisy counts alone.

A pair never occurs if its noisy count is below a public threshold, and an activity is always
followed by another if fewer exceptions than that are left. It always comes before another if so in
the last place and if the other never comes before it, which together mean: before the first one.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting.calibration import laplace_scale
from tracecloak.anonymizers.accounting.sensitivity import Sensitivity, of_count, of_order
from tracecloak.anonymizers.contract.counters import Batch, Counted
from tracecloak.anonymizers.contract.sentences import sentence, told
from tracecloak.anonymizers.noise.published import choose_harmful
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import LARGEST_TERM, CellStream, draw_laplace
from tracecloak.anonymizers.queries import prefix_method
from tracecloak.anonymizers.queries.order_rules import NamedRules, OrderRules
from tracecloak.anonymizers.queries.prefix_query import Judge, LevelQuery
from tracecloak.anonymizers.rigorous.budget import Need, Pure
from tracecloak.anonymizers.rigorous.params import Exact, drawable
from tracecloak.anonymizers.rigorous.parts_method import Given, Part
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.statistics.relations import ActivityRelations

# --- The parameters of `sacofa`, and what follows from them alone. --------------------------------


# The rules are matrices of activities by activities.
MAX_ACTIVITIES = 4096
TOO_MANY_ACTIVITIES = (
    f"activities are compared pair by pair, and {MAX_ACTIVITIES:,} of them is the most, __other__ "
    "included: give a public vocabulary of those that matter"
)
# No noisy count reaches it.
_NEVER = LARGEST_TERM + 1


class SacofaParams(prefix_method.LevelParams):
    """Parameters of `sacofa`."""

    p_harmful: int | Literal["inf"] = Field()
    """Smallest noisy count of a harmful prefix that is not pruned, in cases, or inf: none goes on.
    Higher invents less behaviour."""
    p_harmless: int | None = Field(default=None, ge=1, le=LARGEST_TERM)
    """The same for harmless prefixes, at most p_harmful; without it, p_harmful. Higher loses
    more behaviour."""
    harmful_from: int = Field(default=1, ge=1)
    """Violated rules from which on a prefix is harmful; higher invents more behaviour."""
    score: Literal["binary", "continuous"] = "binary"
    """binary: all harmful prefixes are alike. continuous: one that violates more rules counts for
    more in the choice, and the noise grows by max_violations."""
    max_violations: int | None = Field(default=None, ge=1, le=1000)
    """Violated rules of a prefix that count in the continuous score; higher adds noise. Needed
    with the continuous score, and by default not set, as the binary one has none."""
    rules: Literal["log", "model", "bought"] = "log"
    """log: the rules that all cases of the log keep, as published; no epsilon is finite then.
    model: those of a public process model. bought: learnt with a share of an honest budget."""
    model: NamedRules | None = None
    """The public process model whose rules are taken, needed with rules model and by default not
    set: a file of BPMN, PNML, PTML, a process tree as text (.tree), or its rules by name as YAML or
    JSON."""
    rules_share: Exact = Field(default=Decimal("0.3"), gt=0, lt=1)
    """Share of epsilon that buys the rules, above 0 and below 1; the levels have the rest. Only
    with rules bought. Higher finds more of the true rules and makes the counts noisier."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> SacofaParams:
        if self.p_harmful == "inf":
            if self.p_harmless is None:
                raise ValueError("p_harmful inf needs p_harmless")
        elif not (self.p_harmless or 1) <= self.p_harmful <= LARGEST_TERM:
            raise ValueError(
                f"p_harmless and p_harmful must be 1 <= p_harmless <= p_harmful <= {LARGEST_TERM}, "
                "or p_harmful inf"
            )
        if (self.score == "continuous") != (self.max_violations is not None):
            raise ValueError(
                "max_violations is needed with score continuous, and not allowed without it"
            )
        if (self.rules == "model") != (self.model is not None):
            raise ValueError("model is needed with rules model, and not allowed without it")
        if self.is_honest and self.rules == "log":
            raise ValueError(
                "budget honest needs rules that are not read from the log for free: rules model or "
                "rules bought"
            )
        if self.rules == "bought":
            if not self.is_honest:
                raise ValueError("rules bought needs budget honest, which says what they cost")
            self.rules_scale  # noqa: B018  # or it cannot be drawn
        if self.n_words is not None and self.n_words > MAX_ACTIVITIES:
            raise ValueError(TOO_MANY_ACTIVITIES)
        return self

    def resolved(self) -> dict[str, Any]:
        """Returns the parameters in effect, with both thresholds."""
        return {**super().resolved(), "p_harmless": self.least_harmless}

    def given(self) -> dict[str, Any]:
        """Returns the parameters that are others than by default, p_harmless by p_harmful."""
        given = super().given()
        if self.p_harmless == self.p_harmful:
            del given["p_harmless"]
        return given

    @property
    def least_harmless(self) -> int:
        """Smallest noisy count of a harmless prefix that survives."""
        return self.p_harmless or int(self.p_harmful)

    @property
    def needs(self) -> tuple[Need, ...]:
        """What the levels have to spend, and the rules before them where they are bought."""
        if self.rules != "bought":
            return super().needs
        share, changed = Fraction(self.rules_share), self.rules_changed
        levels = Pure("levels", 1 - share, largest=self.changed)
        return (Pure("rules", share, changed), levels)

    @property
    def rules_changed(self) -> Sensitivity:
        """How far one unit moves all counts of bought rules together."""
        return of_order(self.max_prefix_length, self.n_words or 1, self.max_units)

    @property
    def rules_scale(self) -> tuple[int, int]:
        """(numerator, denominator) of the scale of the noise of bought rules, in cases.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        return self.spending.means["rules"].noise(self.rules_changed).scale

    @property
    def form(self) -> prefix_method.Form:
        """The law of the noise."""
        return "positive" if self.profile == "paper" and not self.is_honest else super().form

    @property
    def noise_factor(self) -> int:
        """The bound on the violations, where the score counts them and the noise is as published.

        An honest guarantee needs no more noise for it.
        """
        return 1 if self.is_honest else self.largest_violations

    @property
    def largest_violations(self) -> int:
        """What a harmful prefix counts for at most in the choice."""
        return self.max_violations or 1

    @property
    def choice_scale(self) -> tuple[int, int]:
        """(numerator, denominator) of the choice's scale: P(j) is proportional to e^(-j / scale).

        All of epsilon, also where the levels share it: if the rules are public, how many prefixes
        are harmful follows from the noisy counts of the levels before, and the choice is free.
        """
        changed = of_count(2 * self.largest_violations).of_cases(self.max_units)
        return drawable(laplace_scale(Fraction(self.epsilon), changed))

    @property
    def is_finite(self) -> bool:
        """Whether an epsilon holds as published: the rules are not read from the log for free."""
        return super().is_finite and self.rules != "log"

    @property
    def keeps_uncounted(self) -> bool:
        """Whether harmful prefixes that are not chosen keep their exact counts."""
        return self.profile == "reference" and self.rules == "log"

    @property
    def query(self) -> LevelQuery:
        """The query of the prefixes, level by level."""
        return self.level_query(
            self.least_harmless,
            is_positive=self.form == "positive",
            harmful_threshold=_NEVER if self.p_harmful == "inf" else self.p_harmful,
            keeps_uncounted=self.keeps_uncounted,
            named="p_harmless",
        )


# --- `sacofa`: the trace-variant query that prefers prefixes that make sense. ---------------------
# Fahrenkrog-Petersen, Kabierski, Rösel, van der Aa and Weidlich ("SaCoFa: Semantics-aware
# Control-flow Anonymization for Process Mining", 2021), Algorithm 1 of Fahrenkrog-Petersen,
# Kabierski, van der Aa and Weidlich ("Semantics-aware Mechanisms for Control-flow Anonymization
# in Process Mining", 2023). Level by level the surviving prefixes are continued by every activity
# and by the end. Candidates that violate rules between activities
# (`anonymizers.queries.order_rules`) are harmful, and only a few of them, chosen by the
# exponential mechanism, go on beside the harmless ones. Those get a noisy count and are pruned by
# it, harmful ones by `p_harmful`, the others by `p_harmless`.
#
# Readings that the paper leaves open, fixed here as its authors' code has them: one number j of a
# level's N harmful prefixes is drawn with P(j) proportional to e^(-epsilon j / 2), j = 0 … N, and
# j of them are taken uniformly; with the continuous score, of s violations at most, epsilon is
# divided by s, and prefixes are taken until their violations, each capped at s, add up to j. The
# end is no candidate of the first level. All draws are of exact integer laws, so nothing
# overflows. The authors' code, the profile `reference`, takes "always precedes" to be about the
# last event of an activity and leaves the harmful prefixes that are not chosen at their exact
# counts; `paper` takes it to be about the first event, so that whatever cases begin with is
# harmless, and drops those.
#
# As published the rules are read from the log, so that no epsilon is finite; `guarantee` says
# why. With rules from a public model and a public vocabulary one is, and the budget `honest`
# divides it among the levels, and the rules if they are bought from the log
# (`anonymizers.queries.sacofa`).


def judge_by_rules(
    rules: OrderRules, params: SacofaParams, randomness: Randomness, name: str
) -> Judge:
    """Returns what calls harmful what violates rules, and chooses what is counted all the same.

    Args:
        rules: The rules, over the alphabet's codes.
        params: From how many violations on a candidate is harmful, and how the choice is made.
        randomness: The release's.
        name: What every purpose begins with.
    """

    def judge(
        prefixes: np.ndarray, cells: np.ndarray, is_candidate: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        violations = rules.violations(prefixes).ravel()
        is_harmful = is_candidate & (violations >= params.harmful_from)
        is_counted = is_candidate & ~is_harmful
        harmful = np.flatnonzero(is_harmful)
        depth = cell_numbers(np.array([prefixes.shape[1]]))
        chosen = choose_harmful(
            CellStream(randomness, f"{name}/harmful", depth),
            randomness.words(f"{name}/chosen", cells[harmful]),
            violations[harmful],
            params.largest_violations,
            params.choice_scale,
        )
        is_counted[harmful[chosen]] = True
        return is_harmful, is_counted

    return judge


def _relations(batch: Batch, max_events: int | None) -> ActivityRelations:
    """Cases by pair of activities of which one comes before the other; None: of all events."""
    whole = batch.traces
    return ActivityRelations.from_traces(
        whole if max_events is None else whole.truncate(max_events)
    )


# All parts share this round, since their levels follow from the rules.
_ROUND = "variants"


class Sacofa(prefix_method.LevelMethod, name="sacofa"):
    """The method; see the module."""

    Params: ClassVar[type[SacofaParams]] = SacofaParams

    def parts(self, params: SacofaParams) -> tuple[Part, ...]:
        """Returns the rules where they are bought, and all levels, in one round."""
        rules = (self._selected_rules(need, params) for need in params.needs[:-1])
        return (*rules, self._variants(params))

    def _selected_rules(self, need: Need, params: SacofaParams) -> Part:
        said = {
            "scale": float(Fraction(*params.rules_scale)),
            "epsilon": prefix_method.text_of(params.spending.means["rules"].epsilon),
        }
        does = told(self.name, "rules", params, **said)
        reality = sentence(self.name, "rules_reality", params, **said)

        def decide(given: Given) -> OrderRules:
            relations: ActivityRelations = given.statistics["relations"]
            vocabulary = params.names_in_effect(given.statistics["names"])
            n, least = len(vocabulary), params.least_harmless
            counts = relations.table(vocabulary).ravel()
            cells = cell_numbers(np.arange(len(counts)))
            stream = CellStream(given.randomness, f"{self.name}/rule", cells)
            noisy = counts + draw_laplace(stream, *params.rules_scale)

            # From here on only noisy counts are read.
            pairs, cases, firsts = np.split(noisy.reshape(n + 2, n), [n, n + 1])
            occurs = pairs >= least
            has_other = ~np.eye(n, dtype=bool)
            return OrderRules(
                ~occurs,
                occurs & (cases.T - pairs < least),
                occurs & has_other & ~occurs.T & (cases - pairs < least),
                firsts[0] >= least,
            )

        counter = Counted(ActivityRelations, _relations, (params.max_prefix_length,))
        counters = {"relations": counter}
        return Part("rules", (need,), does, decide, counters, _ROUND, reality)

    def _variants(self, params: SacofaParams) -> Part:
        more = {}
        if params.rules == "log":
            more["relations"] = Counted(ActivityRelations, _relations, (None,))
        if params.form == "positive":
            passing = math.exp((1 - params.least_harmless) / Fraction(*params.scale))
        else:
            passing = prefix_method.chance_of_nothing(params, params.least_harmless)
        said = {
            "epsilon": prefix_method.text_of(params.spending.means["levels"].epsilon),
            "chosen": 1 / math.expm1(1 / Fraction(*params.choice_scale)),
        }

        def judge_of(given: Given, vocabulary: ActivityVocabulary) -> Judge:
            if len(vocabulary) > MAX_ACTIVITIES:
                raise UsageError(TOO_MANY_ACTIVITIES)
            if params.model is not None:
                rules = params.model.over(vocabulary)
            elif params.rules == "bought":
                rules = given.decisions["rules"]
            else:
                relations, at_first = given.statistics["relations"], params.profile == "paper"
                rules = OrderRules.from_relations(relations, vocabulary, at_first)
            return judge_by_rules(rules, params, given.randomness, self.name)

        return self.levels_part(params, passing, judge_of, said, more)
