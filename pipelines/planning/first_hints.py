"""What a plan says of the first records that a profile says more of."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.pipelines.planning.findings import FirstLook
from tracecloak.schemas.events.duplicates import is_duplicate
from tracecloak.schemas.events.events import ACTIVITY
from tracecloak.schemas.events.near_equal import spellings
from tracecloak.schemas.events.tally import POINT_KEY


def hints(look: FirstLook) -> Iterator[str]:
    """Yields a sentence if the first records suggest to look at all of them; no value of theirs."""
    reasons = list(_reasons(look))
    if reasons:
        yield (
            f"{', '.join(reasons)}; `tracecloak profile` with the same flags of the log "
            "says which and how many, with settings to paste"
        )


def _reasons(look: FirstLook) -> Iterator[str]:
    events = look.records.events
    if not events or not look.records.tally.n_events:
        return
    names = pa.chunked_array([batch.column(ACTIVITY).cast(pa.string()) for batch in events])
    counts = {one["values"]: one["counts"] for one in pc.value_counts(names).to_pylist()}
    if spellings(counts):
        yield "some activities have names that differ in case, blanks or signs alone"
    if is_duplicate(look.traces).any():
        yield "some events equal an earlier one of their case"
    if any(finding.what == POINT_KEY for finding in look.records.tally.found()):
        yield "some case ids are written as 5.0 and others as 5"
