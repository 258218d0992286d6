"""`tracecloak release`: makes one release of a log."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tracecloak.pipelines.commands.flags import add_release_flags
from tracecloak.pipelines.commands.table import Given

_WORTH_LITTLE = (
    "advice    `tracecloak plan` with the same flags says beforehand what a release will be worth; "
    "more epsilon, fewer parts, a shorter vocabulary or another method may be worth more"
)


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds those of the configuration and of the method."""
    parser.usage = "tracecloak release [CONFIG.yaml] [FLAG ...] [FLAG OF BEAM ...]"
    add_release_flags(parser, argv, config)


def run(given: Given) -> int:
    """Makes the release, unless it is there already."""
    from tracecloak.pipelines.release.config import load

    config = load(given.config, given.flags)
    # With all of Beam, which a wrong configuration should not wait for.
    from tracecloak.pipelines.commands.progress import showing_progress
    from tracecloak.pipelines.release.run import run_release
    from tracecloak.pipelines.runners.memory import keep_freed_memory
    from tracecloak.schemas.published.manifest import SIGNATURE_NAMES

    keep_freed_memory()
    with showing_progress(with_runner=given.wants_traceback):
        outcome = run_release(config, given.of_beam)
    done = "already released" if outcome.was_released_before else "released"
    print(f"{done}  {outcome.folder.final}")
    print(f"manifest  {outcome.folder.final}/manifest.json")
    place = f"{outcome.folder.final}/{SIGNATURE_NAMES[0]}"
    if outcome.signature == "there":
        print(f"signature {place}")
    elif outcome.signature == "by another key":
        print(f"signature {place} is by another key than that of sign, and stays")
    elif config.sign is not None:
        print("signature missing: the release was made without sign, and stays as it is")
    held = outcome.came_out
    if held.sentence:
        print(f"holds     {held.sentence}")
    if not outcome.was_released_before and (held.is_empty or held.is_poor):
        print(_WORTH_LITTLE)
    return 0
