from .compare_log import Original as Original
from .run import GRIDS as GRIDS
