from .local_streaming import mend_local_streaming as mend_local_streaming
from .options import IN_MEMORY as IN_MEMORY
from .options import check_ready as check_ready
from .options import is_durable as is_durable
from .options import is_local as is_local
from .options import pipeline_options as pipeline_options
