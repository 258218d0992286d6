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
from dataclasses import dataclass, field
from importlib import metadata
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


@dataclass(eq=False, repr=False)
class Plugins(Mapping[str, T], Generic[T]):
    """What can be had by name: ours, and what other distributions add.

    Entries are loaded on use and kept. A name that two distributions claim, of which we may be one,
    is refused when it is used, and one that was removed is nobody's.

    Attributes:
        what: What an entry is, in a word, for messages.
        group: The entry-point group of other distributions.
        ours: `module:attribute` by name, or the value itself, which is no text.
        make: Makes the value of an entry from what was loaded or given, such as an instance of a
            class; by default the value is that. What it raises is an error of the entry.
        removed: Names that ours had once, each with what to use instead. Nobody is given one again,
            as what was released or kept under it would be taken for something else.
        own_name: The attribute in which an entry says its own name, which must be that of its entry
            point; None: it says none.
        kind: The class of which the values of others must be; None: any.
    """

    what: str
    group: str
    ours: Mapping[str, str | T]
    make: Callable[[Any], T] = lambda loaded: loaded
    removed: Mapping[str, str] = field(default_factory=dict)
    own_name: str | None = None
    kind: type[T] | None = None
    _made: dict[str, T] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if again := self.removed.keys() & self.ours.keys():
            raise ValueError(f"{self.what} {min(again)!r} was removed, and no name is given again")

    @property
    def builtins(self) -> dict[str, T]:
        """What is ours by name, whatever others add."""
        return {name: self._builtin(name) for name in self.ours}

    def _builtin(self, name: str) -> T:
        if name not in self._made:
            entry = self.ours[name]
            self._made[name] = self.make(load(entry) if isinstance(entry, str) else entry)
        return self._made[name]

    def _points(self, name: str | None = None) -> list[metadata.EntryPoint]:
        """What others add, of one name or of all."""
        points = (point for point in _entry_points() if point.group == self.group)
        return [point for point in points if name in (None, point.name)]

    def __getitem__(self, name: str) -> T:
        """Returns what the name stands for.

        Raises:
            KeyError: There is none of that name.
            UsageError: Several distributions claim the name, or what it stands for cannot be
                loaded.
        """
        points = self._points(name)
        places = [point.value for point in points]
        if name in self.ours:
            ours = self.ours[name]
            places.append(ours if isinstance(ours, str) else "tracecloak")
        elif not points:
            raise KeyError(name)
        elif name in self.removed:
            raise UsageError(
                f"{self.what} {name!r} of another distribution, {places[0]}, has a name "
                "that tracecloak had once; give it another"
            )
        if len(places) > 1:
            claimants = ", ".join(sorted(places))
            raise UsageError(
                f"{self.what} {name!r} is offered by {claimants}; uninstall all but one"
            )
        if name in self.ours:
            return self._builtin(name)
        if name not in self._made:
            self._made[name] = self._other(points[0])
        return self._made[name]

    def _other(self, point: metadata.EntryPoint) -> T:
        about = f"{self.what} {point.name!r} of another distribution, {point.value},"
        try:
            loaded = self.make(point.load())
            if self.kind is not None and not isinstance(loaded, self.kind):
                raise TypeError(f"it is not a {self.kind.__qualname__}")
            own_name = point.name if self.own_name is None else getattr(loaded, self.own_name)
        except Exception as error:  # whatever a stranger's module does when it is imported
            raise UsageError(
                f"{about} cannot be loaded ({type(error).__name__}); repair or uninstall it"
            ) from error
        if own_name != point.name:
            raise UsageError(f"{about} calls itself {own_name!r}: give its entry point that name")
        return loaded

    def __iter__(self) -> Iterator[str]:
        """Yields all names, ours first."""
        yield from self.ours
        yield from {point.name: 0 for point in self._points() if point.name not in self.ours}

    def __len__(self) -> int:
        """Number of names."""
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        """Whether there is one of that name; loads nothing."""
        return name in self.ours or any(point.name == name for point in self._points())

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
            return f"{self.what} {name} was removed from tracecloak: use {instead}"
        return f"{self.what} must be one of {', '.join(sorted((*others, *self)))}, got {name!r}"
