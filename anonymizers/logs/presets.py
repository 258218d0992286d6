"""`pripel-rigorous`: PRIPEL's parameters and kind of release, by `private-log`.

PRIPEL (Fahrenkrog-Petersen, van der Aa, Weidlich, 2020) releases sequences from a noisy query with
times and attribute values that stem from single cases of the log. Here nothing of a case is copied
or matched: variants, times and values come from noisy counts, and epsilon and delta hold for all of
them together (`anonymizers.logs.private_log`). `max_prefix_length` is the number of events of a
case that count, and `p_harmful` prunes as in PRIPEL: a released variant with fewer cases is left
out. That looks at what is released alone and costs nothing.

`amun-rigorous`: Amun's one parameter, kept: `private-log` at the epsilon that it asks for.

Amun (Elkoumy, Pankova and Dumas) asks how much a release may raise the probability that an attacker
guesses which course a case took: its guessing advantage g. That is a question about replacing a
case, and a release that is epsilon-DP for adding or removing one is 2 epsilon-DP for it. A prior
guess p then rises to at most p e^E / (p e^E + 1 - p) with E = 2 epsilon, which is most above p at
p = 1 / (1 + e^(E/2)), by tanh(E / 4). So epsilon = ln((1 + g) / (1 - g)) keeps the rise at g or
less, whatever the prior, for all that is released: 0.405, 0.619 and 0.847 for g of 0.2, 0.3 and
0.4. With delta above 0 it is as if, with the delta that the statement names for this question, the
guess were told.

Unlike Amun nothing is filtered, copied or deleted by what the log says, and no epsilon is announced
for single events.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting.calibration import epsilon_of_guessing_advantage
from tracecloak.anonymizers.logs.params import PrivateLogParams
from tracecloak.anonymizers.logs.private_log import PrivateLog
from tracecloak.anonymizers.noise.samplers import LARGEST_TERM
from tracecloak.anonymizers.rigorous.params import Exact
from tracecloak.anonymizers.rigorous.parts_method import Given, PartsDecision
from tracecloak.schemas.published.variants import ReleasedVariants, most_frequent_first


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


class AmunRigorous(PrivateLog):
    """The method; see the module."""

    name: ClassVar[str] = "amun-rigorous"
    summary: ClassVar[str] = "a log with times that keeps Amun's guessing advantage"
    Params: ClassVar[type[PrivateLogParams]] = AmunRigorousParams
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {
            "guessing_advantage": "0.4",
            "vocabulary": ("A", "B", "C"),
            "max_trace_length": 4,
            "first_date": "2020-01-01",
            "last_date": "2020-12-31",
            "l2_clip": "4",
            "n_duration_bins": 4,
        },
    )


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


class PripelRigorous(PrivateLog):
    """The method; see the module."""

    name: ClassVar[str] = "pripel-rigorous"
    summary: ClassVar[str] = "a log with times and values under PRIPEL's parameters"
    Params: ClassVar[type[PrivateLogParams]] = PripelRigorousParams
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {
            "epsilon": "1",
            "vocabulary": ("A", "B", "C"),
            "max_prefix_length": 4,
            "first_date": "2020-01-01",
            "last_date": "2020-12-31",
            "l2_clip": "4",
            "n_duration_bins": 4,
            "attributes": {"org:resource": {"values": ["R1", "R2"]}},
        },
    )

    def combined(
        self, round_name: str, decided: dict[str, Any], given: Given, params: Any
    ) -> PartsDecision:
        """Returns what `private-log` decides, without what is pruned of it."""
        parts = super().combined(round_name, decided, given, params).parts
        if "variants" not in parts:
            return PartsDecision(parts)
        variants = pruned(parts["variants"], params.p_harmful)
        return PartsDecision({**parts, "variants": variants})


def pruned(variants: ReleasedVariants, least: int) -> ReleasedVariants:
    """Returns the variants of at least so many cases, without intervals."""
    counts = np.where(variants.counts >= least, variants.counts, 0)
    return most_frequent_first(variants.names, variants.offsets, variants.codes, counts)
