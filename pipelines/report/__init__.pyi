from .internal import Asked as Asked
from .internal import internal_report as internal_report
