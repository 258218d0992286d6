from .config import load_stream as load_stream
from .config import log_keys as log_keys
from .config import stream_keys as stream_keys
from .run import run_stream as run_stream
