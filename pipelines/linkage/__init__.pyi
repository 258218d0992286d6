from .knowledge import Settings as Settings
