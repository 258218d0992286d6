from .report import summary_lines as summary_lines
from .report import write_report as write_report
from .run import DEFAULT_RELEASES as DEFAULT_RELEASES
from .run import attack_configuration as attack_configuration
