"""Ways round a budget: every check holds today, and catches a build in which it would not.

The broken builds are this one with something put out of work, all layers of it where there are
several: then the check that is about it must say so.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.checks.run import ASIDE, BROKEN, CHECKS, HELD, check_configuration
from tests.support.examples import examples_of
from tests.support.tiers import at_night
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.anonymizers.registry import METHODS
from tracecloak.anonymizers.variants.method import VariantHistogramMethod
from tracecloak.pipelines.budget import opening as opening_module
from tracecloak.pipelines.budget.draw_guard import DrawGuard
from tracecloak.pipelines.budget.registry import ReleaseRegistry, ReleaseState
from tracecloak.pipelines.configuration.config import ReleaseConfig, load
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.receipts import Receipt
from tracecloak.pipelines.ledger import caps, officers_ledger
from tracecloak.pipelines.ledger.balance import charges_of
from tracecloak.pipelines.ledger.cache import LedgerCache
from tracecloak.pipelines.ledger.entries import Entry
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger
from tracecloak.pipelines.release import opening
from tracecloak.pipelines.release import run as claiming
from tracecloak.pipelines.release import values as records_module
from tracecloak.pipelines.release.values import Run
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.transforms.batch.job import KeptDraws
from tracecloak.transforms.keys import wrapping
from tracecloak.transforms.keys.wrapping import KeyReference
from tracecloak.transforms.publish.release_folder import ReleaseFolder

RIGOROUS = {"method": "variant-histogram", "epsilon": "1"}
PUBLISHED = {"method": "amun", "guessing_advantage": "0.2"}
# One form of the log, which takes less time.
SMALL = {"formats": "parquet", "parts": "1", "shards": "1"}


def configured(**flags: Any) -> ReleaseConfig:
    return load(None, {"log": "nowhere/log.csv", "output": "nowhere", **SMALL, **flags})


def broken_in(found: dict[str, str]) -> dict[str, str]:
    return {name: said for name, said in found.items() if said.startswith(BROKEN)}


# --- what holds -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_check_holds_and_nothing_of_the_operator_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither input nor ledger nor folders are there, and none is afterwards."""
    monkeypatch.setenv("TRACECLOAK_KEY_STORE", str(tmp_path / "own"))
    monkeypatch.setenv("TRACECLOAK_DEPLOYMENT_KEY", f"file:{tmp_path}/deployment.key")
    body = {
        "log": f"{tmp_path}/log.csv", "output": f"{tmp_path}/out", "parts": 1,
        "method": "variant-histogram", "params": {"epsilon": "1"}, "formats": ["csv"],
        "key_store": f"{tmp_path}/keys", "ledger": f"sqlite:///{tmp_path}/ledger.db",
        "accounts": f"{tmp_path}/accounts.yaml", "account": "claims", "dataset": "claims",
        "staging_area": f"{tmp_path}/staging", "dead_letter": f"{tmp_path}/dead",
        "worker_keys": f"{tmp_path}/worker-keys",
        "deployment_key": f"file:{tmp_path}/key",
        "key_encryption_key": f"file:{tmp_path}/kek", "runner": "DataflowRunner", "release_id": "x",
    }  # fmt: skip
    config = tmp_path / "release.yaml"
    config.write_text(json.dumps(body))
    found = check_configuration(load(str(config), {}))
    assert {path.name for path in tmp_path.iterdir()} == {"release.yaml"}
    assert {*found.values()} == {HELD}, found


@pytest.mark.parametrize(
    "names", [["refund", "refusal", "second account"], at_night(CHECKS)], ids=["some", "all"]
)
def test_of_a_published_method_the_checks_hold_or_say_why_they_do_not_apply(
    names: Iterable[str],
) -> None:
    found = check_configuration(configured(**PUBLISHED), names)
    assert not broken_in(found)
    assert "promises nothing" in found["refusal"]
    assert found["refund"] == found["second account"] == HELD


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "number"), [(m, n) for m in METHODS for n in range(len(examples_of(METHODS[m])))]
)
def test_every_check_holds_of_every_method(method: str, number: int) -> None:
    example = examples_of(METHODS[method])[number]
    whose = {"individual_id": "who"} if "max_cases_per_individual" in example else {}
    found = check_configuration(configured(method=method, params=dict(example), **whose))
    assert not broken_in(found)
    assert found["refund"] == found["second account"] == HELD


@pytest.mark.slow
@pytest.mark.parametrize("flags", [RIGOROUS, PUBLISHED], ids=["rigorous", "published"])
def test_every_check_holds_with_beam(flags: dict[str, Any]) -> None:
    assert not broken_in(check_configuration(configured(**flags), runner="FnApiRunner"))


# --- what a configuration says --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "name", "outcome", "told"),
    [
        ({"max_error_ratio": 0.01}, "bad case", ASIDE, "sets max_error_ratio 0.01"),
        ({"new_ledger": True}, "fresh ledger", BROKEN, "leave it out after the first release"),
    ],
)
def test_what_a_configuration_leaves_open_is_found(
    flags: dict[str, Any], name: str, outcome: str, told: str
) -> None:
    said = check_configuration(configured(**RIGOROUS, **flags), [name])[name]
    assert said.startswith(outcome) and told in said


# --- builds in which they do not hold -------------------------------------------------------------


def nothing(*_: Any, **__: Any) -> None:
    """In place of what makes sure of something."""


def free(ledger: Ledger, output: str, release_id: str, key_fingerprint: str, *_: Any) -> bool:
    """Gives back whatever is open."""
    ledger.append(
        lambda past: [
            ("void", asdict(entry), None)
            for entry in charges_of(
                past.of_release(output, release_id), output, release_id, key_fingerprint
            )
            if entry.is_open
        ]
    )
    return True


def no_note_of_the_draw(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "draw", nothing)
    patch.setattr(DrawGuard, "check_open", nothing)


def a_refund_after_the_draw(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "void", free)


def a_key_for_every_run(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyStore, "unfinished", nothing)


def keys_that_are_drawn_when_they_are_asked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyReference, "resolve", lambda _: ReleaseKey.generate())


def no_look_at_what_changed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Receipt, "check_same", nothing)
    patch.setattr(Receipt, "same_files", lambda _, found: tuple(found))
    patch.setattr(opening, "_going_on", lambda run, _: run)
    patch.setattr(KeptDraws, "once", lambda *given: given[-1]())
    patch.setattr(DrawGuard, "check_open", nothing)


def a_refund_for_what_is_given_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OfficersLedger, "forfeit", free)


def one_charge_for_all(patch: pytest.MonkeyPatch) -> None:
    """A release of an id that paid once is not charged again, whatever its key."""
    reserve = Ledger.reserve

    def once(ledger: Ledger, reservation: Any) -> None:
        if all(entry.release_id != reservation.release_id for entry in ledger.entries()):
            reserve(ledger, reservation)

    def is_of(entry: Entry, output: str, release_id: str, _: str) -> bool:
        return (entry.output, entry.release_id) == (output, release_id)

    patch.setattr(Ledger, "reserve", once)
    patch.setattr(Entry, "is_of", is_of)


def decisions_that_anybody_writes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(wrapping, "_mac", lambda *_: bytes(32))
    patch.setattr(wrapping.hmac, "compare_digest", lambda *_: True)


def a_refund_where_the_books_are_not_finished(patch: pytest.MonkeyPatch) -> None:
    finish = ReleaseRegistry.finish

    def freeing(books: ReleaseRegistry, key_fingerprint: str) -> None:
        try:
            finish(books, key_fingerprint)
        except BaseException:
            free(books.ledger, books.folder.output, books.folder.release_id, key_fingerprint)
            raise

    patch.setattr(ReleaseRegistry, "finish", freeing)


def no_look_for_a_finished_release(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReleaseFolder, "committed", nothing)


def no_look_at_what_was_withdrawn(patch: pytest.MonkeyPatch) -> None:
    look = ReleaseRegistry.look

    def forgetful(books: ReleaseRegistry) -> ReleaseState:
        standing = look(books)
        return ReleaseState("new", None) if standing.state == "withdrawn" else standing

    patch.setattr(ReleaseRegistry, "look", forgetful)
    patch.setattr(caps, "check_not_withdrawn", nothing)


def no_lock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyStore, "alone", lambda *_: contextlib.nullcontext())


def a_refusal_by_what_the_log_has(patch: pytest.MonkeyPatch) -> None:
    decide = VariantHistogramMethod.decide

    def refusing(method: Any, name: str, statistics: Any, *others: Any) -> Any:
        if any(getattr(counted, "n_variants", 0) > 3 for counted in statistics.values()):
            raise GuaranteeError("there are too many variants")
        return decide(method, name, statistics, *others)

    patch.setattr(VariantHistogramMethod, "decide", refusing)


def a_ratio_by_default(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReleaseConfig, "largest_error_ratio", 0.01)


def a_manifest_with_a_digest_of_the_log(patch: pytest.MonkeyPatch) -> None:
    made = claiming.manifest_of_run

    def telling(run: Run) -> Any:
        size = Path(run.config.log[0]).stat().st_size
        return replace(made(run), config_digest=f"{size:064x}")

    patch.setattr(claiming, "manifest_of_run", telling)


def parts_by_what_the_log_has(patch: pytest.MonkeyPatch) -> None:
    made = claiming.job_of

    def telling(run: Run) -> Any:
        job = made(run)
        n = Path(run.config.log[0]).read_bytes().count(b"\n")
        return replace(job, target=replace(job.target, n_parts=1 + n % 97))

    patch.setattr(claiming, "job_of", telling)


def names_by_the_input(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReleaseConfig, "check_named", nothing)


def a_digest_of_the_filters(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(records_module, "without_filters", lambda config: config)


def a_ledger_that_ignores_what_is_declared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(caps, "check_declared", nothing)


def caps_that_do_not_hold(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(caps, "check_affordable", nothing)


def data_sets_of_anybody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(caps, "check_dataset", nothing)


def no_look_at_what_was_remembered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "check_remembered", nothing)
    patch.setattr(LedgerCache, "head", nothing)


def no_look_at_the_chain(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(officers_ledger, "problems", lambda *_: [])
    patch.setattr(Ledger, "check_remembered", nothing)


def a_fresh_ledger_wherever_there_is_none(patch: pytest.MonkeyPatch) -> None:
    opened = opening_module.open_ledger

    def beginning(config: Any, store: KeyStore) -> Ledger:
        return opened(config.model_copy(update={"new_ledger": True}), store)

    patch.setattr(opening_module, "open_ledger", beginning)


def a_beginning_that_empties(patch: pytest.MonkeyPatch) -> None:
    opened = opening_module.open_ledger

    def emptying(config: Any, store: KeyStore) -> Ledger:
        if config.new_ledger:
            url = config.ledger or store.ledger_url
            Path(url.removeprefix("sqlite:///")).unlink(missing_ok=True)
        return opened(config, store)

    patch.setattr(opening_module, "open_ledger", emptying)


def other_ledgers_without_caps(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LedgerCache, "knows_others_with_caps", lambda _: False)


Breaks = Callable[[pytest.MonkeyPatch], None]
# What a check must catch, and whether it is tried before every commit.
BUILDS: tuple[tuple[str, Breaks, bool], ...] = (
    ("refund", no_note_of_the_draw, True),
    ("refund", a_refund_after_the_draw, True),
    ("refund", a_key_for_every_run, False),
    ("changed input", no_look_at_what_changed, True),
    ("given up", a_refund_for_what_is_given_up, False),
    ("deleted key", one_charge_for_all, False),
    ("changed decision", decisions_that_anybody_writes, False),
    ("lost decision", keys_that_are_drawn_when_they_are_asked_for, False),
    ("cut-off commit", a_refund_where_the_books_are_not_finished, False),
    ("finished release", no_look_for_a_finished_release, False),
    ("withdrawn release", no_look_at_what_was_withdrawn, False),
    ("at once", no_lock, False),
    ("refusal", a_refusal_by_what_the_log_has, True),
    ("bad case", a_ratio_by_default, True),
    ("equal inputs", a_manifest_with_a_digest_of_the_log, True),
    ("equal inputs", parts_by_what_the_log_has, False),
    ("no name", names_by_the_input, True),
    ("filter values", a_digest_of_the_filters, False),
    ("second account", a_ledger_that_ignores_what_is_declared, True),
    ("second account", caps_that_do_not_hold, False),
    ("bound data set", data_sets_of_anybody, False),
    ("two at once", caps_that_do_not_hold, False),
    ("lowered cap", caps_that_do_not_hold, False),
    ("old ledger", no_look_at_what_was_remembered, False),
    ("old copy of the ledger", no_look_at_what_was_remembered, False),
    ("old key store", no_look_at_what_was_remembered, False),
    ("changed entry", no_look_at_the_chain, False),
    ("removed entries", no_look_at_what_was_remembered, False),
    ("lost ledger", no_look_at_what_was_remembered, False),
    ("second beginning", a_beginning_that_empties, False),
    ("fresh ledger", a_fresh_ledger_wherever_there_is_none, False),
    ("ledger without caps", other_ledgers_without_caps, False),
    ("other key store", one_charge_for_all, False),
)


@pytest.mark.parametrize(
    ("name", "broken"),
    [(name, broken) if is_fast else at_night(name, broken) for name, broken, is_fast in BUILDS],
)
def test_a_check_catches_a_build_in_which_it_does_not_hold(
    name: str, broken: Breaks, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    assert broken_in(check_configuration(configured(**RIGOROUS), [name]))


def test_every_such_build_can_be_made() -> None:
    """What they replace is still there, which at night alone would come too late."""
    for _, broken, _ in BUILDS:
        with pytest.MonkeyPatch.context() as patch:
            broken(patch)


def test_every_check_has_a_build_that_it_catches() -> None:
    assert {name for name, _, _ in BUILDS} == {*CHECKS}
