"""Parameters by which activities are grouped; what they mean is in `grouping`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pydantic
from pydantic import Field

from tracecloak.anonymizers.rigorous.names import ListedParams
from tracecloak.schemas.errors import UsageError

if TYPE_CHECKING:
    from tracecloak.anonymizers.rigorous.grouping import Grouping


class GroupedParams(ListedParams):
    """Parameters of a method that can count groups of activities beside activities."""

    groups: dict[str, str] | None = None
    """Public file of groups, CSV with the columns activity and group, or a JSON object of the
    group by activity. Groups are counted beside activities, and released as a graph of their own;
    where noise hides most activities, the log follows them. By default there are none."""
    group_separator: str | None = Field(default=None, min_length=1, max_length=16)
    """Instead of groups: what stands between the parts of a name, such as _; the first
    group_depth parts are the name of the group. Bought names are grouped by this rule alone. By
    default names are not divided."""
    group_depth: int | None = Field(default=None, ge=1, le=16)
    """How many parts of a name, from the first on, are the name of its group. By default names are
    not divided."""

    @pydantic.model_validator(mode="after")
    def _check_groups(self) -> GroupedParams:
        if (self.group_separator is None) != (self.group_depth is None):
            raise ValueError("group_separator and group_depth go together")
        if self.groups is not None and self.group_separator is not None:
            raise ValueError("groups and group_separator exclude each other: leave one of them out")
        if self.groups is not None and self.vocabulary is None:
            raise ValueError(
                "groups are of declared activities: declare these with vocabulary, or group bought "
                "names by group_separator and group_depth"
            )
        grouping = self.grouping
        if grouping is not None:
            if self.delta == 0:
                raise ValueError("groups need a delta above 0: leave them out, or give a delta")
            try:
                grouping.check(self.vocabulary or ())
            except UsageError as error:
                raise ValueError(str(error)) from None
        return self

    @property
    def grouping(self) -> Grouping | None:
        """How activities are grouped; None: they are not."""
        if self.groups is None and self.group_separator is None:
            return None
        from tracecloak.anonymizers.rigorous.grouping import Grouping

        return Grouping(self.groups, self.group_separator or "", self.group_depth or 0)

    def resolved(self) -> dict[str, Any]:
        """Returns the parameters in effect; without groups there are none that speak of them."""
        resolved = super().resolved()
        for name in ("groups", "group_separator", "group_depth"):
            if resolved[name] is None:
                del resolved[name]
        return resolved
