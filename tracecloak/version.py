"""The version of tracecloak."""

from tracecloak.schemas.published import manifest

__version__: str = manifest.TOOL_VERSION
