"""Which records are read: those whose column equals some values, begins so, or lies within bounds.

A bound is compared with a value as both are written: `9` is below `10`, as both are numbers;
`2026-11-30` is below `2026-12`, as both are times; `B2` is below `C`, by their characters. A
missing value lies within no bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracecloak.schemas.errors import UsageError

_BOUNDS = ("at_least", "above", "at_most", "below")


@dataclass(frozen=True)
class RowFilter:
    """Keeps the records whose column passes.

    Values are compared by their text (`schemas.events.scalars`), so 2 passes for 2.0 where a source
    has numbers, and lifecycle transitions without regard to case. One of
    `equals`, `begins_with` and the bounds is given; of the bounds several can be, and all hold.

    Attributes:
        column: A canonical name that the mapping maps (`activity`, `lifecycle`, …) or a column of
            the source.
        equals: The values that pass, or None.
        begins_with: The prefix that passes, or None.
        at_least: The smallest value that passes, or None: there is none.
        above: The largest value that no longer passes, or None.
        at_most: The largest value that passes, or None.
        below: The smallest value that no longer passes, or None.
    """

    column: str
    equals: tuple[str, ...] | None = None
    begins_with: str | None = None
    at_least: str | None = None
    above: str | None = None
    at_most: str | None = None
    below: str | None = None

    def __post_init__(self) -> None:
        given = (self.equals is not None) + (self.begins_with is not None) + bool(self.bounds)
        if given != 1:
            raise UsageError(
                f"the filter on column {self.column!r} needs either equals or begins_with, or "
                f"bounds: {', '.join(_BOUNDS)}"
            )

        for name, bound in self.bounds.items():
            if not bound.strip():
                raise UsageError(f"the filter on column {self.column!r}: {name} is empty")

    @property
    def bounds(self) -> dict[str, str]:
        """The bounds that are given, by what they ask of a value."""
        given = {name: getattr(self, name) for name in _BOUNDS}
        return {name: bound for name, bound in given.items() if bound is not None}
