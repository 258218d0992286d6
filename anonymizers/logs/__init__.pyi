from .amun_rigorous import AmunRigorous as AmunRigorous
from .amun_rigorous import AmunRigorousParams as AmunRigorousParams
from .params import PrivateLogParams as PrivateLogParams
from .pripel_rigorous import PripelRigorous as PripelRigorous
from .pripel_rigorous import PripelRigorousParams as PripelRigorousParams
from .private_log import PrivateLog as PrivateLog
