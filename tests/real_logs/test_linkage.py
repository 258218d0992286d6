"""Linkage attacks on a public research log, before and after releases of three kinds.

Figures that are not exact come with intervals; the bounds below are beyond their ends, and all
intervals of a run are right together with probability 1 - 1e-9. The logs are not part of the
project; TRACECLOAK_LOGS names the folder that has them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.keys import randomness
from tests.support.real_logs import sepsis
from tests.support.tlkc_logs import release_of, values_of
from tracecloak.anonymizers.registry import method_named
from tracecloak.anonymizers.tlkc.promise import TlkcParams
from tracecloak.examination.linkage.knowledge import LinkedLog, Settings, no_values
from tracecloak.examination.linkage.run import Linkage, link, linked
from tracecloak.schemas.events.traces import TraceBatch

pytestmark = pytest.mark.logs

DIAGNOSE = "case:Diagnose"
SETTINGS = Settings(sizes=(1, 2), n_samples=4000, confidence=1 - 1e-9)


def attacks(
    log: TraceBatch, *releases: TraceBatch, has_times: bool = True
) -> dict[tuple[str, int], Linkage]:
    made = [
        LinkedLog(str(i), release, no_values(release), has_times)
        for i, release in enumerate(releases)
    ]
    logs = linked(log, made, [DIAGNOSE])
    return {(f.attack, f.size): f for f in link(*logs, randomness(), SETTINGS)}


def released(log: TraceBatch, name: str, **params: Any) -> TraceBatch:
    method = method_named(name)
    return TraceBatch.concat(release_of([log], method, method.Params(**params)))


def test_tlkc_keeps_its_promise_against_the_attacks_it_names(logs_folder: Path) -> None:
    """Whatever is known of two activities and their hours matches 20 released cases or none.

    Before, a tenth of such knowledge leaves one case only. As a control, Amun's release of the same
    log, which promises nothing of the kind, is broken by the same attack.
    """
    log = sepsis(logs_folder)
    promise: dict[str, Any] = {
        "k": 20,
        "length": 2,
        "confidence": 0.5,
        "knowledge_kind": "relative",
        "sensitive": {DIAGNOSE: {"values": values_of(log, DIAGNOSE)}},
    }
    assert TlkcParams(**promise).time_unit == SETTINGS.unit
    found = attacks(log, released(log, "tlkc", **promise), released(log, "amun"))
    assert found["AT", 2].before.singled_out.low > 0.1
    assert found["AT", 2].before.smallest_set == 1
    for (name, _), attack in found.items():
        grouped, sampled = attack.after
        assert grouped.singled_out.value == 0, name
        assert grouped.smallest_set is None or grouped.smallest_set >= 20
        if name == "AT":
            [value] = grouped.values
            assert value is not None and value.largest_confidence is not None
            assert value.largest_confidence <= 0.5
        assert sampled.values == (None,)
    assert found["AT", 2].after[1].singled_out.low > 0.01
