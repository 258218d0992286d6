"""The activities that a method counts by: public, privately selected or grouped."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pydantic
from pydantic import Field

from tracecloak.anonymizers.rigorous.budget import Budget
from tracecloak.anonymizers.rigorous.params import RigorousParams
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import OTHER, ActivityVocabulary

# --- The public domain of directly-follows counts: every pair that a vocabulary allows. -----------


# Noise is drawn for every possible pair, seen or not.
MAX_CELLS = 20_000_000


def most_names_of_pairs(n_bins: int) -> int:
    """Returns how many names, OTHER included, a vocabulary can have at so many bins."""
    return math.isqrt(MAX_CELLS // n_bins) - 2


def excess_of_names(n_names: int | None, most: int | None, n_bins: int = 1) -> str:
    """Returns what to do about too many names, not how many there are; empty if they are not.

    Args:
        n_names: That there are, OTHER included; None: they are bought, and no more are kept.
        most: That can be counted by; None: any number.
        n_bins: Bins for each pair of them.
    """
    if n_names is None or most is None or n_names <= most:
        return ""
    bins = "" if n_bins == 1 else f" with {n_bins} duration bins"
    fewer = "" if n_bins == 1 else " or fewer bins (n_duration_bins)"
    return (
        f"noise is drawn for every possible pair, of {most:,} activities at most{bins}, "
        f"{OTHER} included; give a smaller vocabulary{fewer}"
    )


def possible_pairs(vocabulary: ActivityVocabulary, n_bins: int) -> np.ndarray:
    """Returns int64[n], ascending: the cells (source, target, bin) that a case can have.

    A case has at least one event, so START is not followed by END; pairs with START or END take no
    time and have the first bin only.

    Raises:
        UsageError: There are too many.
    """
    if excess := excess_of_names(len(vocabulary), most_names_of_pairs(n_bins), n_bins):
        raise UsageError(excess)
    n_codes = vocabulary.end + 1
    pair = np.arange(n_codes**2, dtype=np.int64)
    source, target = pair // n_codes, pair % n_codes
    is_possible = (source != vocabulary.end) & (target != vocabulary.start)
    is_possible &= ~((source == vocabulary.start) & (target == vocabulary.end))
    is_inner = (source < vocabulary.start) & (target < vocabulary.start)
    cells = pair[:, None] * n_bins + np.arange(n_bins)
    is_cell = is_possible[:, None] & (is_inner[:, None] | (np.arange(n_bins) == 0))
    return cells[is_cell]


# --- Groups of activities: which name belongs to which, by what is public. ------------------------
# `01_HOOFD_010` and `01_HOOFD_020` are both in `01_HOOFD`: by a list that was declared, or by a
# rule that looks at the name alone, its first two parts between underscores. Nothing is counted
# for it, so a group tells nothing that its members do not.


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


# --- Parameters of the rigorous methods that work on a list of activities, public or bought. ------


class ListedParams(RigorousParams, ABC):
    """Parameters of a method that needs to know the activities before it counts anything.

    Neither declared nor asked to be bought, they are an error: a list that was bought unasked may
    be empty, and the release with it, at the full price.
    """

    buy_vocabulary: bool = False
    """Choose the activities on the log, for a share of epsilon and delta: those that enough cases
    have; any other counts as __other__. For logs whose names cannot be declared."""
    max_activities: int = Field(default=16, ge=1, le=1000)
    """Distinct activities of a case that count where the vocabulary is bought; those of a case with
    fewer weigh more."""

    @pydantic.model_validator(mode="after")
    def _check_listed(self) -> ListedParams:
        if self.buy_vocabulary and self.vocabulary is not None:
            raise ValueError(
                "buy_vocabulary and vocabulary exclude each other: leave one of them out"
            )
        if self.delta == 0 and self.vocabulary is None:
            raise ValueError("delta 0 needs a public vocabulary: names are bought with delta")
        return self

    @property
    @abstractmethod
    def spending(self) -> Budget:
        """What each need may spend, with that of the vocabulary where it is bought."""

    def check_names(self) -> None:
        """Makes sure that the activities are known or bought.

        Raises:
            ValueError: They are neither; says what buying would find.
        """
        if self.vocabulary is not None or self.buy_vocabulary:
            return
        from tracecloak.anonymizers.rigorous.bought import likely_names

        try:
            allowance = self.spending.means["vocabulary"]
            outcome = f"finds {likely_names(allowance, self.max_activities, self.max_units)}"
        except UsageError:  # the noise would be wider than any that is drawn
            outcome = "finds no activity at this epsilon and delta"
        raise ValueError(
            "vocabulary is not declared, and this method counts by activities that are known "
            "beforehand. Declare a public list of them with vocabulary; `tracecloak vocabulary` "
            "writes the names of a log for you to read and strike out. Or set buy_vocabulary: it "
            f"{outcome}, and counts all others as __other__. It finds rarer ones with a larger "
            "epsilon, or with a smaller max_activities"
        )


# --- Parameters by which activities are grouped; what they mean is in `grouping`. -----------------


class GroupedParams(ListedParams):
    """Parameters of a method that can count groups of activities beside activities."""

    _where_given: ClassVar[tuple[str, ...]] = (
        *ListedParams._where_given,
        *("groups", "group_separator", "group_depth"),
    )
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

        return Grouping(self.groups, self.group_separator or "", self.group_depth or 0)
