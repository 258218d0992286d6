"""`tracecloak release`: from a configuration to a committed release, or to nothing at all."""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tracecloak.anonymizers.accounting.composition import exact_text
from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.budget.registry import AfterReleaseError, ReleaseState, after_release
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.configuration.plan import ReleasePlan, resolve
from tracecloak.pipelines.ledger.balance import Balance, charge_states
from tracecloak.pipelines.ledger.entries import Reservation, reservation_of
from tracecloak.pipelines.planning.findings import FirstLook, log_findings
from tracecloak.pipelines.release.opening import (
    as_charged,
    open_run,
    origin_of,
    recognise,
    resume_run,
)
from tracecloak.pipelines.release.values import (
    Outcome,
    Run,
    Signature,
    manifest_of,
    require_confirmation,
)
from tracecloak.pipelines.runners.failures import reason_of, redact_foreign_errors, unwrap_error
from tracecloak.pipelines.runners.flags import IN_MEMORY
from tracecloak.schemas.errors import (
    GuaranteeError,
    InputSchemaError,
    RetryLater,
    TracecloakError,
    UsageError,
)
from tracecloak.schemas.events.tally import ReadTally
from tracecloak.schemas.published.manifest import MANIFEST_NAME, SIGNATURE_NAMES, Yield
from tracecloak.transforms.batch.job import Job, KeptDraws, ReleaseRun, SketchFile, Target
from tracecloak.transforms.files import (
    exists,
    join,
    open_raw,
    read_if_there,
    require_writable,
    write_anew,
)
from tracecloak.transforms.inputs.source_files import SourceFile
from tracecloak.transforms.operator_log import operator_log
from tracecloak.transforms.publish.release_folder import DFG_NAME, STATEMENT_NAME, log_name

if TYPE_CHECKING:
    from tracecloak.pipelines.budget.draw_guard import DrawGuard
    from tracecloak.pipelines.ledger.ledger import Ledger
    from tracecloak.pipelines.ledger.snapshot import LedgerSnapshot
    from tracecloak.pipelines.release.values import Driver
    from tracecloak.transforms.publish.release_folder import ReleaseFolder
    from tracecloak.transforms.sources import EventSource

# --- Earlier syntactic releases that may have cases of one that is made: who makes it is told. ----


_LOG = logging.getLogger("tracecloak")


def warn_of_overlaps(reservation: Reservation, ledger: Ledger) -> None:
    """Tells the operator of earlier syntactic releases that may have cases of this one.

    Two logs in each of which k cases are alike can single somebody out if they are laid side by
    side, and no ledger adds that up. Releases count as of the same log if they are of one data set,
    or, where one of them names none, lie in one folder. Windows of one schedule share no case,
    unless they are the same window. Of the log nothing is looked at, and nobody is refused.

    Args:
        reservation: Of the release that is made.
        ledger: Who pays.
    """
    places, window = [], reservation.window
    for state in charge_states(ledger.entries()).values():
        entry, other = state.last, state.window
        is_own = entry.keyed_release[:2] == (reservation.output, reservation.release_id)
        is_syntactic = False
        with contextlib.suppress(UsageError):  # of what is not installed nobody can tell
            is_syntactic = method_named(entry.method).guarantee_kind == "syntactic"
        was_seen = entry.action in ("commit", "withdraw") and is_syntactic
        ours, theirs = reservation.dataset, state.reserved.facts.get("dataset")
        are_named = ours is not None and theirs is not None
        is_of_log = ours == theirs if are_named else entry.output == reservation.output
        is_apart = (
            window is not None
            and other is not None
            and other.scope == window.scope
            and other.label != window.label
        )
        if was_seen and is_of_log and not is_own and not is_apart:
            places.append(f"{entry.output}/run_id={entry.release_id}")
    if places:
        more = f" and {len(places) - 1} before it" if len(places) > 1 else ""
        _LOG.warning(
            "%s%s may have cases of this release, too: laid side by side, such releases can single "
            'out who is safe in each: see "Releases of a log that grows" in the documentation',
            places[-1],
            more,
        )


def reserve_budget(run: Run, found: ReleaseState) -> Run:
    """Returns a run that is paid and may draw, once its gate is passed.

    Args:
        run: As it was opened.
        found: What its release is now.

    Raises:
        TracecloakError: It may not be made, or not be finished, or not be paid.
    """
    books, plan, folder = run.books, run.plan, run.books.folder

    def requested(key_fingerprint: str) -> Reservation:
        reservation = reservation_of(plan, folder, key_fingerprint)
        for concern in run.concerns:
            reservation = concern.reserved(reservation)
        return as_charged(books, reservation) if found.state == "drawn" else reservation

    refusal = books.refusal(found)
    receipt = found.receipt
    if refusal is not None:
        if found.state == "withdrawn" and receipt is not None:
            books.store.commit(receipt.output, receipt.release_id)  # as of a store played back
        raise refusal
    if found.state in ("given up", "drawn", "reserved"):
        run = resume_run(run, found, requested)
        books = run.books
    require_writable("output", run.books.folder.output)
    if plan.keys.dead_letter is not None:
        require_writable("dead_letter", plan.keys.dead_letter)
    if plan.guarantee.kind == "syntactic":
        warn_of_overlaps(requested("of any key"), books.ledger)
    run.books.folder.prepare()
    digests = run.input_fingerprint, plan.digest
    key, begun = books.reserve(digests, origin_of(run), requested)
    return replace(run, key=key, receipt=begun)


def job_of(run: Run) -> Job:
    """Returns what the driver is given, once every unit that counts is reserved.

    A run that ends with this process passes its gate where the first round decides, and one on a
    cluster before it is submitted: it may outlive whoever started it.

    Raises:
        TracecloakError: Nothing was drawn, unless the ledger says so.
    """
    keys, driver, folder = run.plan.keys, run.driver, run.books.folder
    if not driver.is_local:
        # The job of a command that was killed may go on, and must keep its files.
        folder = replace(folder, attempt=uuid.uuid4().hex[:16])
    made, gate = _steps_of(run, folder)
    folder.discard()
    run.dead_letter.begin()
    _LOG.info(
        "reading; what is found in the records is for the operator alone, in %s",
        run.dead_letter.folder,
    )
    if not driver.is_local:
        driver.check_workplace(folder.workplace)
    forms = keys.formats, keys.parts, keys.page == "shared"
    target = Target(made, folder, manifest_of(run), *forms)
    job = Job(
        run.source, run.dead_letter, target, keys.shards,
        memory_bytes=keys.memory, n_workers=keys.workers,
    )  # fmt: skip
    for concern in run.concerns:
        job = concern.claim(run, job)
        # What was claimed may be part of what the release says of itself.
        job = replace(job, target=replace(job.target, manifest=manifest_of(run)))
    if not driver.is_local:
        folder.note_at_work()
        gate()
    return job


def _steps_of(run: Run, folder: ReleaseFolder) -> tuple[ReleaseRun, DrawGuard]:
    """Returns the steps of a release, and the gate before its noise."""
    from tracecloak.pipelines.budget.draw_guard import draw_guard_of

    books, plan, key, is_local = run.books, run.plan, run.key, run.driver.is_local
    assert key is not None  # its budget is reserved
    keyed_release = books.keyed_release(key.fingerprint)
    gate = draw_guard_of(books.store, keyed_release, books.ledger.url, run.unchanged)
    sketch = None
    if run.sketch_key is not None:
        until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(plan.keys.cases_kept_days)
        path = books.sketch_path(key.fingerprint)
        sketch = SketchFile(path, run.sketch_key, until.date().isoformat())
    made = ReleaseRun(
        *(plan.method, plan.params, folder.release_id, plan.noise_digest),
        key=key,
        draws=KeptDraws(books.decisions(key.fingerprint), key, gate if is_local else None),
        sketch=sketch,
        check_open=gate.check_open if is_local else folder.check_at_work,
        signer=run.signer,
        operator_folder=run.dead_letter.folder,
    )
    return made, gate


# --- A run that failed is finalized: its result is recorded, and its error has the remedy. --------


_STAYS_SPENT = (
    "Its budget stays spent: run the same command again, which draws nothing new, or choose "
    "another release_id"
)


def finalize_failed(run: Run, error: BaseException) -> BaseException:
    """Writes down what became of a run that failed, and returns what to raise.

    What may have drawn noise stays spent, and its key stays for another run.
    """
    assert run.key is not None  # its budget is reserved
    log_findings(run.source, run.dead_letter)
    books, folder = run.books, run.books.folder
    try:
        shown = books.shows(run.key.fingerprint)
    except Exception as unknown:
        return TracecloakError(
            f"the pipeline failed with {reason_of(error)}, and what is in {folder.final} cannot be "
            f"told ({reason_of(unknown)}). {_STAYS_SPENT}"
        )
    if shown == "this release":
        return after_release(folder, error)
    if shown == "another's":
        return RetryLater(
            f"a run with another key store released {folder.final} meanwhile. What this one "
            "reserved stays spent: end it with `tracecloak ledger forfeit`"
        )
    if shown == "parts":
        return TracecloakError(
            f"the pipeline failed with {reason_of(error)}, and {folder.final} holds a part of a "
            f"release. {_STAYS_SPENT}"
        )
    raised = unwrap_error(error) if isinstance(error, Exception) else error
    if not books.void(run.key.fingerprint):
        books.note_cases(run.key.fingerprint)
        # Under the same key these are raised again.
        if isinstance(raised, (GuaranteeError, InputSchemaError)):
            _LOG.warning(
                "the log was looked at before it was refused, so what was reserved stays spent: "
                "give it up with `tracecloak ledger forfeit`, and take another release_id"
            )
        else:
            _LOG.warning(
                "noise was drawn, or may have been, before the run ended. %s; or give it up with "
                "`tracecloak ledger forfeit`",
                _STAYS_SPENT,
            )
    return raised


# --- What comes after a release is visible: the run is finalized, and reported. -------------
# The operator gets the outcome and an edition of the statement.


@contextlib.contextmanager
def _once_visible(run: Run) -> Iterator[None]:
    """Has other errors than those that tell it themselves say that the release is visible."""
    try:
        yield
    except AfterReleaseError:
        raise
    except BaseException as error:  # an interrupt, too
        raise after_release(run.books.folder, error) from error


def outcome_of(run: Run, was_released_before: bool) -> Outcome:
    """Writes the operator's edition of the statement, and returns the outcome.

    A complete release does not fail because a part of its outcome cannot be read.

    Raises:
        TracecloakError: The signature of an earlier release cannot be compared, see `signing`.
        AfterReleaseError: The statement could not be written, or the run was interrupted; the
            release is complete.
    """
    from tracecloak.schemas.texts import formulas as formulas_of  # loaded on use

    keys = run.plan.keys
    assert run.receipt is not None  # the release is there
    signature: Signature = "there" if run.signer else "none"
    if was_released_before:
        signature = _signature_of(run)
    with _once_visible(run):
        warnings: tuple[str, ...] = ()
        statement = join(run.operator_folder, STATEMENT_NAME)
        if not was_released_before or not exists(statement):
            with contextlib.suppress(Exception):  # whatever a file system does
                warnings = FirstLook.at(run.plan, run.source).warnings
            _write_statement(run, statement, warnings)
        manifest = run.books.folder.committed() or {}
        tally: ReadTally | None = None
        balance: Balance | None = None
        with contextlib.suppress(Exception):  # whatever a file system does
            tally = run.dead_letter.told()
        with contextlib.suppress(Exception):  # whatever a database does
            past = run.books.ledger.past(is_sound=True)
            balance = run.books.ledger.balance(_payer(run, past), past)
        formulas: tuple[str, ...] = ()  # that a spreadsheet takes released activities for
        place = run.books.folder.final
        with contextlib.suppress(Exception):  # whatever a file system does
            if "csv" in keys.formats and exists(join(place, log_name("csv"))):
                with open_raw(join(place, DFG_NAME)) as stream:
                    formulas = tuple(formulas_of(json.load(stream)["activities"]))
        outcome = Outcome(
            run.books.folder,
            was_released_before,
            run.dead_letter.folder,
            Yield(**manifest.get("came_out", {})),
            tuple(output["path"] for output in manifest.get("outputs", ())),
            tally,
            balance,
            signature,
            warnings=() if was_released_before else warnings,
            formulas=formulas,
        )
        for concern in run.concerns:
            outcome = concern.tell(run, outcome)
        return outcome


def _payer(run: Run, past: LedgerSnapshot) -> str:
    """Returns the account that paid for a release that is there, or would if nobody has."""
    assert run.receipt is not None  # the release is there
    paid = past.states(*run.books.keyed_release(run.receipt.key_fingerprint))
    return paid[-1].last.account if paid else run.plan.keys.account


def _signature_of(run: Run) -> Signature:
    """Returns whether a release that was there before is signed, and by which key.

    Raises:
        UsageError: The key that is named is not there any more.
        RetryLater: Its source does not answer now.
    """
    manifest, signature = (
        read_if_there(join(run.books.folder.final, name))
        for name in (MANIFEST_NAME, SIGNATURE_NAMES[0])
    )
    if manifest is None or signature is None:
        return "none"
    is_ours = run.signer is None or run.signer.sign(manifest)[0] == signature
    return "there" if is_ours else "by another key"


def _write_statement(run: Run, path: str, warnings: tuple[str, ...]) -> None:
    """Writes the operator's edition of the statement where only the operator reads.

    Raises:
        TracecloakError: It could not be written; the release is complete.
    """
    ledger, keys = run.books.ledger, run.plan.keys
    assert run.receipt is not None  # the release is there
    past = ledger.past(is_sound=True)
    payer, spent = _payer(run, past), None
    with contextlib.suppress(UsageError):  # a ledger that was begun anew has no such account
        spent = ledger.balance(payer, past).spent_epsilon
    account = ledger.account_in(past, payer)
    cap, tally = None if account is None else account.epsilon_cap, run.dead_letter.told()
    from tracecloak.transforms.publish.statement import InternalFacts, internal_statement

    facts = InternalFacts(
        account=payer,
        ledger=ledger.place,
        spent_after=exact_text(spent),
        cap=exact_text(cap),
        inputs=tuple(file.path for file in run.source.files) or keys.log,
        runner=keys.runner,
        config_digest=run.plan.digest,
        key_fingerprint=run.receipt.key_fingerprint,
        dead_letter=run.dead_letter.folder if tally is not None and tally.n_rejects else None,
        warnings=warnings,
        configuration=keys.model_dump(mode="json"),
    )
    write_anew(path, internal_statement(manifest_of(run), facts).encode())


# --- `tracecloak release`: from a configuration to a committed release, or to nothing at all. -----
# A release is five steps over one value, a `Run`: open, reserve, execute, finalize, report.
# What only some releases need hangs on a table beside them, see `concerns`.


def run_release(
    config: ReleaseConfig,
    beam_arguments: Sequence[str] = (),
    confirm: Callable[[str], bool] | None = None,
) -> Outcome:
    """Makes the release that a configuration describes, unless it exists.

    Args:
        config: The configuration.
        beam_arguments: Flags of Beam.
        confirm: Asks a person a question, before anything is reserved for records most of which
            do not count; None: nobody is asked.

    Raises:
        NotConfirmed: The answer is no; nothing was reserved.
        TracecloakError: Nothing was released, for the reason that the error's class and text give;
            or, for AfterReleaseError, something was.
    """
    before = partial(require_confirmation, confirm=confirm)
    return run_plan(resolve(config).of_named_window(), beam_arguments, before)


def run_plan(
    plan: ReleasePlan,
    beam_arguments: Sequence[str] = (),
    before: Callable[[Run], None] | None = None,
    listed: Sequence[SourceFile] | None = None,
    source: EventSource | None = None,
    driver: Driver | None = None,
) -> Outcome:
    """Makes the release of a plan, unless it exists; see `run_release`.

    Args:
        plan: What is to be made.
        beam_arguments: Flags of Beam.
        before: Called once the run is opened, before anything is reserved.
        listed: See `open_run`.
        source: Likewise.
        driver: What runs it; None: what its keys and the flags of Beam name.
    """
    with redact_foreign_errors():
        plan = plan.with_flags_of_beam(beam_arguments)
        driver = driver_of(plan.keys, beam_arguments) if driver is None else driver
        run = open_run(plan, driver, source, listed)
        if before is not None:
            before(run)
        return _made(run)


def driver_of(keys: ReleaseConfig, beam_arguments: Sequence[str]) -> Driver:
    """Returns what runs a release.

    Args:
        keys: Its configuration.
        beam_arguments: Flags of Beam.

    Raises:
        UsageError: Flags or keys are not for this runner, or ask for what loses data; or the runner
            cannot be started.
    """
    if keys.runner != IN_MEMORY:
        if keys.memory or keys.workers:
            raise UsageError(
                f"memory and workers are for runner {IN_MEMORY}, and runner {keys.runner} has "
                "flags of its own for them; leave memory and workers out, or the runner"
            )
        from tracecloak.pipelines.runners.on_beam import BeamDriver, pipeline_options

        return BeamDriver(keys.runner, pipeline_options(keys.runner, beam_arguments))
    if beam_arguments:
        raise UsageError(
            f"runner {IN_MEMORY} takes no flags of Beam, got {beam_arguments[0]}; leave one of the "
            "two out"
        )
    from tracecloak.pipelines.runners.in_memory import InMemoryDriver

    return InMemoryDriver()


def _made(run: Run) -> Outcome:
    folder = run.books.folder
    with (
        run.books.store.alone(folder.output, folder.release_id),
        operator_log(run.dead_letter.folder),
    ):
        found = run.books.look()
        if found.state in ("visible", "released"):
            return outcome_of(recognise(run, found), was_released_before=True)
        run = reserve_budget(run, found)
        try:
            run.driver.run(job_of(run))
        except BaseException as error:
            ended = finalize_failed(run, error)
            if ended is error:
                raise
            raise ended from error
        with _once_visible(run):  # a rerun remedies a failure
            assert run.key is not None  # its budget is reserved
            log_findings(run.source, run.dead_letter)
            if not run.driver.is_local and (changed := run.unchanged.changed()) is not None:
                _LOG.warning(
                    "input %r changed while workers elsewhere were at work, so of what the release "
                    "was made is not known; `tracecloak ledger withdraw` takes it back",
                    changed,
                )
            run.books.finish(run.key.fingerprint)
        return outcome_of(run, was_released_before=False)
