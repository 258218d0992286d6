"""How a checkout without links is imported.

In git the five folders of the package are links in `tracecloak/`. Windows, and many programs that
unpack archives, make text files of links, which Python passes over. The folders themselves lie next
to `tracecloak/`. An installed package has them in itself, and does not load this module.
"""

from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

_ROOT = Path(__file__).parents[1]
FOLDERS = ("anonymizers", "examination", "pipelines", "schemas", "transforms")


class FolderFinder:
    """Finds the five folders as packages of tracecloak, and nothing else that lies there."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns where a package is, or None; `sys.meta_path` calls it."""
        parent, _, folder = name.rpartition(".")
        if parent != "tracecloak" or folder not in FOLDERS:
            return None
        return spec_from_file_location(name, _ROOT / folder / "__init__.py")
