from .cuts import build_tree as build_tree
from .dpim import Dpim as Dpim
from .dpim_params import DpimParams as DpimParams
from .of_release import tree_of_graph as tree_of_graph
from .of_release import tree_of_variants as tree_of_variants
from .process_tree_miner import ProcessTreeMiner as ProcessTreeMiner
from .process_tree_params import ProcessTreeParams as ProcessTreeParams
