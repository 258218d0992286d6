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

from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting.calibration import laplace_scale
from tracecloak.anonymizers.accounting.sensitivity import Sensitivity, of_count, of_order
from tracecloak.anonymizers.noise.samplers import LARGEST_TERM
from tracecloak.anonymizers.queries.order_rules import NamedRules
from tracecloak.anonymizers.queries.prefix_method import Form, LevelParams
from tracecloak.anonymizers.queries.prefix_query import LevelQuery
from tracecloak.anonymizers.rigorous.budget import Need, Pure
from tracecloak.anonymizers.rigorous.params import Exact, drawable

# The rules are matrices of activities by activities.
MAX_ACTIVITIES = 4096
TOO_MANY_ACTIVITIES = (
    f"activities are compared pair by pair, and {MAX_ACTIVITIES:,} of them is the most, __other__ "
    "included: give a public vocabulary of those that matter"
)
# No noisy count reaches it.
_NEVER = LARGEST_TERM + 1


class SacofaParams(LevelParams):
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
    def least_harmful(self) -> int:
        """Smallest noisy count of a harmful prefix that survives."""
        return _NEVER if self.p_harmful == "inf" else int(self.p_harmful)

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
    def rules_epsilon(self) -> Fraction:
        """What the rules spend, where they are bought."""
        return self.spending.means["rules"].epsilon

    @property
    def rules_scale(self) -> tuple[int, int]:
        """(numerator, denominator) of the scale of the noise of bought rules, in cases.

        Raises:
            UsageError: Noise so wide cannot be drawn.
        """
        return self.spending.means["rules"].noise(self.rules_changed).scale

    @property
    def form(self) -> Form:
        """The law of the noise."""
        if self.is_honest:
            return "discrete"
        return "positive" if self.profile == "paper" else "truncated"

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
    def keeps_uncounted(self) -> bool:
        """Whether harmful prefixes that are not chosen keep their exact counts."""
        return self.profile == "reference" and self.rules == "log"

    @property
    def query(self) -> LevelQuery:
        """The query of the prefixes, level by level."""
        return self.level_query(
            self.form,
            self.least_harmless,
            is_positive=self.form == "positive",
            harmful_threshold=self.least_harmful,
            keeps_uncounted=self.keeps_uncounted,
            named="p_harmless",
        )
