"""`amun-rigorous`: Amun's one parameter, kept: `private-log` at the epsilon that it asks for.

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

import pydantic
from pydantic import Field

from tracecloak.anonymizers.accounting.guessing import epsilon_of_guessing_advantage
from tracecloak.anonymizers.logs.params import PrivateLogParams
from tracecloak.anonymizers.logs.private_log import PrivateLog
from tracecloak.anonymizers.rigorous.params import Exact


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
        {
            "guessing_advantage": "0.3",
            "delta": "0",
            "vocabulary": ("A", "B"),
            "max_trace_length": 3,
            "max_cases_per_individual": 2,
            "n_duration_bins": 4,
        },
    )
