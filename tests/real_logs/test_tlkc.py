"""TLKC privacy and the two baselines on public research logs: verified, fast, and what is lost.

No noise is drawn, so every number is exact; the bounds on utility are those of the authors' code at
the same parameters, as measured. Times are bounded loosely: a busy machine must not fail them. The
logs are not part of the project; TRACECLOAK_LOGS names the folder that has them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.real_logs import sepsis
from tests.support.tlkc_logs import release_of, values_of
from tracecloak.anonymizers.tlkc.method import Tlkc
from tracecloak.anonymizers.tlkc.promise import TlkcParams, count_violations
from tracecloak.examination.measure.measures import variant_emd
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.variants import VariantHistogram

pytestmark = pytest.mark.logs

DIAGNOSE = "case:Diagnose"


def params(log: TraceBatch, **more: Any) -> TlkcParams:
    """K = 20, C = 0.5, T = hours, sensitive Diagnose where the log has it."""
    sensitive = (
        {DIAGNOSE: {"values": values_of(log, DIAGNOSE)}} if DIAGNOSE in log.attributes else {}
    )
    return TlkcParams(**{"k": 20, "confidence": 0.5, "sensitive": sensitive, **more})


@pytest.mark.parametrize(
    ("kind", "length", "authors_events", "authors_distance"),
    [
        ("set", 2, 15_103, 0.0075),
        ("multiset", 2, 14_433, 0.0915),
        ("sequence", 2, 10_761, 0.3385),
        # The authors' code ignores all relative knowledge of more than one element.
        ("relative", 1, 9_065, 0.2685),
    ],
)
def test_sepsis_keeps_at_least_what_the_authors_code_keeps(
    logs_folder: Path, kind: str, length: int, authors_events: int, authors_distance: float
) -> None:
    """Events, and the earth mover's distance of variants by normalised Levenshtein distance."""
    log = sepsis(logs_folder)
    given = params(log, knowledge_kind=kind, length=length)
    [released] = release_of([log], Tlkc(), given)
    assert any(count_violations([log_as_released(log)], given))
    Tlkc().verify([released], given)
    found = variant_emd(*map(VariantHistogram.from_traces, (log, released)))
    print(f"{kind}: {released.n_events} events, distance {found:.4f}")  # noqa: T201
    assert released.n_cases == log.n_cases == 1050
    assert released.n_events >= authors_events
    assert found <= authors_distance


def log_as_released(log: TraceBatch) -> TraceBatch:
    """The log itself with values in place of dictionaries: the control of every verification."""
    plain = {name: values.cast("string") for name, values in log.attributes.items()}
    return TraceBatch(
        log.case_ids, log.offsets, log.activities, log.times, log.vocabulary, attributes=plain
    )
