"""`joint-variants` as a method: variants, and what was counted of groups where these are declared.

With groups the noisy sums are released beside the variants, since the graph of the groups follows
from them (`anonymizers.logs.group_figures`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.noting import Noting
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.rigorous.group_params import GroupedParams
from tracecloak.anonymizers.variants.generator import VariantGenerator, VariantsDecision
from tracecloak.anonymizers.variants.joint_variants import JointVariants
from tracecloak.anonymizers.variants.method import VariantLog, VariantLogParams
from tracecloak.schemas.published.measures import ReleasedMeasures
from tracecloak.schemas.published.variants import ReleasedVariants


class JointVariantsParams(VariantLogParams, GroupedParams):
    """Parameters of `joint-variants`."""


@dataclass(frozen=True)
class MeasuredVariantsDecision(contract.Decision):
    """What is released where groups are counted.

    Attributes:
        variants: The variants with their noisy numbers of cases.
        measures: The noisy sums that they follow from.
    """

    wire_name: ClassVar[str] = "measured-variants"

    variants: ReleasedVariants
    measures: ReleasedMeasures


class JointVariantsLog(VariantLog):
    """The method; see the module."""

    name: ClassVar[str] = JointVariants.name

    def __init__(self) -> None:
        """Makes the method of its generator."""
        super().__init__(JointVariants())
        groups = {"A": "first", "B": "first"}
        self.examples = (*self.examples, {**self.examples[0], "groups": groups})  # type: ignore[misc]

    @property
    def Params(self) -> type[JointVariantsParams]:  # noqa: N802  # a type, named as one
        """The type of the parameters."""
        return JointVariantsParams

    def generator(self, params: JointVariantsParams) -> VariantGenerator:
        """Returns what makes the variants, with groups if any are declared."""
        if params.grouping is None:
            return self._generator
        from tracecloak.anonymizers.groups.grouped_variants import GroupedVariants

        return GroupedVariants(params.grouping)

    def decide(
        self,
        round_name: str,
        statistics: Mapping[str, Any],
        decisions: contract.Decisions,
        params: JointVariantsParams,
        randomness: Randomness,
    ) -> contract.Decision:
        """Decides the parts of a round, and with groups keeps the noisy sums."""
        if params.grouping is None or round_name != "variants":
            return super().decide(round_name, statistics, decisions, params, randomness)
        noting = Noting(randomness.noise)
        listened = randomness.with_noise(noting)
        decision = super().decide(round_name, statistics, decisions, params, listened)
        assert isinstance(decision, VariantsDecision)
        return MeasuredVariantsDecision(decision.variants, noting.measures)

    def writes(self, params: Any) -> tuple[str, ...]:
        """Returns the names of the products."""
        return (*super().writes(params), *(() if params.grouping is None else ("measures",)))

    def products(self, decisions: contract.Decisions, params: Any) -> contract.Products:
        """Returns the variants, and with groups the noisy sums."""
        products = super().products(decisions, params)
        if params.grouping is None:
            return products
        sums = {"measures": decisions["variants"].measures}
        return contract.Products({**products.by_name, **sums}, products.came_out)
