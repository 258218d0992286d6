"""`tracecloak key new`: writes a fresh release key for pipelines of somebody's own."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tracecloak.pipelines.commands.table import Given


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds the action and the file."""
    parser.add_argument("action", choices=["new"], help="new: make a key")
    parser.add_argument("--output", required=True, help="file to write; it must not exist")


def run(given: Given) -> int:
    """Writes the key."""
    from tracecloak.pipelines.budget.key_store import new_key_file

    path = Path(given.flags["output"])
    new_key_file(path)
    print(f"key  {path} (whoever has it can subtract the noise of its release)")
    return 0
