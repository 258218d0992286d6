"""The table of products of a stream: the name of each, and the class that says all of it."""

from __future__ import annotations

from tracecloak.anonymizers.streams.steps import StepProduct
from tracecloak.schemas.plugins import Plugins

STREAM_PRODUCTS: Plugins[type[StepProduct]] = Plugins(
    "product of a stream",
    "tracecloak.stream_products",
    {
        "dfg": "tracecloak.anonymizers.streams.dfg_steps:DfgSteps",
        "variants": "tracecloak.anonymizers.streams.variant_steps:VariantSteps",
        "indicators": "tracecloak.anonymizers.streams.indicator_steps:IndicatorSteps",
        "log": "tracecloak.anonymizers.streams.log_steps:LogSteps",
    },
    own_name="name",
)
