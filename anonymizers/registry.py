"""All methods by name: one line each makes a method available everywhere.

The lines are entries of `methods.json`. What is named is loaded when it is asked for; what is
declared of it is known before. Other distributions add methods by entry points of the group
`tracecloak.methods`, each a class, or an instance, of `Anonymizer` or of `VariantGenerator`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NewType, cast

from tracecloak.anonymizers.contract.declarations import declarations
from tracecloak.schemas.plugins import Plugins

if TYPE_CHECKING:
    from tracecloak.anonymizers.contract.method import Anonymizer

PluginMethod = NewType("PluginMethod", str)
"""Name of a method of another distribution, or of one that is known at run time only: type checkers
let a call with it have any parameters, and refuse a plain `str`, as it may be misspelt."""


def _instance(loaded: Any) -> Anonymizer:
    instance = loaded() if isinstance(loaded, type) else loaded
    if not hasattr(instance, "answer"):
        return cast("Anonymizer", instance)
    from tracecloak.anonymizers.variants.method import VariantLog

    return VariantLog(instance)  # a generator of variants is the method that releases what it makes


REMOVED = {
    "hybrid-log": "auto-variants or joint-variants",
    "prefix-tree": "auto-variants, or sparse-histogram, which works without a delta",
}
"""Methods that were removed, and what to use instead; ledgers and manifests contain these names."""

METHODS: Plugins[Anonymizer] = Plugins(
    "method",
    "tracecloak.methods",
    {name: f"tracecloak.anonymizers.{row['class']}" for name, row in declarations().items()},
    make=_instance,
    removed=REMOVED,
    own_name="name",
)


def method_named(name: str) -> Anonymizer:
    """Returns the method.

    Raises:
        UsageError: There is none of that name, or it is another distribution's and cannot be
            loaded.
    """
    return METHODS.named(name)
