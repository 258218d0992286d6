"""All methods by name: one line each makes a method available everywhere."""

from __future__ import annotations

from anonymizers.amun import Amun
from anonymizers.amun_rigorous import AmunRigorous
from anonymizers.auto_variants import AutoVariants
from anonymizers.base import Anonymizer
from anonymizers.dpim import Dpim
from anonymizers.hybrid_variants import HybridVariants
from anonymizers.k_anonymous_subtraces import KAnonymousSubtraces
from anonymizers.k_anonymous_variants import KAnonymousVariants
from anonymizers.laplace_dfg import LaplaceDfg
from anonymizers.laplace_variants import LaplaceVariants
from anonymizers.markov_variants import MarkovVariants, MarkovVariantsPure
from anonymizers.prefix_tree_variants import PrefixTree
from anonymizers.pretsa import Pretsa, PretsaCase
from anonymizers.pripel import Pripel
from anonymizers.pripel_rigorous import PripelRigorous
from anonymizers.private_dfg import PrivateDfg
from anonymizers.private_log import PrivateLog
from anonymizers.privtree import PrivTree
from anonymizers.process_tree_miner import ProcessTreeMiner
from anonymizers.sacofa import Sacofa
from anonymizers.sapa import Sapa
from anonymizers.sparse_histogram import SparseHistogram
from anonymizers.tlkc import Tlkc
from anonymizers.trace_variant_query import LaplaceLevels
from anonymizers.variant_histogram import VariantHistogramMethod
from anonymizers.variant_log import VariantLog
from schemas.errors import UsageError

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
