"""`tracecloak plan`: shows what a release would read, do, spend and write."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tracecloak.pipelines.commands.flags import add_release_flags
from tracecloak.pipelines.commands.table import Given


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds those of the configuration and of the method, as `release` has them."""
    parser.usage = "tracecloak plan [CONFIG.yaml] [FLAG ...] [FLAG OF BEAM ...]"
    add_release_flags(parser, argv, config)


def run(given: Given) -> int:
    """Prints the plan."""
    from tracecloak.pipelines.release.config import load
    from tracecloak.pipelines.release.plan import plan_lines

    print("\n".join(plan_lines(load(given.config, given.flags))))
    return 0
