"""Ways round a budget: every check holds today, and catches a build in which it would not.

The broken builds are this one with something put out of work, all layers of it where there are
several: then the check that is about it must say so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.checks import ASIDE, BROKEN, CHECKS, HELD, check_configuration
from tests.support.examples import examples_of
from tests.support.tiers import at_night
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.anonymizers.registry import METHODS
from tracecloak.anonymizers.variants.method import VariantHistogramMethod
from tracecloak.pipelines.budget.draw_guard import DrawGuard
from tracecloak.pipelines.budget.registry import ReleaseRegistry
from tracecloak.pipelines.configuration.config import ReleaseConfig, load
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.receipts import Receipt
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.release import opening
from tracecloak.pipelines.release import run as claiming
from tracecloak.pipelines.release import values as records_module
from tracecloak.pipelines.release.values import Run
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.transforms.batch.job import KeptDraws
from tracecloak.transforms.keys import wrapping
from tracecloak.transforms.keys.wrapping import KeyReference

RIGOROUS = {"method": "variant-histogram", "epsilon": "1"}
PUBLISHED = {"method": "amun", "guessing_advantage": "0.2"}
# One form of the log, which takes less time.
SMALL = {"formats": "parquet", "parts": "1", "shards": "1"}


def configured(**flags: Any) -> ReleaseConfig:
    return load(None, {"log": "nowhere/log.csv", "output": "nowhere", **SMALL, **flags})


def broken_in(found: dict[str, str]) -> dict[str, str]:
    return {name: said for name, said in found.items() if said.startswith(BROKEN)}


# --- what holds -----------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [["refund", "refusal"], at_night(CHECKS)], ids=["some", "all"])
def test_of_a_published_method_the_checks_hold_or_say_why_they_do_not_apply(
    names: Iterable[str],
) -> None:
    found = check_configuration(configured(**PUBLISHED), names)
    assert not broken_in(found)
    assert "promises nothing" in found["refusal"]
    assert found["refund"] == HELD


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "number"), [(m, n) for m in METHODS for n in range(len(examples_of(METHODS[m])))]
)
def test_every_check_holds_of_every_method(method: str, number: int) -> None:
    example = examples_of(METHODS[method])[number]
    whose = {"individual_id": "who"} if "max_cases_per_individual" in example else {}
    found = check_configuration(configured(method=method, params=dict(example), **whose))
    assert not broken_in(found)
    assert found["refund"] == HELD


@pytest.mark.slow
@pytest.mark.parametrize("flags", [RIGOROUS, PUBLISHED], ids=["rigorous", "published"])
def test_every_check_holds_with_beam(flags: dict[str, Any]) -> None:
    assert not broken_in(check_configuration(configured(**flags), runner="FnApiRunner"))


def test_what_a_configuration_leaves_open_is_said() -> None:
    said = check_configuration(configured(**RIGOROUS, max_error_ratio=0.01), ["bad case"])
    assert said["bad case"].startswith(ASIDE) and "sets max_error_ratio 0.01" in said["bad case"]


# --- builds in which they do not hold -------------------------------------------------------------


def nothing(*_: Any, **__: Any) -> None:
    """In place of what makes sure of something."""


def free(ledger: Ledger, output: str, release_id: str, key_fingerprint: str, *_: Any) -> bool:
    """Gives back whatever is open."""
    ledger.append(
        lambda past: [
            ("void", asdict(state.last), None)
            for state in past.states(output, release_id, key_fingerprint)
            if state.last.is_open
        ]
    )
    return True


def finished_or_freed(
    books: ReleaseRegistry, key_fingerprint: str, finish: Any = ReleaseRegistry.finish
) -> None:
    try:
        finish(books, key_fingerprint)
    except BaseException:
        free(books.ledger, books.folder.output, books.folder.release_id, key_fingerprint)
        raise


def refusing(
    method: Any,
    name: str,
    statistics: Any,
    *others: Any,
    decide: Any = VariantHistogramMethod.decide,
) -> Any:
    """Refuses by what the log has."""
    if any(getattr(counted, "n_variants", 0) > 3 for counted in statistics.values()):
        raise GuaranteeError("there are too many variants")
    return decide(method, name, statistics, *others)


def telling_manifest(run: Run, made: Any = claiming.manifest_of_run) -> Any:
    """Has a digest of the log."""
    return replace(made(run), config_digest=f"{Path(run.config.log[0]).stat().st_size:064x}")


def telling_job(run: Run, made: Any = claiming.job_of) -> Any:
    """Has as many parts as the log says."""
    job, n = made(run), Path(run.config.log[0]).read_bytes().count(b"\n")
    return replace(job, target=replace(job.target, n_parts=1 + n % 97))


# What is put in whose place: an owner, a name, and what stands there.
Changes = tuple[tuple[Any, str, Any], ...]
# What a check must catch, and whether it is tried before every commit.
BUILDS: tuple[tuple[str, Changes, bool], ...] = (
    ("refund", ((Ledger, "draw", nothing), (DrawGuard, "check_open", nothing)), True),
    ("refund", ((Ledger, "void", free),), True),
    ("refund", ((KeyStore, "unfinished", nothing),), False),
    ("changed input", (
        (Receipt, "check_same", nothing), (Receipt, "same_files", lambda _, found: tuple(found)),
        (opening, "_going_on", lambda run, _: run), (DrawGuard, "check_open", nothing),
        (KeptDraws, "once", lambda *given: given[-1]()),
    ), True),
    ("changed decision", (
        (wrapping, "_mac", lambda *_: bytes(32)),
        (wrapping.hmac, "compare_digest", lambda *_: True),
    ), False),
    ("lost decision", ((KeyReference, "resolve", lambda _: ReleaseKey.generate()),), False),
    ("cut-off commit", ((ReleaseRegistry, "finish", finished_or_freed),), False),
    ("refusal", ((VariantHistogramMethod, "decide", refusing),), True),
    ("bad case", ((ReleaseConfig, "largest_error_ratio", 0.01),), True),
    ("equal inputs", ((claiming, "manifest_of_run", telling_manifest),), True),
    ("equal inputs", ((claiming, "job_of", telling_job),), False),
    ("no name", ((ReleaseConfig, "check_named", nothing),), True),
    ("filter values", ((records_module, "without_filters", lambda config: config),), False),
)  # fmt: skip


def broken_by(patch: pytest.MonkeyPatch, changes: Changes) -> None:
    for owner, name, other in changes:
        patch.setattr(owner, name, other)


@pytest.mark.parametrize(
    ("name", "broken"),
    [(name, broken) if is_fast else at_night(name, broken) for name, broken, is_fast in BUILDS],
)
def test_a_check_catches_a_build_in_which_it_does_not_hold(
    name: str, broken: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_by(monkeypatch, broken)
    assert broken_in(check_configuration(configured(**RIGOROUS), [name]))


def test_every_such_build_can_be_made() -> None:
    """What they replace is still there, which at night alone would come too late."""
    for _, broken, _ in BUILDS:
        with pytest.MonkeyPatch.context() as patch:
            broken_by(patch, broken)


def test_every_check_has_a_build_that_it_catches() -> None:
    assert {name for name, _, _ in BUILDS} == {*CHECKS}
