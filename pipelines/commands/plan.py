"""`tracecloak plan`: shows what a release would read, do, spend and write."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tracecloak.pipelines.commands.flags import add_release_flags
from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Result, show
from tracecloak.schemas.errors import UnusableRelease


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds those of the configuration and of the method, as `release` has them."""
    parser.usage = "tracecloak plan [CONFIG] [FLAG ...] [FLAG OF BEAM ...]"
    add_release_flags(parser, argv, config)


def run(given: Given) -> int:
    """Prints the plan; the exit code says whether `release` would refuse it as of no use."""
    from tracecloak.pipelines.configuration.config import load
    from tracecloak.pipelines.planning.plan import plan_of

    plan = plan_of(load(given.config, given.flags))
    judged = [verdict.to_json() for verdict in plan.verdicts]
    data = {"plan": plan.lines, "verdicts": judged, "is_refused": plan.is_refused}
    show(Result((), data, plan.lines), given.form)
    return UnusableRelease.exit_code if plan.is_refused else 0
