"""The values of attributes in a log that was drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.logs.attributes import attribute_of_traces, part_name
from tracecloak.anonymizers.logs.handovers import handed_over, handovers_name
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.times.case_classes import CaseClasses
from tracecloak.schemas.events.attributes import Attribute
from tracecloak.schemas.events.traces import TraceBatch


def generated_values(
    attributes: Sequence[Attribute],
    drawn: Mapping[str, Any],
    traces: TraceBatch,
    classes: CaseClasses,
    cases: np.ndarray,
    randomness: Randomness,
) -> dict[str, pa.Array]:
    """Returns the values of every event, by attribute.

    Args:
        attributes: The declared ones.
        drawn: What their parts, and those of handovers, decided, by name.
        traces: The released cases, with their times.
        classes: Of the released cases.
        cases: int64[n_cases], their numbers among all released ones.
        randomness: The release's.
    """
    values = {}
    for attribute in attributes:
        decision, given = drawn[part_name(attribute)], (cases, randomness)
        if attribute.has_handovers:
            following = drawn[handovers_name(attribute)]
            values[attribute.name] = handed_over(following, decision, attribute, traces, *given)
        else:
            values[attribute.name] = attribute_of_traces(
                decision, attribute, traces, classes, *given
            )
    return values
