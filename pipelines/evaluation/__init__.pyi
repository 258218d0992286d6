from .evaluate import evaluate as evaluate
from .evaluate import require_extras as require_extras
from .origin import check_origin as check_origin
from .origin import share_noted_in as share_noted_in
from .report import markdown_lines as markdown_lines
from .report import summary_lines as summary_lines
