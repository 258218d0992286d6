"""Tables of what a distribution offers by name, each loaded when it is asked for.

An entry is a name and the place of what it stands for, as `module:attribute`, or a small value that
has such places in it. Other distributions add entries of their own by entry points of the table's
group (packaging.python.org, "Entry points specification"), which are looked for when a name is not
ours or when all names are asked for.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from typing import Any, Generic, TypeVar

from tracecloak.schemas.errors import UsageError

T = TypeVar("T")


def load(place: str) -> Any:
    """Returns what is at a place, `module:attribute`; imports the module.

    Raises:
        ImportError: There is no such module.
        AttributeError: It has no such attribute.
    """
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(module), attribute)


@functools.cache
def _entry_points() -> tuple[metadata.EntryPoint, ...]:
    """All that is added to us, in any group: looked for once, as it takes a while."""
    found = metadata.entry_points()
    groups = (group for group in found.groups if group.startswith("tracecloak."))
    return tuple(point for group in groups for point in found.select(group=group))


@functools.cache
def packages_of_others() -> tuple[str, ...]:
    """Returns the packages from which other distributions add entries to any of our tables.

    Of `acme.logs.toy:TOY` that is `acme.logs`, and of `toy:TOY` the module itself.
    """
    modules = {point.module for point in _entry_points()}
    return tuple(sorted({module.rpartition(".")[0] or module for module in modules}))


class Plugins(Mapping[str, T], Generic[T]):
    """What can be had by name: ours, and what other distributions add.

    Entries are loaded on use and kept. A name of ours cannot be taken by another distribution, and
    one that two of them claim is refused when it is used.

    Args:
        what: What an entry is, in a word, for messages.
        group: The entry-point group of other distributions.
        ours: `module:attribute` by name, or the value itself, which is no text.
        make: Makes the value of an entry from what was loaded or given, such as an instance of a
            class; by default the value is that. What it raises is an error of the entry.
    """

    def __init__(
        self,
        what: str,
        group: str,
        ours: Mapping[str, str | T],
        make: Callable[[Any], T] = lambda loaded: loaded,
    ) -> None:
        self._what = what
        self._group = group
        self._ours = dict(ours)
        self._make = make
        self._made: dict[str, T] = {}

    @property
    def ours(self) -> dict[str, T]:
        """What is ours by name, whatever others add."""
        return {name: self[name] for name in self._ours}

    @property
    def _others(self) -> dict[str, list[metadata.EntryPoint]]:
        found: dict[str, list[metadata.EntryPoint]] = {}
        for point in _entry_points():
            if point.group == self._group and point.name not in self._ours:
                found.setdefault(point.name, []).append(point)
        return found

    def __getitem__(self, name: str) -> T:
        """Returns what the name stands for.

        Raises:
            KeyError: There is none of that name.
            UsageError: Several distributions claim the name, or what it stands for cannot be
                loaded.
        """
        if name not in self._made:
            self._made[name] = (
                self._make_ours(name) if name in self._ours else self._make_other(name)
            )
        return self._made[name]

    def _make_ours(self, name: str) -> T:
        entry = self._ours[name]
        return self._make(load(entry) if isinstance(entry, str) else entry)

    def _make_other(self, name: str) -> T:
        points = self._others[name]
        if len(points) > 1:
            claimants = ", ".join(sorted(point.value for point in points))
            raise UsageError(
                f"{self._what} {name!r} is offered by {claimants}; uninstall all but one of them"
            )
        try:
            return self._make(points[0].load())
        except Exception as error:  # whatever a stranger's module does when it is imported
            raise UsageError(
                f"{self._what} {name!r} of another distribution, {points[0].value}, cannot be "
                f"loaded ({type(error).__name__}); mend or uninstall it"
            ) from error

    def __iter__(self) -> Iterator[str]:
        """Yields all names, ours first."""
        yield from self._ours
        yield from self._others

    def __len__(self) -> int:
        """Number of names."""
        return len(self._ours) + len(self._others)

    def __contains__(self, name: object) -> bool:
        """Whether there is one of that name; loads nothing."""
        return name in self._ours or name in self._others

    def named(self, name: str) -> T:
        """Returns what the name stands for, for a name that somebody typed.

        Raises:
            UsageError: There is none of that name, or it cannot be loaded.
        """
        if name not in self:
            raise UsageError(f"{self._what} must be one of {', '.join(sorted(self))}, got {name!r}")
        return self[name]
