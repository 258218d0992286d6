"""What activities may be renamed to."""

from __future__ import annotations

from collections.abc import Mapping

from tracecloak.anonymizers.contract.bounding import ContributionBounds
from tracecloak.schemas.errors import UsageError


def check_new_names(rename: Mapping[str, str], bounds: ContributionBounds) -> None:
    """Makes sure that a rename leads to names that are declared, where any are.

    Raises:
        UsageError: One is not.
    """
    declared = bounds.vocabulary
    unknown = sorted(set(rename.values()) - set(declared or rename.values()))
    if unknown:
        raise UsageError(
            f"rename gives the name {unknown[0]!r}, which is not in the vocabulary: declare it "
            "there, or correct the name"
        )
