"""A run is settled: what comes after its release is visible."""

from __future__ import annotations

import logging

from tracecloak.pipelines.budget.books import AfterReleaseError, after_release
from tracecloak.pipelines.planning.findings import log_findings
from tracecloak.pipelines.release.values import Run

_LOG = logging.getLogger("tracecloak")


def settled(run: Run) -> None:
    """Does what comes after a release is visible.

    Raises:
        AfterReleaseError: It failed; running the release again mends it.
    """
    try:
        _settled(run)
    except AfterReleaseError:
        raise
    except BaseException as error:  # an interrupt, too: the release is visible
        raise after_release(run.folder, error) from error


def _settled(run: Run) -> None:
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
