"""Which records are read: those whose column equals some values, begins so, or lies within bounds.

A bound is compared with a value as both are written: `9` is below `10`, as both are numbers;
`2026-11-30` is below `2026-12`, as both are times; `B2` is below `C`, by their characters. A
missing value lies within no bounds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tracecloak.schemas.errors import UsageError

_QUOTED = re.compile(r"""^(['"])(.*)\1$""", re.DOTALL)
_BOUNDS = ("at_least", "above", "at_most", "below")


@dataclass(frozen=True)
class RowFilter:
    """Keeps the records whose column passes.

    One of `equals`, `begins_with` and the bounds is given; of the bounds several can be, and all
    hold. Of `equals` each literal alone decides how it is compared, and never the column's type:

    * A number as `events.source_column` writes it, such as `5`, `-3` or `1.5`, is compared by
      value: `5` passes `5`, `5.0` and ` 5`.
    * So is a time of ISO 8601 with a whole date, without an offset on the clocks of the mapping's
      zone, unless these show it twice or never.
    * Any other one, such as `05`, `5.0` or `1e3`, and one in quotes, such as `'5'`, by its text;
      lifecycle transitions without regard to case.

    Attributes:
        column: A canonical name that the mapping maps (`activity`, `lifecycle`, …) or a column of
            the source.
        equals: The literals of the values that pass, or None.
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
    def texts(self) -> list[str]:
        """The texts of the literals of `equals`, without quotes."""
        return [_QUOTED.sub(r"\2", literal) for literal in self.equals or ()]

    @property
    def bounds(self) -> dict[str, str]:
        """The bounds that are given, by what they ask of a value."""
        given = {name: getattr(self, name) for name in _BOUNDS}
        return {name: bound for name, bound in given.items() if bound is not None}
