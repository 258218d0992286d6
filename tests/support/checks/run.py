"""All checks on one configuration."""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.checks import accounts, inputs, interrupted, ledgers
from tests.support.checks.finding import (
    Check,
    ChecksReport,
    Finding,
    NotApplicable,
    NotHeld,
)
from tests.support.checks.trial import Trial
from tracecloak.pipelines.budget.opening import store_at
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.ledger.entries import Entry
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.runners.names import IN_MEMORY, is_local
from tracecloak.schemas.errors import TracecloakError, UsageError

_LOG = logging.getLogger("tracecloak")

CHECKS: tuple[Check, ...] = (
    *interrupted.CHECKS, *inputs.CHECKS, *accounts.CHECKS, *ledgers.CHECKS,
)  # fmt: skip


def check_configuration(
    config: ReleaseConfig,
    runner: str = IN_MEMORY,
    with_declared: bool = False,
    checks: Sequence[Check] | None = None,
) -> ChecksReport:
    """Tries checks on copies of a configuration; reads and writes nothing that it names.

    Args:
        config: The operator's.
        runner: Of the copies, one of this machine.
        with_declared: Whether to read, of the configuration's ledger, what the officer declared.
        checks: Which; None: all.

    Raises:
        UsageError: The runner leaves this machine, the configuration is refused by what is public
            or reads no record that is made up for it, or the ledger is to be read and is not there.
    """
    if not is_local(runner):
        raise UsageError(
            f"runner {runner} leaves this machine, and the checks' ledgers do not; leave runner "
            "out, or name a local one"
        )
    checks = CHECKS if checks is None else checks
    declared = declarations_of(config) if with_declared else None
    with tempfile.TemporaryDirectory(prefix="tracecloak-checks-") as folder:
        trial = Trial(config, Path(folder), runner, declared)
        with _quiet():
            if trial.n_read == 0 and config.where:
                plain = config.model_copy(update={"where": ()})
                trial = Trial(plain, Path(folder), runner, declared)
            n_read = trial.n_read
        if n_read == 0:
            raise UsageError(
                "no record of a log that was made up for this configuration is read, so there is "
                "nothing to check; look at timestamp_format and the vocabulary"
            )
        with _quiet():
            usual = trial.is_released
        if usual.code != 0:
            raise UsageError(
                "a made-up log is not released with this configuration, so there is nothing to "
                f"check: {usual.text}"
            )
        findings = []
        for number, check in enumerate(checks, 1):
            progress = {"stage": "checks", "done": number - 1, "total": len(checks)}
            _LOG.info("check %d of %d: %s", number, len(checks), check.name, extra=progress)
            with _quiet():
                findings.append(_tried(check, trial))
        copy = _copy(config, trial)
    return ChecksReport(config.method, config.guarantee.kind, copy, tuple(findings))


def declarations_of(config: ReleaseConfig) -> list[Entry]:
    """Returns what the officer declared in the ledger of a configuration; writes nothing.

    Raises:
        UsageError: There is no ledger.
        LedgerError: It cannot be read.
    """
    url = config.ledger or store_at(config.key_store).ledger_url
    return [e for e in Ledger(url).entries() if e.action in ("account", "dataset")]


def _tried(check: Check, trial: Trial) -> Finding:
    try:
        seen = check.run(trial)
    except NotApplicable as aside:
        return Finding(check.name, check.tried, "not applicable", str(aside))
    except NotHeld as found:
        return Finding(check.name, check.tried, "did not hold", _sentence(str(found)))
    except TracecloakError as error:
        text = f"the check ended with an error: {error}"
        return Finding(check.name, check.tried, "did not hold", _sentence(text))
    return Finding(check.name, check.tried, "held", seen)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps the runs of copies, most of which are to fail, from telling of it."""

    def nothing(_: logging.LogRecord) -> bool:
        return False

    _LOG.addFilter(nothing)
    try:
        yield
    finally:
        _LOG.removeFilter(nothing)


def _copy(config: ReleaseConfig, trial: Trial) -> dict[str, str]:
    differs = {
        "log": (
            f"logs that are made up, the usual one of {trial.logs.n_usual:,} cases, as "
            f"{trial.input_format}; {trial.n_read:,} records of it are read"
        ),
        "output, key_store and other keys": "in a temporary folder",
        "ledger": (
            "an SQLite file in the key store, as configured"
            if config.ledger is None
            else "an SQLite file in place of the configured one"
        ),
        "release_id": "others",
    }
    if config.where != trial.config.where:
        differs["where"] = "left out, as no record that is made up passes the filters"
    if config.runner != trial.runner:
        differs["runner"] = f"{trial.runner} in place of {config.runner}"
    if config.accounts is not None:
        differs["accounts"] = "not read; the checks declare their own"
    return differs
