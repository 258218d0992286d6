from .report import write_report as write_report
from .run import check_configuration as check_configuration
