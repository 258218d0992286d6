"""What a schedule and the method beside it must agree on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracecloak.schemas.errors import UsageError

if TYPE_CHECKING:
    from tracecloak.pipelines.configuration.schedule_config import ScheduleConfig
    from tracecloak.schemas.published.guarantee import Guarantee


def check_composes(method: str, guarantee: Guarantee) -> None:
    """Makes sure that a promise for each window also holds for all windows together.

    A case that is replaced may leave one window and enter another, and an event that is added may
    move its case. Then two windows change by one case each, which such a promise does not cover.

    Args:
        method: Name of the method, for the error.
        guarantee: What it promises of one window.

    Raises:
        UsageError: It has an epsilon for another change than a unit that is added or removed.
    """
    if guarantee.epsilon is None:
        return
    if guarantee.adjacency != "add_remove" or guarantee.unit == "event":
        change = "an event" if guarantee.unit == "event" else "a case that is replaced"
        raise UsageError(f"schedule: {method} protects {change}, which can change two windows")


def check_ends_are_read(schedule: ScheduleConfig, vocabulary: Sequence[str]) -> None:
    """Makes sure that every end activity is one of the declared activities, if these are closed.

    Raises:
        UsageError: One is not in a vocabulary that is declared to be closed.
    """
    unknown = sorted(set(schedule.end_activity) - set(vocabulary))
    if unknown:
        raise UsageError(
            f"schedule.end_activity: {unknown[0]!r} is not in the closed vocabulary, so its events "
            "would be left out and end no case; add it to the vocabulary, or leave "
            "closed_vocabulary out"
        )
