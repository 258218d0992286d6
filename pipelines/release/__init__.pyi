from .config import Columns as Columns
from .config import ReleaseConfig as ReleaseConfig
from .config import Where as Where
from .config import load as load
from .config import load_source as load_source
from .run import run_release as run_release
