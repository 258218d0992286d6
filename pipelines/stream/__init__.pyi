from .config import load_stream as load_stream
from .run import run_stream as run_stream
