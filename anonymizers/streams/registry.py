"""The table of products of a stream: the name of each, and the class that says all of it."""

from __future__ import annotations

from tracecloak.anonymizers.streams.steps import StepProduct
from tracecloak.schemas.plugins import Plugins

_HERE = "tracecloak.anonymizers.streams"
STREAM_PRODUCTS: Plugins[type[StepProduct]] = Plugins(
    "product of a stream",
    "tracecloak.stream_products",
    {
        "dfg": f"{_HERE}.dfg_steps:DfgSteps",
        "variants": f"{_HERE}.variant_steps:VariantSteps",
        "log": f"{_HERE}.log_steps:LogSteps",
    },
)
