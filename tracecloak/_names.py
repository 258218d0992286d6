"""How a public module has names of other modules without loading these before they are used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping


def offered(
    module: dict[str, object], places: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Returns `__getattr__`, `__dir__` and `__all__` of a module; loads nothing.

    A name is kept in the module when it was used once.

    Args:
        module: The module's `globals()`.
        places: The names that it offers, with blanks between them, by the module of tracecloak
            that has them.
    """
    place_of = {name: place for place, names in places.items() for name in names.split()}

    def get(name: str) -> object:
        if name not in place_of:
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        module[name] = getattr(importlib.import_module(f"tracecloak.{place_of[name]}"), name)
        return module[name]

    return get, lambda: sorted({*module, *place_of}), sorted(place_of)
