"""The version, as it was installed; `setup.py` has it."""

from tracecloak.schemas.published import manifest

__version__: str = manifest.TOOL_VERSION
