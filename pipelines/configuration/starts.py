"""What a release does with the starts of events that its configuration maps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tracecloak.anonymizers.registry import method_named
from tracecloak.schemas.errors import UsageError

if TYPE_CHECKING:
    from tracecloak.schemas.events.columns import ColumnMapping

SERVICE_TIMES = "service_times"


def with_starts(method: str, params: Mapping[str, Any], mapping: ColumnMapping) -> dict[str, Any]:
    """Returns the parameters of a method with service times, if the mapping gives events starts.

    Raises:
        UsageError: It does, and the method releases none; or it does not, and they are asked for.
    """
    given = params.get(SERVICE_TIMES)
    if SERVICE_TIMES not in method_named(method).Params.model_fields:
        if not mapping.has_starts:
            return dict(params)
        raise UsageError(
            f"{method} does not release when events began: leave out --start_timestamp, and of a "
            "lifecycle read one transition with --where lifecycle=complete; or take private-log"
        )
    if given is not None and str(given).lower() != str(mapping.has_starts).lower():
        raise UsageError(
            "service_times follows from --start_timestamp and --lifecycle; leave it out"
        )
    return {**params, SERVICE_TIMES: True} if mapping.has_starts else dict(params)
