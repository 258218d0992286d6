"""What comes after a release is visible: the run is settled, and its operator is told.

The operator gets the outcome and an edition of the statement.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator
from fractions import Fraction

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.pipelines.budget.books import AfterReleaseError, after_release
from tracecloak.pipelines.ledger.balance import Balance
from tracecloak.pipelines.planning.findings import FirstLook, log_findings
from tracecloak.pipelines.release.records import manifest_of_run
from tracecloak.pipelines.release.values import Outcome, Run
from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.schemas.events.tally import ReadTally
from tracecloak.schemas.published.yields import Yield
from tracecloak.transforms.files import exists, join, open_raw, write_anew
from tracecloak.transforms.publish.names import DFG_NAME, STATEMENT_NAME, log_name
from tracecloak.transforms.publish.statement import InternalFacts, internal_statement

_LOG = logging.getLogger("tracecloak")


def settled(run: Run) -> None:
    """Does what comes after a release is visible.

    Raises:
        AfterReleaseError: It failed; running the release again mends it.
    """
    with _once_visible(run, AfterReleaseError):
        assert run.key is not None  # the run is claimed
        log_findings(run.source, run.dead_letter)
        if not run.driver.is_local and (changed := run.unchanged.changed()) is not None:
            _LOG.warning(
                "input %r changed while workers elsewhere were at work, so it is not known of "
                "what the release was made; if it must not stay, take it back with `tracecloak "
                "ledger withdraw`",
                changed,
            )
        run.books.finish(run.key.fingerprint)
        for concern in run.concerns:
            concern.settle(run)


@contextlib.contextmanager
def _once_visible(run: Run, told: type[TracecloakError]) -> Iterator[None]:
    """Has other errors than those that tell it themselves say that the release is visible."""
    try:
        yield
    except told:
        raise
    except BaseException as error:  # an interrupt, too
        raise after_release(run.folder, error) from error


def outcome_of(run: Run, was_released_before: bool) -> Outcome:
    """Writes the operator's edition of the statement, and returns the outcome.

    A complete release does not fail because a part of its outcome cannot be read.

    Raises:
        TracecloakError: The signature of an earlier release cannot be compared, see `signing`.
        AfterReleaseError: The statement could not be written, or the run was interrupted; the
            release is complete.
    """
    with _once_visible(run, TracecloakError):
        warnings: tuple[str, ...] = ()
        if not was_released_before or not exists(_statement_path(run)):
            with contextlib.suppress(Exception):  # whatever a file system does
                warnings = FirstLook.at(run.config, run.source).warnings
            _write_statement(run, warnings)
        manifest = run.folder.committed() or {}
        tally: ReadTally | None = None
        balance: Balance | None = None
        with contextlib.suppress(Exception):  # whatever a file system does
            tally = run.dead_letter.told()
        with contextlib.suppress(Exception):  # whatever a database does
            balance = run.books.ledger.balance(_payer(run))
        outcome = Outcome(
            run.folder,
            was_released_before,
            run.dead_letter.folder,
            Yield(**manifest.get("came_out", {})),
            tuple(output["path"] for output in manifest.get("outputs", ())),
            tally,
            balance,
            "there" if was_released_before and run.folder.read_signature() else "none",
            warnings=() if was_released_before else warnings,
            formulas=_formulas(run) if "csv" in run.config.formats else (),
        )
        for concern in run.concerns:
            outcome = concern.tell(run, outcome)
        return outcome


def _formulas(run: Run) -> tuple[str, ...]:
    """Returns the released activities that are formulas in a CSV; none where none is released."""
    from tracecloak.schemas.texts.formulas import formulas

    with contextlib.suppress(Exception):  # whatever a file system does
        if exists(join(run.folder.final, log_name("csv"))):
            with open_raw(join(run.folder.final, DFG_NAME)) as stream:
                return tuple(formulas(json.load(stream)["activities"]))
    return ()


def _payer(run: Run) -> str:
    """Returns the account that paid, or the one that this run names if nobody has paid.

    Raises:
        LedgerError: The ledger cannot be read.
    """
    assert run.receipt is not None  # the release is there
    paid = run.books.charges(run.receipt.key_fingerprint)
    return paid[-1].account if paid else run.config.account


def _statement_path(run: Run) -> str:
    return join(run.operator_folder, STATEMENT_NAME)


def _write_statement(run: Run, warnings: tuple[str, ...]) -> None:
    """Writes the operator's edition of the statement where only the operator reads.

    Raises:
        AfterReleaseError: It could not be written; the release is complete.
    """
    ledger, config = run.books.ledger, run.config
    assert run.receipt is not None  # the release is there
    with _once_visible(run, AfterReleaseError):
        payer = _payer(run)
        balance: Balance | None = None
        with contextlib.suppress(UsageError):  # a ledger that was begun anew has no such account
            balance = ledger.balance(payer)
        with ledger.past() as past:
            account = ledger.account_in(past.declarations(), payer)
        tally = run.dead_letter.told()
        facts = InternalFacts(
            account=payer,
            ledger=ledger.place,
            spent_after=None if balance is None else _text(balance.spent_epsilon),
            cap=None if account is None else _text(account.epsilon_cap),
            inputs=tuple(file.path for file in run.source.files) or config.log,
            runner=config.runner,
            config_digest=config.digest,
            key_fingerprint=run.receipt.key_fingerprint,
            dead_letter=run.dead_letter.folder if tally is not None and tally.n_rejects else None,
            warnings=warnings,
            configuration=config.model_dump(mode="json"),
        )
        text = internal_statement(manifest_of_run(run), facts)
        write_anew(_statement_path(run), text.encode())


def _text(value: Fraction | None) -> str | None:
    return None if value is None else decimal_text(value)
