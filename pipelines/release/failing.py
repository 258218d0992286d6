"""A run that failed is settled: what became of it is written down, and the error says the mend."""

from __future__ import annotations

import logging

from tracecloak.pipelines.budget.books import after_release
from tracecloak.pipelines.planning.findings import log_findings
from tracecloak.pipelines.release.values import Run
from tracecloak.pipelines.runners.failures import reason_of, told_error
from tracecloak.schemas.errors import GuaranteeError, InputSchemaError, RetryLater, TracecloakError

_LOG = logging.getLogger("tracecloak")

_STAYS_SPENT = (
    "Its budget stays spent: run the same command again, which draws nothing new, or choose "
    "another release_id"
)


def failed(run: Run, error: BaseException) -> BaseException:
    """Writes down what became of a run that failed, and returns what to raise.

    What may have drawn noise stays spent, and its key stays for another run.
    """
    assert run.key is not None  # the run is claimed
    log_findings(run.source, run.dead_letter)
    books, folder = run.books, run.folder
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
            f"another run, with another key store, released {folder.final} while this one was at "
            "work, which released nothing. What this one reserved stays spent: end it with "
            "`tracecloak ledger forfeit`, and choose another release_id if you need a release of "
            "your own"
        )
    if shown == "parts":
        return TracecloakError(
            f"the pipeline failed with {reason_of(error)}, and {folder.final} holds a part of a "
            f"release. {_STAYS_SPENT}"
        )
    raised = told_error(error) if isinstance(error, Exception) else error
    if not books.void(run.key.fingerprint):
        books.note_cases(run.key.fingerprint)
        # Under the same key these are raised again.
        if isinstance(raised, (GuaranteeError, InputSchemaError)):
            _LOG.warning(
                "the log was looked at before it was refused, so what was reserved stays "
                "spent, and the same command would end so again: give this release up with "
                "`tracecloak ledger forfeit`, and take another release_id for other parameters"
            )
        else:
            _LOG.warning(
                "noise was drawn, or may have been, before the run ended. %s; or give it up with "
                "`tracecloak ledger forfeit`",
                _STAYS_SPENT,
            )
    return raised
