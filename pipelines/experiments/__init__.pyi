from .compare_log import Original as Original
from .run import DEFAULT_PATIENCE as DEFAULT_PATIENCE
from .run import GRIDS as GRIDS
from .run import REPORT_FILES as REPORT_FILES
