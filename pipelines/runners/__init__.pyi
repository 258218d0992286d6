from .flags import refuse_unknown as refuse_unknown
from .local_streaming import mend_local_streaming as mend_local_streaming
from .memory import keep_freed_memory as keep_freed_memory
from .names import IN_MEMORY as IN_MEMORY
from .names import is_durable as is_durable
from .names import is_local as is_local
from .options import check_ready as check_ready
from .options import pipeline_options as pipeline_options
