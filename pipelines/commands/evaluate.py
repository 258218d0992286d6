"""`tracecloak evaluate`: compares a release with its original; for the operator only."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from tracecloak.pipelines.commands.flags import add_reading_flags, file_to_write
from tracecloak.pipelines.commands.table import Given


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds those of the two logs and of the report."""
    add_reading_flags(parser)
    parser.add_argument("--original", required=True, help="path or glob of the original log")
    parser.add_argument("--released", required=True, help="folder of a release, or of releases")
    parser.add_argument("--output", required=True, help="JSON file to write")


def run(given: Given) -> int:
    """Compares, and writes the report."""
    from tracecloak.pipelines.measure.evaluate import evaluate
    from tracecloak.pipelines.release.config import load_source
    from tracecloak.pipelines.release.source import source_of

    flags = dict(given.flags)
    output = file_to_write("output", flags.pop("output"))
    released = flags.pop("released")
    original = load_source({"input": flags.pop("original"), **flags})
    report = evaluate(source_of(original), released)
    output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(f"evaluation  {output} (not private: for the operator only)")
    return 0
