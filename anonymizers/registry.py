"""All methods by name: one line each makes a method available everywhere.

What is named is loaded when it is asked for. Other distributions add methods by entry points of the
group `tracecloak.methods`, each a class, or an instance, of `Anonymizer` or of `VariantGenerator`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NewType, cast

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
    {
        "amun": "tracecloak.anonymizers.amun.method:Amun",
        "private-dfg": "tracecloak.anonymizers.graphs.private_dfg:PrivateDfg",
        "pappi": "tracecloak.anonymizers.indicators.pappi:Pappi",
        "private-indicators": ("tracecloak.anonymizers.indicators.errors:PrivateIndicators"),
        "process-tree": "tracecloak.anonymizers.trees.process_tree:ProcessTreeMiner",
        "dpim": "tracecloak.anonymizers.trees.dpim:Dpim",
        "variant-histogram": ("tracecloak.anonymizers.variants.method:VariantHistogramMethod"),
        "sparse-histogram": "tracecloak.anonymizers.variants.sparse_histogram:SparseHistogram",
        "privtree": "tracecloak.anonymizers.variants.privtree:PrivTree",
        "markov-log": "tracecloak.anonymizers.variants.markov:MarkovVariants",
        "markov-log-pure": "tracecloak.anonymizers.variants.markov:MarkovVariantsPure",
        "joint-variants": "tracecloak.anonymizers.variants.method:JointVariantsLog",
        "auto-variants": "tracecloak.anonymizers.variants.auto:AutoVariants",
        "laplace-levels": "tracecloak.anonymizers.queries.prefix_query:LaplaceLevels",
        "private-log": "tracecloak.anonymizers.logs.private_log:PrivateLog",
        "amun-rigorous": "tracecloak.anonymizers.logs.private_log:AmunRigorous",
        "laplace-variants": "tracecloak.anonymizers.queries.prefix_method:LaplaceVariants",
        "sacofa": "tracecloak.anonymizers.queries.sacofa:Sacofa",
        "laplace-dfg": "tracecloak.anonymizers.queries.pair_query:LaplaceDfg",
        "sapa": "tracecloak.anonymizers.queries.sapa:Sapa",
        "pripel": "tracecloak.anonymizers.queries.pripel:Pripel",
        "pripel-rigorous": "tracecloak.anonymizers.logs.private_log:PripelRigorous",
        "k-anonymous-variants": (
            "tracecloak.anonymizers.tlkc.k_anonymous_variants:KAnonymousVariants"
        ),
        "k-anonymous-subtraces": (
            "tracecloak.anonymizers.tlkc.k_anonymous_variants:KAnonymousSubtraces"
        ),
        "tlkc": "tracecloak.anonymizers.tlkc.method:Tlkc",
        "pretsa": "tracecloak.anonymizers.pretsa.method:Pretsa",
        "pretsa-case": "tracecloak.anonymizers.pretsa.method:PretsaCase",
    },
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
