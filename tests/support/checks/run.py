"""All checks on one configuration."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
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
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.runners.names import IN_MEMORY
from tracecloak.schemas.errors import TracecloakError

_LOG = logging.getLogger("tracecloak")

CHECKS: tuple[Check, ...] = (
    *interrupted.CHECKS, *inputs.CHECKS, *accounts.CHECKS, *ledgers.CHECKS,
)  # fmt: skip


def check_configuration(
    config: ReleaseConfig, runner: str = IN_MEMORY, checks: Sequence[Check] = CHECKS
) -> ChecksReport:
    """Tries checks on copies of a configuration; reads and writes nothing that it names."""
    with tempfile.TemporaryDirectory(prefix="tracecloak-checks-") as folder:
        trial = Trial(config, Path(folder), runner)
        return ChecksReport(tuple(_tried(check, trial) for check in checks))


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
