"""`tracecloak plan`: shows what a release would read, do, spend and write."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tracecloak.pipelines.commands.flags import add_release_flags, listed
from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Result, show
from tracecloak.schemas.errors import UsageError

_MOST_CASES = 1_000_000


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds those of the configuration and of the method, as `release` has them."""
    parser.usage = "tracecloak plan [CONFIG] [FLAG ...] [FLAG OF BEAM ...]"
    parser.add_argument(
        "--cases",
        help="numbers of cases, by commas, for which to say what it would be worth "
        "(default 100,1000,10000)",
    )
    add_release_flags(parser, argv, config)


def run(given: Given) -> int:
    """Prints the plan."""
    from tracecloak.pipelines.configuration.config import load
    from tracecloak.pipelines.planning.plan import plan_of

    flags = dict(given.flags)
    sizes = _sizes(flags.pop("cases", ""))
    plan = plan_of(load(given.config, flags), sizes)
    judged = [verdict.to_json() for verdict in plan.verdicts]
    show(Result((), {"plan": plan.lines, "verdicts": judged}, plan.lines), given.form)
    return 0


def _sizes(text: str) -> list[int]:
    sizes = listed(text)
    if not all(size.isdecimal() and 0 < int(size) <= _MOST_CASES for size in sizes):
        raise UsageError(f"cases must be whole numbers from 1 to {_MOST_CASES:,}, got {text!r}")
    return [int(size) for size in sizes]
