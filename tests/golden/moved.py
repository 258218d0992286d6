"""Releases as a build would make them in which every module lies elsewhere.

`python -m tests.golden.moved release...` prints their digests as JSON. Every module of values and
methods is renamed when it is imported, so that all classes in it say that they are from elsewhere;
and all methods have one parameter more, at its default.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

_MOVED = ("tracecloak.schemas.", "tracecloak.anonymizers.")
_PARAMS = "tracecloak.anonymizers.contract.method"
NEUTRAL = "min_count"


class _Elsewhere(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules where they are, and has them run under another name."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith(_MOVED):
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        found = next(filter(None, (finder.find_spec(name, path, target) for finder in others)))
        if found.submodule_search_locations is None:  # a package has to know where it is
            self._inner, found.loader = found.loader, self
            found.loader_state = self._inner
        return found

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        name, inner = module.__name__, module.__spec__.loader_state
        module.__name__ = f"elsewhere.{name}"
        sys.modules[module.__name__] = module  # where what it defines is looked for
        exec(inner.get_code(name), module.__dict__)
        module.__name__ = name
        if name == _PARAMS:
            _add_neutral(module)


def _add_neutral(module: Any) -> None:
    import pydantic

    more: dict[str, Any] = {NEUTRAL: (int, 0)}
    module.Params = pydantic.create_model("Params", __base__=module.Params, **more)


def main(names: Sequence[str]) -> None:
    """Prints the digests of the releases of these names."""
    sys.meta_path.insert(0, _Elsewhere())
    sys.modules["elsewhere"] = ModuleType("elsewhere")  # pickles import it
    from tests.golden.processors import digests_here
    from tracecloak.anonymizers.registry import METHODS
    from tracecloak.schemas.statistics.variants import VariantHistogram

    assert VariantHistogram.__module__.startswith("elsewhere.")
    for method in METHODS.values():
        assert method.__module__.startswith("elsewhere.")
        assert NEUTRAL in method.Params.model_fields
    sys.stdout.write(json.dumps(digests_here(names)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
