"""`sacofa`: the trace-variant query that prefers prefixes that make sense.

Fahrenkrog-Petersen, Kabierski, Rösel, van der Aa and Weidlich ("SaCoFa: Semantics-aware
Control-flow Anonymization for Process Mining", 2021), Algorithm 1 of Fahrenkrog-Petersen,
Kabierski, van der Aa and Weidlich ("Semantics-aware Mechanisms for Control-flow Anonymization in
Process Mining", 2023). Level by level the surviving prefixes are continued by every activity and by
the end. Candidates that violate rules between activities (`anonymizers.queries.order_rules`) are
harmful, and only a few of them, chosen by the exponential mechanism, go on beside the harmless
ones. Those get a noisy count and are pruned by it, harmful ones by `p_harmful`, the others by
`p_harmless`.

Readings that the paper leaves open, fixed here as its authors' code has them: one number j of a
level's N harmful prefixes is drawn with P(j) proportional to e^(-epsilon j / 2), j = 0 … N, and j
of them are taken uniformly; with the continuous score, of s violations at most, epsilon is divided
by s, and prefixes are taken until their violations, each capped at s, add up to j. The end is no
candidate of the first level. All draws are of exact integer laws, so nothing overflows. The
authors' code, the profile `reference`, takes "always precedes" to be about the last event of an
activity and leaves the harmful prefixes that are not chosen at their exact counts; `paper` takes it
to be about the first event, so that whatever cases begin with is harmless, and drops those.

As published the rules are read from the log, so that no epsilon is finite; `guarantee` says why.
With rules from a public model and a public vocabulary one is, and the budget `honest` divides it
among the levels, and the rules if they are bought from the log
(`anonymizers.queries.sacofa_params`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from tracecloak.anonymizers.accounting.composition import Spend, decimal_text
from tracecloak.anonymizers.contract.counters import Batch, Counted, variants_and_names
from tracecloak.anonymizers.noise.drawing import draw_laplace
from tracecloak.anonymizers.noise.published import sizes_of
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream
from tracecloak.anonymizers.queries.order_rules import OrderRules
from tracecloak.anonymizers.queries.prefix_method import (
    LevelMethod,
    chance_of_nothing,
    decision_of,
    epsilon_in_all,
    half_width_of,
    names_of,
    text_of,
)
from tracecloak.anonymizers.queries.prefix_query import trace_variant_query
from tracecloak.anonymizers.queries.query_method import published_guarantee
from tracecloak.anonymizers.queries.sacofa_params import (
    MAX_ACTIVITIES,
    TOO_MANY_ACTIVITIES,
    SacofaParams,
)
from tracecloak.anonymizers.rigorous.params import DECLARED
from tracecloak.anonymizers.rigorous.parts_method import Given, Part
from tracecloak.anonymizers.variants.generator import VariantsDecision
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.guarantee import Guarantee
from tracecloak.schemas.statistics.relations import ActivityRelations


@dataclass(frozen=True)
class RuleJudge:
    """Calls harmful what violates rules, and chooses those of it that are counted all the same.

    Attributes:
        rules: The rules, over the alphabet's codes.
        harmful_from: Violated rules from which on a candidate is harmful.
        largest: What a harmful candidate counts for at most in the choice.
        scale: (numerator, denominator) of the choice.
        randomness: The release's.
        name: What every purpose begins with.
    """

    rules: OrderRules
    harmful_from: int
    largest: int
    scale: tuple[int, int]
    randomness: Randomness
    name: str

    def judge(
        self, prefixes: np.ndarray, cells: np.ndarray, is_candidate: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Judges the candidates of a level.

        Args:
            prefixes: int32[n_survivors, depth], the prefixes that go on.
            cells: uint64[n_survivors * n_symbols, 2], what keys each candidate: of each prefix its
                continuations by every activity in the order of their codes, and by the end.
            is_candidate: bool[n_survivors * n_symbols], false for what is out of the question.

        Returns:
            (bool[n], bool[n]): which are harmful, and which are counted; what is not counted gets
            no noisy count, so it is not released and does not go on.
        """
        violations = self.rules.violations(prefixes).ravel()
        is_harmful = is_candidate & (violations >= self.harmful_from)
        is_counted = is_candidate & ~is_harmful
        harmful = np.flatnonzero(is_harmful)
        is_counted[
            harmful[self._chosen(violations[harmful], cells[harmful], prefixes.shape[1])]
        ] = True
        return is_harmful, is_counted

    def _chosen(self, violations: np.ndarray, cells: np.ndarray, depth: int) -> np.ndarray:
        """Returns int64[m], positions of the chosen ones, in a random order."""
        stream = CellStream(
            self.randomness, f"{self.name}/harmful", cell_numbers(np.array([depth]))
        )
        # The remainder of a geometric number divided by N + 1 has the geometric law restricted to 0
        # … N.
        size = sizes_of(draw_laplace(stream, *self.scale))[0] % (len(violations) + 1)
        words = self.randomness.words(f"{self.name}/chosen", cells)
        order = np.lexsort((words[:, 1], words[:, 0]))
        counted = np.minimum(violations[order], self.largest)
        return order[np.cumsum(counted) - counted < size]


def _relations(batch: Batch, max_events: int | None) -> ActivityRelations:
    """Cases by pair of activities of which one comes before the other; None: of all events."""
    whole = batch.traces
    return ActivityRelations.from_traces(
        whole if max_events is None else whole.truncate(max_events)
    )


# All parts share this round, since their levels follow from the rules.
_ROUND = "variants"


class Sacofa(LevelMethod):
    """The method; see the module."""

    name: ClassVar[str] = "sacofa"
    version: ClassVar[int] = 2
    summary: ClassVar[str] = "noisy counts of prefixes that make sense, level by level"
    Params: ClassVar[type[SacofaParams]] = SacofaParams
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"epsilon": "1", "max_prefix_length": 5, "p_harmful": 4, "p_harmless": 3},
    )

    def parts(self, params: SacofaParams) -> tuple[Part, ...]:
        """Returns the rules where they are bought, and all levels, in one round."""
        variants = self._variants(params)
        return (self._bought_rules(params), variants) if params.rules == "bought" else (variants,)

    def _bought_rules(self, params: SacofaParams) -> Part:
        scale = float(Fraction(*params.rules_scale))
        reality = (
            "The rules follow from counts of which activity comes before which, which a unit "
            f"changes by at most {params.rules_changed.l1} in total; exact discrete Laplace noise "
            f"of scale {scale:g} covers them with epsilon {text_of(params.rules_epsilon)}."
        )
        sentence = (
            "counts in how many cases one activity comes before another, with noise of scale "
            f"{scale:.4g}, and takes the rules that all but fewer than {params.least_harmless} "
            "noisy cases keep"
        )

        def decide(given: Given) -> OrderRules:
            relations = given.statistics["relations"]
            vocabulary = names_of(given.statistics, params)
            return _noisy_rules(relations, vocabulary, params, given.randomness, self.name)

        needs = tuple(need for need in params.needs if need.name == "rules")
        counters = {
            "relations": Counted(ActivityRelations, _relations, (params.max_prefix_length,))
        }
        return Part("rules", needs, lambda means: sentence, decide, counters, _ROUND, reality)

    def _variants(self, params: SacofaParams) -> Part:
        counters = variants_and_names()
        if params.rules == "log":
            counters["relations"] = Counted(ActivityRelations, _relations, (None,))
        source = "the noisy rules" if params.rules == "bought" else "the public model"
        reality = (
            f"A case is in one candidate of each of the {params.max_prefix_length} levels; exact "
            f"discrete Laplace noise of scale {float(Fraction(*params.scale)):g} on every counted "
            "candidate covers all levels together with epsilon "
            f"{text_of(params.epsilon_of_levels)}. Which candidates there are, which of them are "
            "harmful and how many of those are chosen follows from noisy counts, "
            f"{source} and chance alone."
        )
        sentence = _sentence(params)

        def decide(given: Given) -> VariantsDecision:
            return self._answered(given, params)

        needs = tuple(need for need in params.needs if need.name == "levels")
        return Part("variants", needs, lambda means: sentence, decide, counters, _ROUND, reality)

    def spends_as_published(self, params: SacofaParams) -> tuple[Spend, ...]:
        """Returns the levels, where their epsilon is finite."""
        if _reasons(params):
            return ()
        return (Spend("levels", "pure", epsilon_in_all(params, params.form), Fraction(0)),)

    def guarantee_as_published(self, params: SacofaParams) -> Guarantee:
        """Returns the published claim and what holds."""
        k = params.max_prefix_length
        in_all = epsilon_in_all(params, params.form)
        alone = (
            f"he noise of the counts on {k} levels, each of which has all of epsilon, costs "
            f"{text_of(in_all)} in all"
            + (
                "."
                if params.form == "discrete"
                else ", as it is cut off towards 0."
                if params.form == "truncated"
                else ", as counts are made to come out positive."
            )
        )
        reasons = _reasons(params)
        is_finite = not reasons
        if is_finite:
            reasons.append(
                "The model and the vocabulary are public, so which prefixes are harmful follows "
                "from them and from noisy counts, and choosing among them costs nothing. T" + alone
            )
        else:
            reasons.insert(0, "No finite epsilon holds.")
            reasons.append("Without all that, t" + alone)
        return published_guarantee(
            params,
            f"epsilon = {decimal_text(Fraction(params.epsilon))}, by the exponential mechanism on "
            "harmful prefixes and Laplace noise of scale 1/epsilon on every count.",
            " ".join(reasons),
            in_all if is_finite else None,
            "Pruning thresholds that are chosen until the query is fast, as published, tell of the "
            "log.",
            *(() if params.vocabulary is None else (DECLARED,)),
        )

    def _answered(self, given: Given, params: SacofaParams) -> VariantsDecision:
        """What comes of the levels.

        Raises:
            UsageError: As published, a level has too many candidates, the release too many events,
                or the log too many activities.
        """
        vocabulary = names_of(given.statistics, params)
        if len(vocabulary) > MAX_ACTIVITIES:
            raise UsageError(TOO_MANY_ACTIVITIES)
        judge = RuleJudge(
            _rules(given, vocabulary, params),
            params.harmful_from,
            params.largest_violations,
            params.choice_scale,
            given.randomness,
            self.name,
        )
        variants, n_names = given.statistics["variants"], len(vocabulary)
        counts = trace_variant_query(
            variants, n_names, params.query, given.randomness, self.name, judge
        )
        # In the form "positive" a small count was made positive, and says little about the true
        # one, so it gets no interval.
        half_width = None if params.form == "positive" else half_width_of(params)
        return decision_of(counts, vocabulary, params, half_width)


def _noisy_rules(
    relations: ActivityRelations,
    vocabulary: ActivityVocabulary,
    params: SacofaParams,
    randomness: Randomness,
    name: str,
) -> OrderRules:
    """The rules of the noisy counts of cases over a public alphabet."""
    n, least = len(vocabulary), params.least_harmless
    exact = [relations.matrix(vocabulary).ravel(), relations.cases(vocabulary)]
    counts = np.concatenate([*exact, relations.firsts(vocabulary)])
    stream = CellStream(randomness, f"{name}/rule", cell_numbers(np.arange(len(counts))))
    noisy = counts + draw_laplace(stream, *params.rules_scale)

    # From here on only noisy counts are read.
    pairs, cases, firsts = noisy[: n * n].reshape(n, n), noisy[-2 * n : -n], noisy[-n:]
    occurs = pairs >= least
    has_other = ~np.eye(n, dtype=bool)
    return OrderRules(
        ~occurs,
        occurs & (cases[:, np.newaxis] - pairs < least),
        occurs & has_other & ~occurs.T & (cases[np.newaxis] - pairs < least),
        firsts >= least,
    )


def _rules(given: Given, vocabulary: ActivityVocabulary, params: SacofaParams) -> OrderRules:
    if params.model is not None:
        return params.model.over(vocabulary)
    if params.rules == "bought":
        rules: OrderRules = given.decisions["rules"]
        return rules
    relations = given.statistics["relations"]
    return OrderRules.of_relations(relations, vocabulary, params.profile == "paper")


def _sentence(params: SacofaParams) -> str:
    chosen = 1 / math.expm1(1 / Fraction(*params.choice_scale))
    if params.form == "positive":
        passing = math.exp((1 - params.least_harmless) / Fraction(*params.scale))
    else:
        passing = chance_of_nothing(params, params.least_harmless)
    source = {"log": "the log", "model": "the public model", "bought": "noisy counts"}
    others = f"about {chosen:.3g} others"
    if params.score == "continuous":
        others = f"others of about {chosen:.3g} violations in all"
    harmful = f"harmful ones of at least {params.p_harmful}"
    if params.p_harmful == "inf":
        harmful = "no harmful one"
    return (
        f"counts the cases of prefixes on {params.max_prefix_length} levels that keep the rules of "
        f"{source[params.rules]}, and on each {others}, with noise of scale "
        f"{float(Fraction(*params.scale)):.4g}; continues harmless ones of at least "
        f"{params.least_harmless} and {harmful}; a harmless one without cases survives with "
        f"probability {passing:.2g}"
    )


def _reasons(params: SacofaParams) -> list[str]:
    """Returns why no epsilon is finite, in sentences; none where one is."""
    reasons = []
    if params.rules == "log":
        reasons.append(
            "The rules are read from the log, and one more case can turn rules between all of its "
            "activities, so that it depends on that case whether a prefix is certain to be counted "
            "or must be chosen."
        )
    if params.keeps_uncounted:
        reasons.append(
            "Harmful prefixes that are not chosen keep their exact counts, without noise, and some "
            "cases begin with such prefixes, as the last of several events of an activity may be "
            "preceded by what the first of them is not."
        )
    if params.vocabulary is None:
        reasons.append(
            "The activities are read from the log, so one that only one case has proves that "
            "case's presence when it comes out."
        )
    return reasons
