"""TLKC privacy and the two baselines on public research logs: verified, fast, and what is lost.

No noise is drawn, so every number is exact; the bounds on utility are those of the authors' code at
the same parameters, as measured. Times are bounded loosely: a busy machine must not fail them. The
logs are not part of the project; TRACECLOAK_LOGS names the folder that has them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.real_logs import real_log, sepsis
from tests.support.tiers import at_night
from tests.support.tlkc_logs import (
    RESOURCE,
    release_of,
    values_of,
)
from tracecloak.anonymizers.tlkc.method import Tlkc, requirement_of
from tracecloak.anonymizers.tlkc.params import TlkcParams
from tracecloak.anonymizers.tlkc.verify import examine_tlkc
from tracecloak.examination.measure.measures import VariantDistribution, variant_emd
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.variants import VariantHistogram

pytestmark = pytest.mark.logs

DIAGNOSE = "case:Diagnose"
COSELOG, BPIC_2012 = "coselog_receipt.xes.gz", "bpic2012.xes.gz"


def params(log: TraceBatch, **more: Any) -> TlkcParams:
    """K = 20, C = 0.5, T = hours, sensitive Diagnose where the log has it."""
    sensitive = (
        {DIAGNOSE: {"values": values_of(log, DIAGNOSE)}} if DIAGNOSE in log.attributes else {}
    )
    return TlkcParams(**{"k": 20, "confidence": 0.5, "sensitive": sensitive, **more})


def distribution(traces: TraceBatch) -> VariantDistribution:
    variants = VariantHistogram.from_traces(traces)
    return VariantDistribution(variants.offsets, variants.codes, variants.counts)


def distance(log: TraceBatch, released: TraceBatch) -> float:
    found = variant_emd(distribution(log), distribution(released))
    assert found is not None
    return found


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
    assert not examine_tlkc([log_as_released(log)], requirement_of(given)).holds
    Tlkc().verify([released], given)
    found = distance(log, released)
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


def test_no_release_of_sepsis_can_meet_half_for_age_in_quartiles(logs_folder: Path) -> None:
    """More than half of the cases are within the quartiles, those at them included."""
    log = sepsis(logs_folder)
    ages = {"case:Age": {"bounds": [0, 119], "n_bins": 120, "whole": True}}
    with pytest.raises(GuaranteeError, match="a value of 'case:Age' is above it") as raised:
        release_of([log], Tlkc(), params(log, sensitive=ages))
    assert raised.value.exit_code == 5
    [released] = release_of([log], Tlkc(), params(log, sensitive=ages, confidence=0.7))
    Tlkc().verify([released], params(log, sensitive=ages, confidence=0.7))


@pytest.mark.parametrize("file", [COSELOG, at_night(BPIC_2012)])
@pytest.mark.parametrize(
    ("kind", "perspective"),
    [("set", "resource"), ("sequence", "activity"), ("relative", "activity_resource")],
)
def test_logs_with_resources_are_verified(
    logs_folder: Path, file: str, kind: str, perspective: str
) -> None:
    log = real_log(logs_folder, file, ((RESOURCE, RESOURCE),))
    resource = {} if perspective == "activity" else {RESOURCE: {"values": values_of(log, RESOURCE)}}
    given = params(log, knowledge_kind=kind, perspective=perspective, resources=resource)
    [released] = release_of([log], Tlkc(), given)
    Tlkc().verify([released], given)
    print(  # noqa: T201
        f"{file} {kind} {perspective}: {released.n_cases} of {log.n_cases} cases, "
        f"{released.n_events} of {log.n_events} events"
    )
    assert released.n_events
    if resource:
        assert set(values_of(released, RESOURCE)) <= set(values_of(log, RESOURCE))
