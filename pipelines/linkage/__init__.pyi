from .knowledge import Settings as Settings
from .logs import sensitive_columns as sensitive_columns
