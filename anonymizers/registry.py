"""All methods by name: one line each makes a method available everywhere."""

from __future__ import annotations

from tracecloak.anonymizers.amun.method import Amun
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.graphs.private_dfg import PrivateDfg
from tracecloak.anonymizers.logs.amun_rigorous import AmunRigorous
from tracecloak.anonymizers.logs.pripel_rigorous import PripelRigorous
from tracecloak.anonymizers.logs.private_log import PrivateLog
from tracecloak.anonymizers.pretsa.method import Pretsa, PretsaCase
from tracecloak.anonymizers.pripel.method import Pripel
from tracecloak.anonymizers.queries.laplace_dfg import LaplaceDfg
from tracecloak.anonymizers.queries.laplace_levels import LaplaceLevels
from tracecloak.anonymizers.queries.laplace_variants import LaplaceVariants
from tracecloak.anonymizers.queries.sacofa import Sacofa
from tracecloak.anonymizers.queries.sapa import Sapa
from tracecloak.anonymizers.tlkc.k_anonymous_subtraces import KAnonymousSubtraces
from tracecloak.anonymizers.tlkc.k_anonymous_variants import KAnonymousVariants
from tracecloak.anonymizers.tlkc.method import Tlkc
from tracecloak.anonymizers.trees.dpim import Dpim
from tracecloak.anonymizers.trees.process_tree_miner import ProcessTreeMiner
from tracecloak.anonymizers.variants.auto import AutoVariants
from tracecloak.anonymizers.variants.hybrid import HybridVariants
from tracecloak.anonymizers.variants.markov import MarkovVariants, MarkovVariantsPure
from tracecloak.anonymizers.variants.method import VariantLog
from tracecloak.anonymizers.variants.prefix_tree import PrefixTree
from tracecloak.anonymizers.variants.privtree import PrivTree
from tracecloak.anonymizers.variants.sparse_histogram import SparseHistogram
from tracecloak.anonymizers.variants.stability_histogram import VariantHistogramMethod
from tracecloak.schemas.errors import UsageError

_ALL: tuple[Anonymizer, ...] = (
    Amun(),
    PrivateDfg(),
    ProcessTreeMiner(),
    Dpim(),
    VariantHistogramMethod(),
    VariantLog(SparseHistogram()),
    VariantLog(PrefixTree()),
    VariantLog(PrivTree()),
    VariantLog(MarkovVariants()),
    VariantLog(MarkovVariantsPure()),
    VariantLog(HybridVariants()),
    VariantLog(AutoVariants()),
    VariantLog(LaplaceLevels()),
    PrivateLog(),
    AmunRigorous(),
    LaplaceVariants(),
    Sacofa(),
    LaplaceDfg(),
    Sapa(),
    Pripel(),
    PripelRigorous(),
    KAnonymousVariants(),
    KAnonymousSubtraces(),
    Tlkc(),
    Pretsa(),
    PretsaCase(),
)

METHODS: dict[str, Anonymizer] = {method.name: method for method in _ALL}


def method_named(name: str) -> Anonymizer:
    """Returns the method.

    Raises:
        UsageError: There is none of that name.
    """
    if name not in METHODS:
        raise UsageError(f"method must be one of {', '.join(sorted(METHODS))}, got {name!r}")
    return METHODS[name]
