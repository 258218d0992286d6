from .private_dfg import PrivateDfg as PrivateDfg
from .private_dfg import PrivateDfgParams as PrivateDfgParams
