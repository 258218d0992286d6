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
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from tracecloak.schemas.errors import UsageError

T = TypeVar("T")


class NotOfferedError(ValueError):
    """A parameter names an entry of a table that is not there, though it may be elsewhere."""


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
    installed = metadata.entry_points()
    groups = (group for group in installed.groups if group.startswith("tracecloak."))
    return tuple(point for group in groups for point in installed.select(group=group))


class Plugins(Mapping[str, T], Generic[T]):
    """What can be had by name: ours, and what other distributions add.

    Entries are loaded on use and kept. A name that two distributions claim, of which we may be one,
    is refused when it is used, and one that was removed is nobody's.

    Args:
        what: What an entry is, in a word, for messages.
        group: The entry-point group of other distributions.
        ours: `module:attribute` by name, or the value itself, which is no text.
        make: Makes the value of an entry from what was loaded or given, such as an instance of a
            class; by default the value is that. What it raises is an error of the entry.
        kind: The class of which the values of others must be; None: any.
        removed: Names that ours had once, each with what to use instead. Nobody is given one again,
            as what was released or kept under it would be taken for something else.
        own_name: The attribute in which an entry says its own name, which must be that of its entry
            point; None: it says none.

    Attributes:
        group: The entry-point group of other distributions.
        removed: As given.
    """

    def __init__(
        self,
        what: str,
        group: str,
        ours: Mapping[str, str | T],
        make: Callable[[Any], T] = lambda loaded: loaded,
        removed: Mapping[str, str] = MappingProxyType({}),
        own_name: str | None = None,
        kind: type[T] | None = None,
    ) -> None:
        if again := removed.keys() & ours.keys():
            raise ValueError(f"{what} {min(again)!r} was removed, and no name is given again")
        self.group = group
        self._what = what
        self._builtins = dict(ours)
        self.removed = dict(removed)
        self._make = make
        self._own_name = own_name
        self._kind = kind
        self._made: dict[str, T] = {}

    @property
    def builtins(self) -> dict[str, T]:
        """What is ours by name, whatever others add."""
        return {name: self._builtin(name) for name in self._builtins}

    @property
    def _others(self) -> dict[str, list[metadata.EntryPoint]]:
        points: dict[str, list[metadata.EntryPoint]] = {}
        for point in _entry_points():
            if point.group == self.group and point.name not in self._builtins:
                points.setdefault(point.name, []).append(point)
        return points

    def __getitem__(self, name: str) -> T:
        """Returns what the name stands for.

        Raises:
            KeyError: There is none of that name.
            UsageError: Several distributions claim the name, or what it stands for cannot be
                loaded.
        """
        if name in self._builtins:
            if others := [
                p.value for p in _entry_points() if (p.group, p.name) == (self.group, name)
            ]:
                ours = self._builtins[name]
                raise self._taken_error(
                    name, [ours if isinstance(ours, str) else "tracecloak", *others]
                )
            return self._builtin(name)
        if name not in self._made:
            self._made[name] = self._make_other(name)
        return self._made[name]

    def _builtin(self, name: str) -> T:
        if name not in self._made:
            entry = self._builtins[name]
            self._made[name] = self._make(load(entry) if isinstance(entry, str) else entry)
        return self._made[name]

    def _make_other(self, name: str) -> T:
        points = self._others[name]
        if name in self.removed:
            raise UsageError(
                f"{self._what} {name!r} of another distribution, {points[0].value}, has a name "
                "that tracecloak had once; give it another"
            )
        if len(points) > 1:
            raise self._taken_error(name, [point.value for point in points])
        try:
            loaded = self._make(points[0].load())
            if self._kind is not None and not isinstance(loaded, self._kind):
                raise TypeError(f"it is not a {self._kind.__qualname__}")
            own_name = name if self._own_name is None else getattr(loaded, self._own_name)
        except Exception as error:  # whatever a stranger's module does when it is imported
            raise UsageError(
                f"{self._what} {name!r} of another distribution, {points[0].value}, cannot be "
                f"loaded ({type(error).__name__}); repair or uninstall it"
            ) from error
        if own_name != name:
            raise UsageError(
                f"{self._what} {name!r} of another distribution, {points[0].value}, calls itself "
                f"{own_name!r}: give its entry point that name"
            )
        return loaded

    def _taken_error(self, name: str, places: list[str]) -> UsageError:
        claimants = ", ".join(sorted(places))
        return UsageError(f"{self._what} {name!r} is offered by {claimants}; uninstall all but one")

    def __iter__(self) -> Iterator[str]:
        """Yields all names, ours first."""
        yield from self._builtins
        yield from self._others

    def __len__(self) -> int:
        """Number of names."""
        return len(self._builtins) + len(self._others)

    def __contains__(self, name: object) -> bool:
        """Whether there is one of that name; loads nothing."""
        return name in self._builtins or name in self._others

    def named(self, name: str) -> T:
        """Returns what the name stands for, for a name that somebody typed or that was written.

        Raises:
            UsageError: There is none of that name, others claim it as well, or it cannot be loaded.
        """
        if name not in self:
            raise UsageError(self.why_not(name))
        return self[name]

    def why_not(self, name: str, *others: str) -> str:
        """Returns the error of a name that is not in the table.

        Args:
            name: What was requested.
            others: What could have been requested beside the names of the table.
        """
        if instead := self.removed.get(name):
            return f"{self._what} {name} was removed from tracecloak: use {instead}"
        return f"{self._what} must be one of {', '.join(sorted((*others, *self)))}, got {name!r}"
