"""A stream on one machine publishes what Beam does, byte for byte, for every product."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.local_streams import run_script
from tests.support.releasing import fix_key
from tests.support.stream_runs import (
    STREAMS,
    Happening,
    Sent,
    in_time,
    made,
    random_messages,
    run,
    steps_of,
    stream_config,
    ticking,
)
from tests.support.tiers import at_night


def messages(by_individual: bool) -> list[Sent]:
    sent = random_messages(20, 30)
    if by_individual:
        sent = [s._replace(individual=f"p{int(s.case[1:]) % 12}") for s in sent]
    return sent


def out_of_order(sent: Sequence[Sent]) -> list[Happening]:
    """Duplicates, shuffled arrival, and stragglers of up to 8 seconds behind the watermark."""
    rng = np.random.default_rng(5)
    arrival = [s.publish + float(rng.choice([0, 0, 0, 8])) for s in sent]
    happenings: list[Happening] = []
    for second in range(0, 60, 5):
        own = [s for s, at in zip(sent, arrival, strict=True) if second <= at < second + 5]
        own += own[: len(own) // 4]
        shuffled = [own[i] for i in rng.permutation(len(own))]
        happenings += [[s] for s in shuffled[:2]]
        if shuffled[2:]:
            happenings.append(shuffled[2:])
        happenings.append(float(second + 5))
    return happenings


def both(tmp_path: Path, happenings: list[Happening], **changes: Any) -> tuple[Any, Any]:
    """The step files that Beam's runner writes, and the local stream's."""
    beam, local = (
        stream_config(tmp_path / n, horizon=4, **changes) for n in made(tmp_path, "beam", "local")
    )
    with pytest.MonkeyPatch.context() as patch:
        fix_key(patch)
        run(beam, happenings)
        run_script(local, happenings)
    return steps_of(beam), steps_of(local)


@pytest.mark.parametrize(
    "name",
    [
        "dfg w_event",
        "variants totals",
        "indicators totals",
        *(at_night(n) for n in ("dfg", "dfg totals", "dfg sliding", "dfg of individuals")),
        *(at_night(n) for n in ("variants", "variants of individuals", "log of individuals")),
        *(at_night(n) for n in ("indicators", "log")),
    ],
)
def test_every_product_is_the_same_bytes(tmp_path: Path, name: str) -> None:
    changes = STREAMS[name]
    sent = messages("individual_id" in changes)
    happenings = [*in_time(sent, 50), *ticking(50, 60)]
    on_beam, here = both(tmp_path, happenings, **changes)
    assert len([path for path in here if path.endswith(".json")]) == 4
    assert here == on_beam


@pytest.mark.parametrize("name", ["dfg of individuals", at_night("dfg w_event"), at_night("dfg")])
def test_they_are_where_messages_come_late_and_again(tmp_path: Path, name: str) -> None:
    changes = STREAMS[name]
    happenings = out_of_order(messages("individual_id" in changes))
    on_beam, here = both(tmp_path, happenings, **changes)
    assert here == on_beam
