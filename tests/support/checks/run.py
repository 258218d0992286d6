"""All checks on one configuration."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.support.checks import accounts, inputs, interrupted, ledgers
from tests.support.checks.finding import NotApplicable, NotHeld
from tests.support.checks.trial import Trial
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.runners.flags import IN_MEMORY
from tracecloak.schemas.errors import TracecloakError

CHECKS = interrupted.CHECKS | inputs.CHECKS | accounts.CHECKS | ledgers.CHECKS
HELD, ASIDE, BROKEN = "held", "not applicable: ", "did not hold: "


def check_configuration(
    config: ReleaseConfig, names: Iterable[str] = CHECKS, runner: str = IN_MEMORY
) -> dict[str, str]:
    """Tries checks on copies of a configuration; reads and writes nothing that it names.

    Returns:
        By name HELD, or why it is ASIDE, or what was BROKEN.
    """
    with tempfile.TemporaryDirectory(prefix="tracecloak-checks-") as folder:
        trial = Trial(config, Path(folder), runner)
        return {name: _tried(name, trial) for name in names}


def _tried(name: str, trial: Trial) -> str:
    try:
        CHECKS[name](trial)
    except NotApplicable as aside:
        return f"{ASIDE}{aside}"
    except (NotHeld, TracecloakError) as found:
        return f"{BROKEN}{found}"
    return HELD
