"""Groups of activities: which name belongs to which, by what is public.

`01_HOOFD_010` and `01_HOOFD_020` are both in `01_HOOFD`: by a list that was declared, or by a rule
that looks at the name alone, its first two parts between underscores. Nothing is counted for it, so
a group tells nothing that its members do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.vocabulary import OTHER, ActivityVocabulary

_MOST_SHOWN = 5


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of a vocabulary.

    Attributes:
        names: The groups.
        codes: int32[n_activities], the group of each activity.
    """

    names: ActivityVocabulary
    codes: np.ndarray


@dataclass(frozen=True)
class Grouping:
    """How names are grouped: by a list, or by a rule. An activity without a group is its own.

    Attributes:
        listed: The group of each listed activity; None: the rule says it.
        separator: What stands between the parts of a name.
        depth: How many parts the name of a group has.
    """

    listed: Mapping[str, str] | None
    separator: str = ""
    depth: int = 0

    def group(self, name: str) -> str:
        """Returns the group of an activity; what a vocabulary does not name is its own."""
        if name == OTHER:
            return name
        if self.listed is not None:
            return self.listed.get(name, name)
        group = self.separator.join(name.split(self.separator)[: self.depth])
        return group if group.strip() else name

    def of(self, vocabulary: ActivityVocabulary) -> Groups:
        """Returns the groups of the activities of a vocabulary, public or bought."""
        groups = [self.group(name) for name in vocabulary.names.to_pylist()]
        names = ActivityVocabulary.of(groups)
        places = {name: code for code, name in enumerate(names.names.to_pylist())}
        return Groups(names, np.array([places[group] for group in groups], np.int32))

    def check(self, names: Iterable[str]) -> None:
        """Makes sure that no group is called as an activity of another group.

        Args:
            names: The declared activities.

        Raises:
            UsageError: One is, or a group has no name.
        """
        group_of = {name: self.group(name) for name in [*names, *(self.listed or ())]}
        for name, group in group_of.items():
            if not group.strip():
                raise UsageError(f"groups: the group of {name!r} has no name; give it one")
            if group_of.get(group, group) != group:
                raise UsageError(
                    f"groups: {group!r} is the group of {name!r}, and the name of an activity of "
                    f"the group {group_of[group]!r}; give the group another name"
                )

    def explain(self, names: Sequence[str] | None) -> str:
        """Returns what is grouped, and what is a group by itself, in sentences.

        Args:
            names: The declared activities; None: they are bought, and are named when they are.
        """
        if names is None:
            return (
                f"groups: a bought name belongs to the group of its first {self.depth} parts "
                f"between {self.separator!r}; one with fewer parts is a group by itself"
            )
        groups = {self.group(name) for name in names}
        sentence = f"groups: {len(groups):,} of {len(names):,} declared activities"
        alone = self.alone(names)
        if alone:
            sentence += f"; a group by itself is {_some(alone)}"
        if unknown := self.unknown(names):
            sentence += f"; the list also names {_some(unknown)}, which no declared activity is"
        return sentence

    def alone(self, names: Iterable[str]) -> list[str]:
        """Returns those declared activities that no list and no rule puts into a group."""
        if self.listed is not None:
            return [name for name in names if name not in self.listed]
        return [name for name in names if self.group(name) == name]

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Returns the listed names that are none of the declared activities."""
        declared = set(names)
        return [name for name in self.listed or () if name not in declared]


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:_MOST_SHOWN]))
    more = len(names) - _MOST_SHOWN
    return f"{shown} and {more:,} more" if more > 0 else shown
