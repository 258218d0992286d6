from .report import write_report as write_report
from .run import attack_configuration as attack_configuration
