"""What an operator sees: results in one form for all commands, progress, scripts of completion.

What a command finds out, and in which words, is the command's own.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
